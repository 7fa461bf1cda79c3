/** Statistics of jobs: waits and bounded slowdowns, by size and by user. */

import { sizeClassesOf } from "./colours.js";

const BOUND_S = 10;
const SHARES = [0.05, 0.25, 0.5, 0.75, 0.95];
const MAX_USERS = 10;

export const MEASURES = {
  wait: { label: "wait", of: startedWaitOf },
  slowdown: { label: "bounded slowdown", of: boundedSlowdownOf },
};

/** Return the wait of a job that started, s; NaN: it did not. */
export function startedWaitOf(model, row) {
  return model.startS[row] - model.submitS[row];
}

/** Return max(1, response / max(run time, 10 s)) of a job that ended; NaN: it did not run. */
export function boundedSlowdownOf(model, row) {
  const runS = model.endS[row] - model.startS[row];
  const responseS = model.endS[row] - model.submitS[row];
  return Number.isNaN(runS) ? NaN : Math.max(1, responseS / Math.max(runS, BOUND_S));
}

/**
 * Return a quantile of ascending values, linear between neighbours.
 * @param {Float64Array} sorted not empty
 * @param {number} share 0 to 1
 */
function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

/**
 * Return count, mean, quantiles and maximum of values.
 * @param {number[]} values
 * @returns {{count: number, mean: number, quantiles: number[], greatest: number}}
 */
function summaryOf(values) {
  const sorted = Float64Array.from(values).sort();
  const count = sorted.length;
  if (count === 0) return { count, mean: NaN, quantiles: SHARES.map(() => NaN), greatest: NaN };
  return {
    count,
    mean: sorted.reduce((sum, value) => sum + value, 0) / count,
    quantiles: SHARES.map((share) => quantile(sorted, share)),
    greatest: sorted[count - 1],
  };
}

/**
 * Return the summaries of a measure by size class, for each run.
 * @param {RunModel[]} models
 * @param {(model: RunModel, row: number) => number} measure
 * @returns {Array<{name: string, runs: Object[]}>} without the classes that no run has
 */
export function bySize(models, measure) {
  const { labels } = sizeClassesOf(models[0]);
  const names = labels.map((label) => (label.includes("core") ? label : `${label} cores`));
  return grouped(models, measure, names, (model, row) => sizeClassesOf(model).of[row]);
}

/**
 * Return the summaries of a measure by user, for each run: those with most jobs, then all others.
 * @param {RunModel[]} models
 * @param {(model: RunModel, row: number) => number} measure
 * @returns {Array<{name: string, runs: Object[]}>} empty: no user is known
 */
export function byUser(models, measure) {
  const jobs = new Map();
  for (const model of models) {
    for (let row = 0; row < model.jobs; row += 1) {
      const name = userOf(model, row);
      if (name !== null) jobs.set(name, (jobs.get(name) ?? 0) + 1);
    }
  }
  const most = ([name, count], [other, others]) => others - count || (name < other ? -1 : 1);
  const chosen = [...jobs].sort(most).slice(0, MAX_USERS);
  if (chosen.length === 0) return [];
  const names = chosen.map(([name]) => name);
  const numbers = new Map(names.map((name, number) => [name, number]));
  const others = jobs.size - names.length;
  if (others > 0) names.push(others === 1 ? "1 other user" : `${others} other users`);
  return grouped(models, measure, names, (model, row) => {
    const name = userOf(model, row);
    return name === null ? -1 : (numbers.get(name) ?? MAX_USERS);
  });
}

function userOf(model, row) {
  return model.user[row] < 0 ? null : model.names.users[model.user[row]];
}

function grouped(models, measure, names, classOf) {
  const values = names.map(() => models.map(() => []));
  models.forEach((model, run) => {
    for (let row = 0; row < model.jobs; row += 1) {
      const number = classOf(model, row);
      const value = measure(model, row);
      if (number >= 0 && !Number.isNaN(value)) values[number][run].push(value);
    }
  });
  return names
    .map((name, number) => ({ name, runs: values[number].map(summaryOf) }))
    .filter(({ runs }) => runs.some(({ count }) => count > 0));
}
