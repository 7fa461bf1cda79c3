/** The metrics of the runs, with their differences from the first run. */

import { make, makePane } from "./dom.js";
import { dataTable } from "./tables.js";
import { durationText } from "./time_axis.js";
import {
  energyText, numberText, powerText, titleOfMetric, unitOfMetric, UNKNOWN_TEXT,
} from "./units.js";

/**
 * Create the pane with all metrics.
 * @param {HTMLElement} container
 * @param {Array<{model: RunModel, name: string}>} runs
 */
export function createMetrics(container, runs) {
  const names = [...new Set(runs.flatMap(({ model }) => Object.keys(model.about.metrics ?? {})))];
  const pane = makePane("Metrics", "metrics");
  if (names.length === 0) pane.append(make("p", {}, "The run has no metrics."));
  else pane.append(make("div", { class: "metrics-grid" }, ...metricsTables(runs, names)));
  container.append(pane);
}

/** One table for several runs, two beside each other for one run. */
function metricsTables(runs, names) {
  const half = runs.length > 1 ? names.length : Math.ceil(names.length / 2);
  return [names.slice(0, half), names.slice(half)]
    .filter((part) => part.length > 0)
    .map((part) => dataTable(metricsTable(runs, part)));
}

function metricsTable(runs, names) {
  const single = runs.length === 1;
  const columns = ["metric", "unit"];
  runs.forEach(({ name }, run) => columns.push(
    single ? "value" : name, ...(run ? ["difference", "%"] : [])));
  const rows = names.map((name) => {
    const first = runs[0].model.about.metrics?.[name];
    const cells = runs.flatMap(({ model }, run) => {
      const value = model.about.metrics?.[name];
      const shown = make("span", { title: readable(name, value) }, metricText(value));
      return run ? [shown, ...differenceCells(first, value)] : [shown];
    });
    const title = make("span", { title: name }, titleOfMetric(name));
    return [title, unitOfMetric(name), ...cells, ...(single ? [readable(name, first)] : [])];
  });
  if (single) columns.push("in larger units");
  const caption = runs.length > 1
    ? `All metrics. Differences: from ${runs[0].name}.`
    : "Metrics of the run.";
  return { caption, columns, rows };
}

function differenceCells(first, value) {
  if (typeof first !== "number" || typeof value !== "number") return [UNKNOWN_TEXT, UNKNOWN_TEXT];
  const difference = value - first;
  const sign = difference > 0 ? "+" : "";
  if (difference === 0) return ["0", "0"];
  const percent = numberText((difference / Math.abs(first)) * 100, 3);
  return [`${sign}${metricText(difference)}`, first === 0 ? UNKNOWN_TEXT : `${sign}${percent}`];
}

function metricText(value) {
  return typeof value === "number" ? numberText(value, 6) : UNKNOWN_TEXT;
}

/** Return a value with a unit that reads well, for the hint of a cell; empty: there is none. */
function readable(name, value) {
  if (typeof value !== "number") return "";
  const text = { s: durationText, J: energyText, W: powerText }[unitOfMetric(name)];
  return text ? text(value) : "";
}
