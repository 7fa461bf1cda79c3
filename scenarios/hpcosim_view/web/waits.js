/** Why a job waited: what the scheduler said, and what the recording shows. */

import { seriesOf } from "./series.js";

const MAX_OVERTAKERS = 20;

/**
 * Return when a job stopped waiting: its start, its end if it never started, or now.
 * @param {RunModel} model
 * @param {number} row
 */
export function waitEnd(model, row) {
  if (!Number.isNaN(model.startS[row])) return model.startS[row];
  return Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
}

/**
 * Return facts about the wait of a job.
 * @param {RunModel} model
 * @param {number} row
 * @returns {{fromS: number, toS: number, waitS: number, said: Object[], scarceShare: number,
 *   scarceUntilS: number, ahead: number, overtakers: number[], overtaken: number,
 *   freedBy: number[], freedCores: number}}
 *   `scarceShare`: share of the wait in which fewer cores were free than the job asks for;
 *   `scarceUntilS`: last end of such a time, NaN: there was none;
 *   `ahead`: jobs submitted earlier that waited when this one came;
 *   `overtaken`: number of jobs submitted later that started while this one waited;
 *   `overtakers`: the first of their rows; `freedBy`: rows of jobs that ended at the start;
 *   `freedCores`: cores that they held
 */
export function waitFacts(model, row) {
  const fromS = model.submitS[row];
  const toS = waitEnd(model, row);
  const scarce = scarcity(model, row, fromS, toS);
  const order = orderFacts(model, row, fromS, toS);
  const freedBy = Number.isNaN(model.startS[row]) || toS === fromS ? [] : endedAt(model, row, toS);
  const { heldByJob } = seriesOf(model);
  return {
    fromS,
    toS,
    waitS: toS - fromS,
    said: forecasts(model, row),
    ...scarce,
    ...order,
    freedBy,
    freedCores: freedBy.reduce((sum, other) => sum + heldByJob[other], 0),
  };
}

/**
 * Return what the scheduler said about a job, with the errors of its forecasts.
 * @returns {Array<{timeS: number, reason: string, expectedS: number, errorS: number}>}
 *   `errorS`: start - expected start, NaN: one of them is unknown
 */
function forecasts(model, row) {
  return model.explanationsOf(row).map(({ timeS, reason, expectedStartS }) => ({
    timeS,
    reason,
    expectedS: expectedStartS,
    errorS: model.startS[row] - expectedStartS,
  }));
}

function scarcity(model, row, fromS, toS) {
  const { held, cores } = seriesOf(model);
  const most = cores - model.cores[row];
  let [scarceS, scarceUntilS] = [0, NaN];
  for (let at = Math.max(held.indexAt(fromS), 0); at < held.timesS.length; at += 1) {
    const beginS = Math.max(held.timesS[at], fromS);
    if (beginS >= toS) break;
    const endS = Math.min(held.timesS[at + 1] ?? toS, toS);
    if (held.values[at] <= most || endS <= beginS) continue;
    scarceS += endS - beginS;
    scarceUntilS = endS;
  }
  return { scarceShare: toS > fromS ? scarceS / (toS - fromS) : 0, scarceUntilS };
}

function orderFacts(model, row, fromS, toS) {
  let [ahead, overtaken] = [0, 0];
  const overtakers = [];
  for (let other = 0; other < row; other += 1) {
    if (waitEnd(model, other) > fromS) ahead += 1;
  }
  for (let other = row + 1; other < model.jobs; other += 1) {
    const startS = model.startS[other];
    if (!(startS >= fromS && startS < toS)) continue;
    overtaken += 1;
    if (overtakers.length < MAX_OVERTAKERS) overtakers.push(other);
  }
  return { ahead, overtaken, overtakers };
}

function endedAt(model, row, timeS) {
  const rows = [];
  for (let other = 0; other < model.jobs; other += 1) {
    const ended = model.endS[other] === timeS && model.startS[other] < timeS;
    if (ended && other !== row) rows.push(other);
  }
  return rows;
}

/**
 * Return rows of the jobs that waited longest, the longest first.
 * @param {RunModel} model
 * @param {number} count
 */
export function longestWaits(model, count) {
  const kept = [];
  for (let row = 0; row < model.jobs; row += 1) {
    const waitS = model.startS[row] - model.submitS[row];
    if (!(waitS > 0)) continue;
    if (kept.length === count && waitS <= kept[count - 1][0]) continue;
    const place = kept.findIndex(([other]) => other < waitS);
    kept.splice(place < 0 ? kept.length : place, 0, [waitS, row]);
    if (kept.length > count) kept.pop();
  }
  return kept.map(([, row]) => row);
}
