/** Step charts on the time axis of the schedule: power by state, queue length, cores in use. */

import { make, makeSwatch, sharpContext, themeColour } from "./dom.js";
import { NODE_STATES } from "./model.js";
import { NODE_STATE_COLOURS } from "./palettes.js";
import { NODE_STATE_LABELS, seriesOf } from "./series.js";
import { timeText, timeTicks } from "./time_axis.js";
import { POWER_UNITS, countText, numberText, unitFor } from "./units.js";
import { drawChart, timeAt } from "./chart_drawing.js";
import { lazyTable } from "./tables.js";

const CHART_HEIGHT = 112;
const AXIS_HEIGHT = 22;
const MAX_TABLE_ROWS = 500;

/**
 * Create the charts of one run, or of several runs as lines in the same charts.
 * @param {HTMLElement} container
 * @param {Array<{model: RunModel, name: string}>} runs
 * @param {Viewport} viewport shared time axis
 * @param {{selection: Object, theme: Object, crosshair: Object}} options observables: the chosen
 *   job (text or null), the theme, and the time under the pointer (s or null)
 * @returns {{redraw: () => void, destroy: () => void}}
 */
export function createStepCharts(container, runs, viewport, { selection, theme, crosshair }) {
  const specs = [powerSpec(runs, theme), queueSpec(runs), usageSpec(runs)];
  const shared = { runs, viewport, selection, crosshair };
  const charts = specs.map((spec, at) =>
    createChart(container, spec, { ...shared, axis: at === specs.length - 1 }));
  let pending = 0;
  const redraw = () => {
    pending = pending || requestAnimationFrame(() => {
      pending = 0;
      charts.forEach((chart) => chart.draw());
    });
  };
  const watched = [viewport, selection, theme, crosshair].map((source) => source.subscribe(redraw));
  const resized = new ResizeObserver(redraw);
  resized.observe(container);
  redraw();
  const destroy = () => {
    cancelAnimationFrame(pending);
    resized.disconnect();
    watched.forEach((stop) => stop?.());
    charts.forEach((chart) => chart.figure.remove());
  };
  return { redraw, destroy };
}

function powerSpec(runs, theme) {
  const single = runs.length === 1;
  return {
    title: single ? "Power by state" : "Power of all nodes",
    stacked: single,
    units: POWER_UNITS,
    greatest: () => Math.max(...runs.map(({ model }) => seriesOf(model).totalPower.greatest)),
    layers: () => {
      if (!single) return layersOfRuns(runs, (series) => series.totalPower);
      const { power } = seriesOf(runs[0].model);
      return NODE_STATES.map((name, state) => ({
        label: NODE_STATE_LABELS[name],
        steps: power[state],
        colour: NODE_STATE_COLOURS[theme.get()][state],
      })).filter(({ steps }) => steps.greatest > 0);
    },
  };
}

function queueSpec(runs) {
  return {
    title: "Queue length",
    units: [["jobs", 1]],
    greatest: () => Math.max(1, ...runs.map(({ model }) => seriesOf(model).queue.greatest)),
    layers: () => layersOfRuns(runs, (series) => series.queue, "Jobs waiting"),
  };
}

function usageSpec(runs) {
  return {
    title: "Utilization",
    units: [["%", 0.01]],
    greatest: () => 1,
    layers: () => layersOfRuns(runs, (series) => series.usage, "Cores that jobs hold"),
  };
}

function layersOfRuns(runs, choose, label = "") {
  return runs.map(({ model, name }, at) => ({
    label: runs.length === 1 ? label : name,
    steps: choose(seriesOf(model)),
    colour: themeColour(`--run-${at + 1}`),
    dash: at,
  }));
}

