/** What was run, and what a reader must know about its results. */

import { make } from "./dom.js";
import { energyOfRun } from "./series.js";
import { durationText } from "./time_axis.js";
import { counted, countText, energyText } from "./units.js";

const MAX_WARNINGS = 20;

/**
 * Fill the header of the page.
 *
 * @param {HTMLElement} container
 * @param {{model: RunModel, name: string}[]} runs
 */
export function showHeader(container, runs) {
  const scenarios = [...new Set(runs.map(({ model }) => String(model.about.scenario ?? "run")))];
  const names = whatRan(runs);
  const title = make("h1", { dir: "auto" }, scenarios.join(", "));
  const subtitle = make("p", { class: "subtitle", dir: "auto" }, names);
  const facts = make("dl", { class: "header-facts" }, ...headerFacts(runs));
  container.replaceChildren(make("div", { class: "titles" }, title, subtitle), facts,
    ...runs.flatMap(({ model, name }) => noticesOf(model, runs.length > 1 ? `${name}: ` : "")));
  document.title = `${scenarios.join(", ")}, ${names} – hpcosim`;
}

/** Return who scheduled the runs, and the names of several runs that are not their schedulers. */
function whatRan(runs) {
  const schedulers = runs.map(({ model }) => String(model.about.scheduler ?? ""));
  const known = [...new Set(schedulers.filter(Boolean))];
  const parts = known.length > 0 ? [`scheduled by ${known.join(", ")}`] : [];
  const named = runs.length > 1 && runs.some(({ name }, at) => name !== schedulers[at]);
  if (named) parts.push(`runs: ${runs.map(({ name }) => name).join(", ")}`);
  return parts.join("; ");
}

/** Return the facts that are the same in all runs. */
function headerFacts(runs) {
  const [first, ...others] = runs.map(({ model }) => factsOf(model, runs.length === 1));
  return first
    .filter(([, text], at) => text !== null && others.every((facts) => facts[at][1] === text))
    .map(([title, text]) => make("div", {}, make("dt", {}, title),
      make("dd", { id: `fact-${title.replace(" ", "-")}` }, String(text))));
}

function factsOf(model, single) {
  const { about } = model;
  return [
    ["jobs", countText(model.jobs)],
    ["nodes", countText(model.nodes.count)],
    ["cores", countText(model.coreCount)],
    ["time", durationText(model.nowS - model.beginS)],
    ["mean wait", waitText(about.metrics?.mean_wait_s)],
    ["energy", single ? "…" : null],
    ["seed", about.seed ?? null],
    ["hpcosim", about.hpcosim ?? null],
  ];
}

function waitText(waitS) {
  return typeof waitS === "number" ? durationText(waitS) : null;
}

/**
 * Write the energy of the only run into the header: the area of the drawn power.
 *
 * @param {{model: RunModel}[]} runs
 */
export function showEnergy(runs) {
  const place = document.getElementById("fact-energy");
  if (place) place.textContent = energyText(energyOfRun(runs[0].model));
}

/** Return the notices of a run: that it is not complete, and its warnings. */
function noticesOf(model, prefix) {
  const { complete, ended_because: reason, warnings = [] } = model.about;
  const notices = [];
  if (complete === false) {
    notices.push(make("p", { class: "notice strong", dir: "auto" },
      `${prefix}Incomplete results: ${reason ?? "the run ended early"}`));
  }
  const items = warnings
    .slice(0, MAX_WARNINGS)
    .map((text) => make("li", { dir: "auto" }, String(text)));
  if (items.length > 0) {
    notices.push(make("details", { class: "notice", open: items.length < 3 },
      make("summary", {}, `${prefix}${counted(warnings.length, "warning")}`),
      make("ul", {}, ...items)));
  }
  return notices;
}
