/** The difference in waits of each job between two runs. */

import { make, makeButton, makeChoice, makePane, sharpContext, themeColour } from "./dom.js";
import { whenVisible } from "./distributions.js";
import { startedWaitOf } from "./statistics.js";
import { lazyTable, sortableTable } from "./tables.js";
import { durationText } from "./time_axis.js";
import { countText, counted, differenceText, numberText } from "./units.js";

const EDGES_S = [60, 600, 3600, 21600, 86400, 604800];
const EDGE_TEXTS = ["1 min", "10 min", "1 h", "6 h", "1 d", "7 d"];
const HISTOGRAM_HEIGHT = 190;
const LABELS_HEIGHT = 34;

/**
 * Return the jobs that started in both runs, with the difference of their waits.
 * @param {RunModel} first
 * @param {RunModel} second
 * @returns {Array<{id: string, row: number, cores: number, firstS: number, secondS: number,
 *   differenceS: number}>} `row`: in the first run; `differenceS`: second - first
 */
export function waitDifferences(first, second) {
  const rows = new Map();
  for (let row = 0; row < second.jobs; row += 1) rows.set(second.id[row], row);
  const found = [];
  for (let row = 0; row < first.jobs; row += 1) {
    const other = rows.get(first.id[row]);
    if (other === undefined) continue;
    const [firstS, secondS] = [startedWaitOf(first, row), startedWaitOf(second, other)];
    if (Number.isNaN(firstS) || Number.isNaN(secondS)) continue;
    const differenceS = secondS - firstS;
    found.push({ id: first.idOf(row), row, cores: first.cores[row], firstS, secondS, differenceS });
  }
  return found;
}

/**
 * Return the number of jobs by difference: the classes between `EDGES_S` on both sides, with the
 * jobs whose wait differs by less than the first edge in the middle.
 * @param {number[]} differencesS
 * @returns {Array<{name: string, count: number}>} from much shorter to much longer
 */
export function differenceClasses(differencesS) {
  const sides = EDGES_S.length;
  const counts = new Array(2 * sides + 1).fill(0);
  for (const differenceS of differencesS) {
    const size = EDGES_S.filter((edgeS) => Math.abs(differenceS) >= edgeS).length;
    counts[sides + Math.sign(differenceS) * size] += 1;
  }
  return counts.map((count, at) => {
    const size = Math.abs(at - sides);
    const sign = at < sides ? "−" : "+";
    if (size === 0) return { name: `< ${EDGE_TEXTS[0]}`, count };
    const [edge, next] = [EDGE_TEXTS[size - 1], EDGE_TEXTS[size]];
    const range = next ? `${edge} to ${sign}${next}` : `${edge} or more`;
    return { name: `${sign}${range}`, count };
  });
}

/**
 * Create the pane with the differences between the first run and another one.
 * @param {HTMLElement} container
 * @param {Array<{model: RunModel, name: string}>} runs two or more
 * @param {{theme: Object, jump: (row: number, model: RunModel) => void}} options
 */
export function createComparison(container, runs, { theme, jump }) {
  const body = make("div", { class: "comparison-body" });
  const show = (other) => showComparison(body, runs[0], runs[Number(other)], theme, jump);
  const choices = runs.slice(1).map(({ name }, at) => [String(at + 1), name]);
  const choice = choices.length > 1
    ? makeChoice(`${runs[0].name} against`, choices, "1", show)
    : null;
  container.append(makePane("Difference in waits", "comparison", choice, body));
  whenVisible(body, runs.map(({ model }) => model), () => show(1));
}

