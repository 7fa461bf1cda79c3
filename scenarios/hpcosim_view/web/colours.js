/** Colourings: what the colour of a job means. */

import { JOB_STATES } from "./model.js";
import { categoryPalette, sequencePalette, statePalette } from "./palettes.js";

const UNKNOWN_LABEL = "unknown";
const OTHERS_LABEL = "others";

// Classes with fixed bounds; the colours are spread over those that occur.
const SIZE_BOUNDS = [1, 4, 16, 64, 256, 1024, 4096];
const WAIT_BOUNDS_S = [0, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600];
const ENERGY_BOUNDS_J = [1, 10, 100, 1e3, 1e4, 1e5, 1e6].map((wh) => wh * 3600);
const SIZE_LABELS = ["1 core", "2–4", "5–16", "17–64", "65–256", "257–1024", "1025–4096",
  "over 4096"];
const WAIT_LABELS = ["no wait", "up to 1 min", "up to 10 min", "up to 1 h", "up to 6 h",
  "up to 1 d", "up to 7 d", "over 7 d"];
const ENERGY_LABELS = ["up to 1 Wh", "up to 10 Wh", "up to 100 Wh", "up to 1 kWh", "up to 10 kWh",
  "up to 100 kWh", "up to 1 MWh", "over 1 MWh"];

/**
 * What the colour of a job means, by name. `colourOf(model, row, theme)` returns `#rrggbb`;
 * `legend(model, theme)` returns the classes that occur, `[{label, colour, jobs}]`.
 */
export const COLOURINGS = {
  user: makeColouring("user", categoryPalette,
    (model) => rankedClasses(model.user, model.names.users)),
  size: makeSequence("size",
    (model) => boundedClasses(model.jobs, (row) => model.cores[row], SIZE_BOUNDS, SIZE_LABELS)),
  wait: makeSequence("wait",
    (model) => boundedClasses(model.jobs, (row) => waitOf(model, row), WAIT_BOUNDS_S, WAIT_LABELS)),
  state: makeColouring("state", statePalette, (model) => ({ of: model.state, labels: JOB_STATES })),
  partition: makeColouring("partition", categoryPalette,
    (model) => rankedClasses(model.partition, model.names.partitions)),
  energy: makeSequence("energy",
    (model) => boundedClasses(model.jobs, (row) => model.energyJ[row], ENERGY_BOUNDS_J,
      ENERGY_LABELS)),
};

/** Return the name of the colouring to begin with: `user` if there are several, or `size`. */
export function defaultColouring(model) {
  return model.names.users.length > 1 ? "user" : "size";
}

/**
 * Return the class of each job in a colouring.
 *
 * @returns {{of: Uint8Array, labels: string[]}} index into the palette by row, and the labels of
 *   the classes.
 */
export function classesOf(name, model) {
  return keptClasses(name, model, COLOURINGS[name].classes);
}

/** Return the size class of each job as `classesOf` does, with the same numbers in all runs. */
export function sizeClassesOf(model) {
  return COLOURINGS.size.bounded(model);
}

/**
 * Give a class of a quantity the same colour in all these runs.
 * @param {RunModel[]} models whole runs.
 */
export function shareColours(models) {
  for (const model of models) SHARED_COLOURS.set(model, models);
}

const SHARED_COLOURS = new WeakMap();
const COLOUR_CLASSES = new WeakMap();

/** Return what `classes` returned for this version of a model. */
function keptClasses(name, model, classes) {
  let kept = COLOUR_CLASSES.get(model);
  if (kept?.version !== model.version) {
    kept = { version: model.version };
    COLOUR_CLASSES.set(model, kept);
  }
  kept[name] ??= classes(model);
  return kept[name];
}

function makeColouring(name, palette, classes) {
  return {
    label: name,
    palette,
    classes,
    colourOf: (model, row, theme = "light") => palette(theme)[classesOf(name, model).of[row]],
    legend(model, theme = "light") {
      const { of, labels } = classesOf(name, model);
      const jobs = new Array(labels.length).fill(0);
      for (const one of of) jobs[one]++;
      return labels
        .map((label, at) => ({ label, colour: palette(theme)[at], jobs: jobs[at] }))
        .filter((entry) => entry.jobs > 0);
    },
  };
}

/** Return a colouring by a quantity; `classes` returns its bounded classes. */
function makeSequence(label, classes) {
  const bounded = (model) => keptClasses(`${label}, bounded`, model, classes);
  return { ...makeColouring(label, sequencePalette, (model) => spread(model, bounded)), bounded };
}

/**
 * Number bounded classes anew, so that those that occur are spread over the palette. Its first
 * colour, the nearest to the background, is used only if all classes occur.
 */
function spread(model, bounded) {
  const { of, labels } = bounded(model);
  const unknown = labels.length - 1;
  const occurs = new Uint8Array(labels.length);
  for (const each of SHARED_COLOURS.get(model) ?? [model]) {
    for (const one of bounded(each).of) occurs[one] = 1;
  }
  const used = [...occurs.keys()].filter((one) => occurs[one] && one < unknown);
  const first = used.length < unknown ? 1 : 0;
  const step = (unknown - 1 - first) / Math.max(used.length - 1, 1);
  const place = new Uint8Array(labels.length).fill(unknown);
  used.forEach((one, at) => (place[one] = used.length === 1 ? 4 : first + Math.round(at * step)));
  const spreadLabels = labels.map(() => "");
  labels.forEach((label, one) => {
    if (one === unknown || occurs[one]) spreadLabels[place[one]] = label;
  });
  return { of: of.map((one) => place[one]), labels: spreadLabels };
}

/** Return the time that a job has waited so far, s. */
function waitOf(model, row) {
  const { startS, endS, submitS } = model;
  if (!Number.isNaN(startS[row])) return startS[row] - submitS[row];
  return (Number.isNaN(endS[row]) ? model.nowS : endS[row]) - submitS[row];
}

/** Return classes of a quantity; bounds are upper ones, included. */
function boundedClasses(jobs, valueOf, bounds, labels) {
  const of = new Uint8Array(jobs);
  for (let row = 0; row < jobs; row++) {
    const value = valueOf(row);
    let at = 0;
    while (at < bounds.length && !(value <= bounds[at])) at++;
    of[row] = Number.isNaN(value) ? labels.length : at;
  }
  return { of, labels: [...labels, UNKNOWN_LABEL] };
}

/** Return classes of names: the most frequent ones have a colour each, the others share one. */
function rankedClasses(index, names) {
  const own = categoryPalette("light").length - 1;
  const jobs = new Float64Array(names.length);
  for (const name of index) if (name >= 0) jobs[name]++;
  const ranked = [...names.keys()].sort((a, b) => jobs[b] - jobs[a] || a - b);
  const frequent = ranked.slice(0, own);
  const labels = frequent.map((name) => names[name]);
  while (labels.length < own) labels.push("");
  labels.push(names.length > own ? OTHERS_LABEL : UNKNOWN_LABEL);
  const rank = new Uint8Array(names.length).fill(own);
  frequent.forEach((name, at) => (rank[name] = at));
  const of = new Uint8Array(index.length);
  for (let row = 0; row < of.length; row++) of[row] = index[row] >= 0 ? rank[index[row]] : own;
  return { of, labels };
}
