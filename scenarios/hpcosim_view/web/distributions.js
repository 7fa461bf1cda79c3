/** Distributions of waits and bounded slowdowns, by size class and by user, as box plots. */

import { make, makePane, makeSwatch, sharpContext, themeColour } from "./dom.js";
import { MEASURES, bySize, byUser } from "./statistics.js";
import { dataTable, lazyTable } from "./tables.js";
import { durationText } from "./time_axis.js";
import { countText, numberText } from "./units.js";

const ROW_HEIGHT = 20;
const GROUP_SPACE = 10;
const NAME_WIDTH = 128;
const BOX_TOP = 8;
const BOX_AXIS = 26;
const MAX_NAME = 18;
const PARTIAL_NOTE = " The run is incomplete: waits here are of all jobs that started, mean_wait_s is of "
  + "the jobs that ended.";
const SMALL_RUN_JOBS = 20000;
const WAIT_TICKS = [1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000];

/** How each measure is drawn and written: on a logarithmic axis from `least` on. */
const AXES = {
  wait: { least: 1, leastText: "≤ 1 s", ticks: WAIT_TICKS, text: durationText, title: "Wait" },
  slowdown: {
    least: 1, leastText: "1", ticks: [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7],
    text: (value) => numberText(value, 4), title: "Bounded slowdown",
  },
};

/**
 * Create the pane of distributions. It computes them when it first becomes visible.
 * @param {HTMLElement} container
 * @param {Array<{model: RunModel, name: string}>} runs
 * @param {{theme: Object}} options
 */
export function createDistributions(container, runs, { theme }) {
  const charts = make("div", { class: "charts-grid" }, make("div", { class: "pending" }));
  const note = "Box: middle half of the jobs, with the median as a line. Whiskers: 5 % to 95 %. "
    + "Dot: mean. The axes are logarithmic. Bounded slowdown: response / max(run time, 10 s).";
  const partial = runs.some(({ model }) => model.about.complete === false) ? PARTIAL_NOTE : "";
  const legend = runs.length > 1 ? runsLegend(runs) : null;
  container.append(makePane("Waits and slowdowns", "distributions",
    make("p", { class: "note" }, note + partial), legend, charts));
  const models = runs.map(({ model }) => model);
  whenVisible(charts, models, () => {
    charts.replaceChildren();
    for (const [group, choose] of [["size", bySize], ["user", byUser]]) {
      for (const key of Object.keys(AXES)) {
        const classes = choose(models, MEASURES[key].of);
        if (classes.length > 0) charts.append(boxPlot(key, group, classes, runs, theme));
      }
    }
    if (charts.childElementCount === 0) charts.append(make("p", {}, "No job started."));
  });
}

/**
 * Return a legend of the colours of runs.
 * @param {Array<{name: string}>} runs
 */
function runsLegend(runs) {
  return make("p", { class: "legend" }, ...runs.map(({ name }, at) =>
    make("span", { class: "key-item" }, makeSwatch(`var(--run-${at + 1})`), name)));
}

/**
 * Call a function once: now for small runs; for others when an element comes near the visible part
 * of the page, or on print.
 * @param {HTMLElement} element
 * @param {RunModel[]} models
 * @param {() => void} act
 */
export function whenVisible(element, models, act) {
  if (models.every(({ jobs }) => jobs <= SMALL_RUN_JOBS)) {
    act();
    return;
  }
  let done = false;
  const once = () => {
    if (done) return;
    done = true;
    seen.disconnect();
    act();
  };
  const seen = new IntersectionObserver((entries) => {
    if (entries.some(({ isIntersecting }) => isIntersecting)) once();
  }, { rootMargin: "300px" });
  seen.observe(element);
  window.addEventListener("beforeprint", once);
}

function boxPlot(key, group, classes, runs, theme) {
  const axis = AXES[key];
  const title = `${axis.title} by ${group === "size" ? "size of the job" : "user"}`;
  const lines = runs.length;
  const height = BOX_TOP + BOX_AXIS + classes.length * (lines * ROW_HEIGHT + GROUP_SPACE);
  const label = `${title}; box plots`;
  const canvas = make("canvas", { class: "box-plot", role: "img", "aria-label": label });
  const table = lazyTable("Table", () => tableOfClasses(title, axis, classes, runs));
  const figure = make("figure", {}, make("figcaption", {}, make("h3", {}, title)), canvas, table);
  const draw = () => {
    const width = canvas.clientWidth;
    if (width === 0) return;
    drawBoxes(sharpContext(canvas, width, height), { width, height, axis, classes, lines });
  };
  new ResizeObserver(draw).observe(canvas);
  theme.subscribe(draw);
  return figure;
}