function showComparison(body, first, second, theme, jump) {
  const found = waitDifferences(first.model, second.model);
  if (found.length === 0) {
    body.replaceChildren(make("p", {}, "No job started in both runs."));
    return;
  }
  const shorter = found.filter(({ differenceS }) => differenceS < 0).length;
  const longer = found.filter(({ differenceS }) => differenceS > 0).length;
  const meanS = found.reduce((sum, { differenceS }) => sum + differenceS, 0) / found.length;
  const text = `Of ${counted(found.length, "job")} that started in both runs, `
    + `${countText(shorter)} waited shorter and ${countText(longer)} waited longer with `
    + `${second.name}; mean difference: ${differenceText(meanS)}.`;
  const classes = differenceClasses(found.map(({ differenceS }) => differenceS));
  body.replaceChildren(make("p", {}, text), histogram(classes, second.name, theme),
    differencesTable(found, first, second, jump));
}

function differencesTable(found, first, second, jump) {
  const column = (title, key, text) =>
    ({ title, value: (job) => job[key], cell: (job) => text(job[key]) });
  const caption = `Difference: wait in ${second.name} − wait in ${first.name}.`;
  const link = ({ id, row }) => makeButton(id, () => jump(row, first.model), { class: "link" });
  return sortableTable(caption, [
    { title: "job", value: ({ row }) => row, cell: link },
    column("cores", "cores", countText),
    column(`wait, ${first.name}`, "firstS", durationText),
    column(`wait, ${second.name}`, "secondS", durationText),
    column("difference", "differenceS", differenceText),
  ], found, { column: 4, descending: true });
}

function histogram(classes, name, theme) {
  const title = `Jobs by difference in wait, ${name}`;
  const label = `${title}; histogram`;
  const canvas = make("canvas", { class: "histogram", role: "img", "aria-label": label });
  const rows = classes.map(({ name: range, count }) => [range, countText(count)]);
  const columns = ["difference", "jobs"];
  const table = lazyTable("Table", () => ({ caption: title, columns, rows }));
  const draw = () => {
    if (!canvas.isConnected) return;
    const width = canvas.clientWidth;
    if (width > 0) drawHistogram(sharpContext(canvas, width, HISTOGRAM_HEIGHT), classes, width);
  };
  new ResizeObserver(draw).observe(canvas);
  theme.subscribe(draw);
  const caption = make("figcaption", {}, make("h3", {}, "Jobs by difference in wait"));
  return make("figure", {}, caption, canvas, table);
}

function drawHistogram(context, classes, width) {
  const most = Math.max(...classes.map(({ count }) => count), 1);
  const slot = width / classes.length;
  const bottom = HISTOGRAM_HEIGHT - LABELS_HEIGHT;
  const middle = (classes.length - 1) / 2;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  classes.forEach(({ count }, at) => {
    if (count === 0) return;
    const height = Math.max((count / most) * (bottom - 18), 1.5);
    const side = at < middle ? "--shorter" : "--longer";
    context.fillStyle = themeColour(at === middle ? "--muted" : side);
    context.fillRect(at * slot + 3, bottom - height, slot - 6, height);
    context.fillStyle = themeColour("--ink");
    const label = slot > 40 ? countText(count) : numberText(count, 2);
    context.fillText(label, (at + 0.5) * slot, bottom - height - 5);
  });
  drawEdges(context, slot, bottom, middle);
}

/** Write the edges between the classes, and the meaning of both sides. */
function drawEdges(context, slot, bottom, middle) {
  context.fillStyle = themeColour("--muted");
  let free = -Infinity;
  for (let edge = 0; edge < 2 * EDGES_S.length; edge += 1) {
    const after = edge + 0.5 > middle;
    const size = after ? edge - middle : middle - 1 - edge;
    const label = `${after ? "+" : "−"}${EDGE_TEXTS[size]}`;
    const half = context.measureText(label).width / 2;
    const x = (edge + 1) * slot;
    if (x - half < free) continue;
    context.fillText(label, x, bottom + 13);
    free = x + half + 4;
  }
  context.fillText("waited shorter", middle * slot / 2, bottom + 29);
  context.fillText("waited longer", (middle + 1) * slot + middle * slot / 2, bottom + 29);
}