function createChart(container, spec, context) {
  const { viewport, crosshair, axis } = context;
  const canvas = make("canvas", {
    class: "step-chart", tabindex: 0, role: "img",
    "aria-label": `${spec.title} over time. Arrow keys move the line that reads values.`,
  });
  const key = make("span", { class: "chart-key", "aria-live": "off" });
  // Values are read out only while keys move the line.
  canvas.addEventListener("focus", () => key.setAttribute("aria-live", "polite"));
  canvas.addEventListener("blur", () => key.setAttribute("aria-live", "off"));
  const table = lazyTable("Table", () => tableOfLayers(spec, viewport));
  const caption = make("figcaption", {}, make("h3", {}, spec.title), key);
  const figure = make("figure", { class: "chart" }, caption, canvas, table);
  container.append(figure);
  followCrosshair(canvas, viewport, crosshair);
  const draw = () => {
    const width = canvas.clientWidth;
    if (width === 0) return;
    const height = CHART_HEIGHT + (axis ? AXIS_HEIGHT : 0);
    const layers = spec.layers();
    const unit = unitFor(spec.greatest(), spec.units);
    const about = { ...context, width, height: CHART_HEIGHT, layers, unit, spec };
    drawChart(sharpContext(canvas, width, height), about);
    drawKey(key, about);
  };
  return { figure, draw };
}

function drawKey(key, { layers, unit, spec, crosshair }) {
  const atS = crosshair.get();
  const items = layers.map(({ label, colour, steps }) => {
    const value = atS === null ? "" : ` ${valueText(steps.at(atS), unit)}`;
    return make("span", { class: "key-item" }, makeSwatch(colour), label, make("b", {}, value));
  });
  if (spec.stacked && atS !== null) {
    const total = layers.reduce((sum, { steps }) => sum + steps.at(atS), 0);
    const value = make("b", {}, ` ${valueText(total, unit)}`);
    items.push(make("span", { class: "key-item" }, "Total", value));
  }
  if (atS !== null) {
    items.push(make("span", { class: "key-time" }, timeText(atS)));
  }
  const shown = [...items.map((item) => item.textContent), ...layers.map(({ colour }) => colour)]
    .join("|");
  if (key.dataset.shown === shown) return;
  key.dataset.shown = shown;
  key.replaceChildren(...items);
}

function valueText(value, [name, factor]) {
  return name === "jobs" ? countText(value) : `${numberText(value / factor)} ${name}`;
}

function followCrosshair(canvas, viewport, crosshair) {
  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = event.clientX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { dragged = null; });
  canvas.addEventListener("pointercancel", () => { dragged = null; });
  canvas.addEventListener("pointermove", (event) => {
    const width = canvas.clientWidth;
    const perPixelS = timeAt(1, width, viewport) - timeAt(0, width, viewport);
    if (dragged !== null) {
      viewport.pan((dragged - event.clientX) * perPixelS);
      dragged = event.clientX;
    }
    const x = event.clientX - canvas.getBoundingClientRect().left;
    crosshair.set(timeAt(x, width, viewport));
  });
  canvas.addEventListener("pointerleave", () => crosshair.set(null));
  canvas.addEventListener("blur", () => crosshair.set(null));
  canvas.addEventListener("keydown", (event) => moveCrosshair(event, viewport, crosshair));
}

function moveCrosshair(event, viewport, crosshair) {
  const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Escape") crosshair.set(null);
  if (direction === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  const spanS = viewport.endS - viewport.startS;
  const now = crosshair.get() ?? viewport.startS + spanS / 2;
  const next = now + (direction * spanS) / (event.shiftKey ? 20 : 100);
  crosshair.set(Math.min(Math.max(next, viewport.startS), viewport.endS));
}

/** The rows of the visible span: at changes, or at equal distances if there are too many. */
function tableOfLayers(spec, viewport) {
  const layers = spec.layers();
  const unit = unitFor(spec.greatest(), spec.units);
  const { startS, endS } = viewport;
  const changes = new Set([startS]);
  for (const { steps } of layers) {
    const [first, last] = [steps.indexAt(startS) + 1, steps.indexAt(endS)];
    if (last - first > MAX_TABLE_ROWS) changes.add(Infinity);
    else steps.timesS.subarray(first, last + 1).forEach((timeS) => changes.add(timeS));
  }
  const many = changes.has(Infinity) || changes.size > MAX_TABLE_ROWS;
  const times = many
    ? timeTicks(startS, endS, MAX_TABLE_ROWS).map(({ timeS }) => timeS)
    : [...changes].sort((a, b) => a - b);
  return {
    caption: many
      ? "The shown span has many changes; these are values at equal distances."
      : "All changes in the shown span.",
    columns: ["time", ...layers.map(({ label }) => `${label} (${unit[0]})`)],
    rows: times.map((timeS) => [
      timeText(timeS),
      ...layers.map(({ steps }) => numberText(steps.at(timeS) / unit[1], 6)),
    ]),
  };
}
