/** What the charts below the schedule show, computed from the columns of a run. */

import { NODE_STATES } from "./model.js";
import { Steps, stepsOfChanges, stepsOfSpans } from "./steps.js";

/** Labels of `NODE_STATES`. */
export const NODE_STATE_LABELS = {
  computing: "Computing",
  idle: "Idle",
  sleeping: "Asleep",
  switching_on: "Switching on",
  switching_off: "Switching off",
  down: "Down",
};

const seriesOfModels = new WeakMap();

/**
 * Return the step functions of a run; the same objects until the run grows.
 * @param {RunModel} model
 * @returns {{power: Steps[], totalPower: Steps, queue: Steps, held: Steps, usage: Steps,
 *   heldByJob: Float64Array, cores: number}} `power`: W, by state; `queue`: waiting jobs;
 *   `held`: cores that jobs hold; `usage`: their share of all `cores`
 */
export function seriesOf(model) {
  const known = seriesOfModels.get(model);
  if (known && known.version === model.version) return known;
  const heldByJob = heldCores(model);
  const cores = model.coreCount;
  const held = heldSteps(model);
  const found = {
    version: model.version,
    power: NODE_STATES.map((_, state) => powerOfState(model, state)),
    totalPower: totalPower(model),
    queue: queueSteps(model),
    heldByJob,
    held,
    usage: new Steps(held.timesS, held.values.map((value) => value / Math.max(cores, 1))),
    cores,
  };
  seriesOfModels.set(model, found);
  return found;
}

/** Return the number of cores that each job holds, or held in its last run. */
function heldCores(model) {
  const held = new Float64Array(model.jobs);
  const { firstBox, boxCount } = model;
  for (let row = 0; row < held.length; row += 1) {
    held[row] = coresOfBoxes(model, firstBox[row], firstBox[row] + boxCount[row]);
  }
  return held;
}

function coresOfBoxes({ boxes }, from, to) {
  let cores = 0;
  for (let box = from; box < to; box += 1) cores += boxes.last[box] - boxes.first[box] + 1;
  return cores;
}

/** Cores are held in computing periods: a job that was requeued or suspended has several. */
function heldSteps(model) {
  const { boxes, startBox } = model;
  const end = (box) => (boxes.endS[box] === Infinity ? NaN : boxes.endS[box]);
  return stepsOfSpans({
    fromS: Float64Array.from(startBox, (box) => boxes.startS[box]),
    toS: Float64Array.from(startBox, end),
    size: Float64Array.from(startBox, (box, period) => (
      coresOfBoxes(model, box, startBox[period + 1] ?? boxes.count))),
  });
}

/**
 * A job waits from its submission, and from each requeue, to its next start, or to its end if it
 * never starts.
 */
function queueSteps(model) {
  const { boxes, startBox, pauses, jobs } = model;
  const fromS = [...model.submitS];
  const toS = new Array(jobs).fill(NaN);
  const waits = Int32Array.from(fromS.keys()); // the present wait by row; -1: none
  const begin = (period) => {
    const row = boxes.job[startBox[period]];
    if (waits[row] >= 0) toS[waits[row]] = boxes.startS[startBox[period]];
    waits[row] = -1;
  };
  let period = 0;
  for (let i = 0; i < pauses.count; i += 1) {
    // A period that ends has begun, whatever else happened at this instant.
    while (period < startBox.length && (period <= pauses.start[i]
      || boxes.startS[startBox[period]] < pauses.timeS[i])) begin(period++);
    if (!model.waitsAfter(pauses.start[i])) continue;
    const row = boxes.job[startBox[pauses.start[i]]];
    if (waits[row] >= 0) continue; // requeued while suspended: a second row of the same period
    waits[row] = fromS.push(pauses.timeS[i]) - 1;
    toS.push(NaN);
  }
  while (period < startBox.length) begin(period++);
  for (let row = 0; row < jobs; row += 1) if (waits[row] >= 0) toS[waits[row]] = model.endS[row];
  const size = new Float64Array(fromS.length).fill(1);
  return stepsOfSpans({ fromS: Float64Array.from(fromS), toS: Float64Array.from(toS), size });
}

function powerOfState(model, wanted) {
  const { count, timeS, state, powerW } = model.watts;
  const times = new Float64Array(count);
  const changes = new Float64Array(count);
  let [rows, before] = [0, 0];
  for (let at = 0; at < count; at += 1) {
    if (state[at] !== wanted) continue;
    times[rows] = timeS[at];
    changes[rows] = powerW[at] - before;
    before = powerW[at];
    rows += 1;
  }
  return stepsOfChanges(times.subarray(0, rows), changes.subarray(0, rows));
}

function totalPower(model) {
  const { count, timeS, state, powerW } = model.watts;
  const present = NODE_STATES.map(() => 0);
  const times = new Float64Array(count);
  const changes = new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    times[at] = timeS[at];
    changes[at] = powerW[at] - present[state[at]];
    present[state[at]] = powerW[at];
  }
  return stepsOfChanges(times, changes);
}

/**
 * Return the energy of all nodes from the begin of a run to now: the integral of the power, J.
 * @param {RunModel} model
 */
export function energyOfRun(model) {
  return seriesOf(model).power.reduce((sum, steps) => sum + steps.integralTo(model.nowS), 0);
}
