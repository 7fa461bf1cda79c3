/** The difference in waits of each job between two runs. */

import { make, makeButton, makeChoice, makePane, sharpContext, themeColour } from "./dom.js";
import { whenVisible } from "./distributions.js";
import { startedWaitOf } from "./statistics.js";
import { lazyTable, sortableTable } from "./tables.js";
import { durationText } from "./time_axis.js";
import { countText, counted, differenceText, numberText } from "./units.js";

const EDGES_S = [1, 10, 60, 600, 3600, 21600, 86400, 604800];
const EDGE_TEXTS = ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "7 d"];
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
 * jobs whose wait differs by less than the first edge in the middle. There are no empty classes at
 * the ends.
 * @param {number[]} differencesS
 * @returns {Array<{name: string, side: number, edge: string, count: number}>} from much shorter to
 *   much longer; `side`: −1 for shorter waits, 1 for longer ones, 0 in the middle; `edge`: the end
 *   of the class that is nearer to the middle
 */
export function differenceClasses(differencesS) {
  const sides = EDGES_S.length;
  const counts = new Array(2 * sides + 1).fill(0);
  for (const differenceS of differencesS) {
    const size = EDGES_S.filter((edgeS) => Math.abs(differenceS) >= edgeS).length;
    counts[sides + Math.sign(differenceS) * size] += 1;
  }
  const used = counts.flatMap((count, at) => (count > 0 ? [at] : []));
  const [first, last] = [Math.min(sides, ...used), Math.max(sides, ...used)];
  return counts
    .map((count, at) => ({ ...classOfDifference(at - sides), count }))
    .slice(first, last + 1);
}

function classOfDifference(place) {
  if (place === 0) return { name: `less than ${EDGE_TEXTS[0]}`, side: 0, edge: "" };
  const [sign, size] = [place < 0 ? "−" : "+", Math.abs(place)];
  const [edge, next] = [EDGE_TEXTS[size - 1], EDGE_TEXTS[size]];
  const range = next ? `${edge} to ${sign}${next}` : `${edge} or more`;
  return { name: sign + range, side: Math.sign(place), edge: sign + edge };
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
    + `${countText(shorter)} waited less and ${countText(longer)} waited longer with `
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
  const colours = { "-1": "--shorter", 0: "--muted", 1: "--longer" };
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  classes.forEach(({ count, side }, at) => {
    if (count === 0) return;
    const height = Math.max((count / most) * (bottom - 18), 1.5);
    context.fillStyle = themeColour(colours[side]);
    context.fillRect(at * slot + 3, bottom - height, slot - 6, height);
    context.fillStyle = themeColour("--ink");
    const label = slot > 40 ? countText(count) : numberText(count, 2);
    context.fillText(label, (at + 0.5) * slot, bottom - height - 5);
  });
  drawEdges(context, classes, slot, bottom);
}

/** Write the edges between the classes, and the meaning of the sides and of the middle. */
function drawEdges(context, classes, slot, bottom) {
  context.fillStyle = themeColour("--muted");
  const middle = classes.findIndex(({ side }) => side === 0);
  let free = -Infinity;
  classes.forEach(({ side, edge }, at) => {
    if (side === 0) return;
    const half = context.measureText(edge).width / 2;
    const x = (side < 0 ? at + 1 : at) * slot;
    if (x - half < free) return;
    context.fillText(edge, x, bottom + 13);
    free = x + half + 4;
  });
  const sides = [["waited less", 0, middle], [classes[middle].name, middle, middle + 1],
    ["waited longer", middle + 1, classes.length]];
  sides.forEach(([label, from, to], at) => {
    const fits = context.measureText(label).width + 8 < (to - from) * slot;
    if (fits || (at !== 1 && to > from)) {
      context.fillText(label, ((from + to) / 2) * slot, bottom + 29);
    }
  });
}
