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
  const held = stepsOfSpans({
    fromS: model.startS.subarray(0, model.jobs),
    toS: endsOfStarted(model),
    size: heldByJob,
  });
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

function endsOfStarted(model) {
  const ends = Float64Array.from(model.endS.subarray(0, model.jobs));
  for (let row = 0; row < ends.length; row += 1) {
    if (Number.isNaN(model.startS[row])) ends[row] = NaN;
  }
  return ends;
}

function heldCores(model) {
  const held = new Float64Array(model.jobs);
  const { count, job, first, last } = model.boxes;
  for (let at = 0; at < count; at += 1) held[job[at]] += last[at] - first[at] + 1;
  return held;
}

/** A job waits from its submission to its start, or to its end if it never starts. */
function queueSteps(model) {
  const left = Float64Array.from(model.startS.subarray(0, model.jobs));
  for (let row = 0; row < left.length; row += 1) {
    if (Number.isNaN(left[row])) left[row] = model.endS[row];
  }
  const size = new Float64Array(model.jobs).fill(1);
  return stepsOfSpans({ fromS: model.submitS.subarray(0, model.jobs), toS: left, size });
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