function drawBoxes(context, { width, height, axis, classes, lines }) {
  const most = Math.max(...classes.flatMap(({ runs }) => runs.map(({ quantiles, mean }) =>
    Math.max(quantiles[4] || 0, mean || 0))), axis.least * 10);
  const bottom = height - BOX_AXIS;
  const [left, right] = [NAME_WIDTH, width - 14];
  const span = Math.log(most * 1.1 / axis.least);
  const share = (value) => Math.log(Math.max(value, axis.least) / axis.least) / span;
  const x = (value) => left + share(value) * (right - left);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  drawAxis(context, axis, x, most, bottom);
  let y = BOX_TOP;
  for (const { name, runs } of classes) {
    context.fillStyle = themeColour("--ink");
    context.textAlign = "right";
    context.fillText(cutName(name), left - 10, y + (lines * ROW_HEIGHT + GROUP_SPACE) / 2);
    y += GROUP_SPACE / 2;
    runs.forEach((summary, run) => {
      if (summary.count > 0) drawBox(context, x, y + ROW_HEIGHT / 2, summary, `--run-${run + 1}`);
      y += ROW_HEIGHT;
    });
    y += GROUP_SPACE / 2;
  }
}

function drawAxis(context, { ticks, least, leastText, text }, x, most, bottom) {
  context.strokeStyle = themeColour("--grid");
  context.fillStyle = themeColour("--muted");
  context.textAlign = "center";
  context.lineWidth = 1;
  context.beginPath();
  let free = -Infinity;
  for (const value of ticks.filter((tick) => tick <= most * 1.1)) {
    const at = Math.round(x(value)) + 0.5;
    context.moveTo(at, BOX_TOP);
    context.lineTo(at, bottom);
    const label = value === least ? leastText : text(value);
    const half = context.measureText(label).width / 2;
    if (at - half < free) continue;
    context.fillText(label, at, bottom + 13);
    free = at + half + 8;
  }
  context.stroke();
}

function drawBox(context, x, y, { quantiles, mean }, colour) {
  const [p5, p25, p50, p75, p95] = quantiles.map(x);
  context.strokeStyle = themeColour(colour);
  context.fillStyle = themeColour(colour);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(p5, y);
  context.lineTo(p95, y);
  for (const end of [p5, p95]) {
    context.moveTo(end, y - 3);
    context.lineTo(end, y + 3);
  }
  context.stroke();
  const box = [p25, y - 6, Math.max(p75 - p25, 2), 12];
  context.fillStyle = themeColour("--panel");
  context.fillRect(...box);
  context.fillStyle = themeColour(colour);
  context.globalAlpha = 0.35;
  context.fillRect(...box);
  context.globalAlpha = 1;
  context.strokeRect(...box);
  context.fillRect(p50 - 1.5, y - 7, 3, 14);
  context.fillStyle = themeColour("--ink");
  context.beginPath();
  context.arc(x(mean), y, 2.6, 0, 2 * Math.PI);
  context.fill();
}

function cutName(name) {
  const letters = [...name];
  return letters.length > MAX_NAME ? `${letters.slice(0, MAX_NAME - 1).join("")}…` : name;
}

function runCell(name, run) {
  return make("span", { title: name }, makeSwatch(`var(--run-${run + 1})`), cutName(name));
}

/** Return text that breaks between its parts, but not between a number and its unit. */
function unitsKept(text) {
  return text.replace(/(\d) (?=[a-z])/g, "$1\u00a0");
}

function tableOfClasses(title, { text }, classes, runs) {
  const columns = ["class", ...(runs.length > 1 ? ["run"] : []), "jobs", "mean", "5 %", "25 %",
    "median", "75 %", "95 %", "maximum"];
  const rows = classes.flatMap(({ name, runs: summaries }) => summaries.map((summary, run) => [
    name, ...(runs.length > 1 ? [runCell(runs[run].name, run)] : []), countText(summary.count),
    ...[summary.mean, ...summary.quantiles, summary.greatest].map((value) => unitsKept(text(value))),
  ]));
  return { caption: title, columns, rows };
}
