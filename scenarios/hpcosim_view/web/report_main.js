/** The page of a report: reads the embedded runs, paints the schedule first, then the rest. */

import { createStepCharts } from "./charts.js";
import { COLOURINGS, defaultColouring } from "./colours.js";
import { createComparison } from "./compare.js";
import { showDetails } from "./details.js";
import { createDistributions } from "./distributions.js";
import { make } from "./dom.js";
import { decodeFrame } from "./frame.js";
import { createGantt } from "./gantt.js";
import { showHeader } from "./header.js";
import { createMetrics } from "./metrics.js";
import { createMinimap } from "./minimap.js";
import { RunModel, timesOf } from "./model.js";
import { observable } from "./observable.js";
import { showLegend } from "./legend.js";
import { createTheme } from "./theme.js";
import { createToolbar } from "./toolbar.js";
import { Viewport } from "./viewport.js";

const JUMP_MARGIN = 0.15;

/** Return the runs that the page holds, with their names. */
async function readRuns() {
  const runs = [];
  for (const element of document.querySelectorAll("script[data-run]")) {
    const text = atob(element.textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    const model = new RunModel();
    model.append(await decodeFrame(bytes));
    element.textContent = "";
    runs.push({ model, name: element.dataset.run });
  }
  return runs;
}

/** Return the section of a run: its name, its schedule and the legend of the colours. */
function createRunSection(container, run, page, single) {
  const legend = make("div", { class: "legend" });
  const box = make("div", { class: "gantt" });
  const title = single ? "Schedule" : run.name;
  const section = make("section", { class: "run", "aria-label": `Schedule, ${run.name}` },
    make("div", { class: "run-head" }, make("h2", { dir: "auto" }, title), legend), box);
  container.append(section);
  const draw = () => showLegend(legend, run.model, page.colouring.get(), page.theme.get());
  page.colouring.subscribe(draw);
  page.theme.subscribe(draw);
  draw();
  return createGantt(box, run.model, page.viewport, page);
}

/** Choose a job and show its wait and its run time. */
function jumpToJob(page, row, model) {
  page.selection.set(model.idOf(row));
  const fromS = model.submitS[row];
  const toS = Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
  const marginS = Math.max((toS - fromS) * JUMP_MARGIN, 1);
  page.viewport.set(fromS - marginS, toS + marginS);
}

function showDetailsOf(page, runs) {
  const body = document.getElementById("details-body");
  const jump = (row, model) => jumpToJob(page, row, model);
  const draw = () => showDetails(body, runs, page.selection.get(), jump);
  page.selection.subscribe(draw);
  draw();
}

/** Paint what is below the schedule. */
function showPanels(page, runs) {
  const jump = (row, model) => jumpToJob(page, row, model);
  createStepCharts(document.getElementById("charts"), runs, page.viewport, page);
  showHeader(document.getElementById("header"), runs);
  showDetailsOf(page, runs);
  const panels = document.getElementById("panels");
  if (runs.length > 1) createComparison(panels, runs, { ...page, jump });
  createDistributions(panels, runs, page);
  createMetrics(panels, runs);
}

async function showReport() {
  const runs = await readRuns();
  const models = runs.map(({ model }) => model);
  const page = {
    viewport: new Viewport(...timesOf(models)),
    selection: observable(null),
    colouring: observable(defaultColouring(models[0])),
    theme: createTheme(),
    crosshair: observable(null),
  };
  const container = document.getElementById("runs");
  const gantts = runs.map((run) => createRunSection(container, run, page, runs.length === 1));
  createMinimap(document.getElementById("minimap"), models[0], page.viewport, page);
  createToolbar(document.getElementById("toolbar"), runs, {
    ...page, colourings: COLOURINGS, jump: (row) => jumpToJob(page, row, models[0]),
  });
  requestAnimationFrame(() => setTimeout(() => {
    performance.mark("hpcosim-painted");
    showPanels(page, runs);
    const { viewport, selection, colouring } = page;
    window.hpcosim = {
      runs: models.map((model, at) => ({ model, gantt: gantts[at] })), viewport, selection, colouring,
    };
  }));
}

showReport().catch((error) => {
  document.getElementById("header").replaceChildren(
    make("h1", {}, "The report cannot be shown"), make("p", { role: "alert" }, String(error.message)));
});
