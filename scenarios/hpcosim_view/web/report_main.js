/** The page of a report: reads the embedded runs, paints the schedule first, then the rest. */

import { createStepCharts } from "./charts.js";
import { COLOURINGS, defaultColouring, shareColours } from "./colours.js";
import { createComparison } from "./compare.js";
import { showDetails } from "./details.js";
import { createDistributions } from "./distributions.js";
import { make } from "./dom.js";
import { decodeFrame } from "./frame.js";
import { createGantt } from "./gantt.js";
import { showEnergy, showHeader } from "./header.js";
import { jobsTable } from "./jobs_table.js";
import { showLegend } from "./legend.js";
import { createMetrics } from "./metrics.js";
import { createMinimap } from "./minimap.js";
import { RunModel, timesOf } from "./model.js";
import { observable } from "./observable.js";
import { createTheme } from "./theme.js";
import { createToolbar } from "./toolbar.js";
import { Viewport } from "./viewport.js";

const JUMP_MARGIN = 0.15;

/** Return the runs that the page holds, with their names. */
function readRuns() {
  const elements = [...document.querySelectorAll("script[data-run]")];
  return Promise.all(elements.map(async (element) => {
    const text = atob(element.textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    const model = new RunModel();
    model.append(await decodeFrame(bytes));
    element.textContent = "";
    return { model, name: element.dataset.run };
  }));
}

/** Return the section of a run: its name, its schedule and the legend of the colours. */
function createRunSection(container, run, page, single) {
  const legend = make("div", { class: "legend" });
  const box = make("div", { class: "gantt" });
  const title = single ? "Schedule" : run.name;
  const section = make("section", { class: "run", "aria-label": `Schedule, ${run.name}` },
    make("div", { class: "run-head" }, make("h2", { dir: "auto" }, title), legend), box,
    jobsTable(run.model, page.viewport, (row) => jumpToJob(page, row, run.model)));
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
  page.gantts.get(model)?.show(row);
}

function showDetailsOf(page, runs, jump) {
  const body = document.getElementById("details-body");
  const draw = () => showDetails(body, runs, page.selection.get(), jump);
  page.selection.subscribe(draw);
  draw();
}

function showMinimap(page, runs) {
  const [{ model }] = runs;
  const cores = runs.length === 1 ? page.gantts.get(model).cores : undefined;
  createMinimap(document.getElementById("minimap"), model, page.viewport, { ...page, cores });
}

/** Show what is beside and below the schedule, with a pause for the browser after each part. */
async function showPanels(page, runs) {
  const panels = document.getElementById("panels");
  const options = { ...page, jump: (row, model) => jumpToJob(page, row, model) };
  const parts = [
    () => showMinimap(page, runs),
    () => showDetailsOf(page, runs, options.jump),
    () => createStepCharts(document.getElementById("charts"), runs, page.viewport, page),
    () => showEnergy(runs),
    () => { if (runs.length > 1) createComparison(panels, runs, options); },
    () => createDistributions(panels, runs, page),
    () => createMetrics(panels, runs),
  ];
  for (const part of parts) {
    part();
    await new Promise((resume) => setTimeout(resume));
  }
}

function createPage(models) {
  return {
    viewport: new Viewport(...timesOf(models)),
    selection: observable(null),
    colouring: observable(defaultColouring(models[0])),
    theme: createTheme(),
    crosshair: observable(null),
    gantts: new Map(),
  };
}

async function showReport() {
  const runs = await readRuns();
  const models = runs.map(({ model }) => model);
  shareColours(models);
  const page = createPage(models);
  showHeader(document.getElementById("header"), runs);
  createToolbar(document.getElementById("toolbar"), runs, {
    ...page, colourings: COLOURINGS, jump: (row, model) => jumpToJob(page, row, model),
  });
  const container = document.getElementById("runs");
  for (const run of runs) {
    page.gantts.set(run.model, createRunSection(container, run, page, runs.length === 1));
  }
  await Promise.all([...page.gantts.values()].map((gantt) => gantt.drawn()));
  performance.mark("hpcosim-painted");
  await showPanels(page, runs);
  const { viewport, selection, colouring } = page;
  window.hpcosim = {
    runs: models.map((model) => ({ model, gantt: page.gantts.get(model) })),
    viewport,
    selection,
    colouring,
  };
}

showReport().catch((error) => {
  document.getElementById("header").replaceChildren(
    make("h1", {}, "The report cannot be shown"),
    make("p", { role: "alert" }, String(error.message)));
});
