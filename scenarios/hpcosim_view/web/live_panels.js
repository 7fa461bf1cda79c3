/** What is now: figures, the waiting jobs, the nodes by state. */

import { make, makeButton, makePane } from "./dom.js";
import { POWER_STATES } from "./model.js";
import { seriesOf } from "./series.js";
import { dataTable } from "./tables.js";
import { durationText, timeText } from "./time_axis.js";
import { countText, counted, numberText, powerText } from "./units.js";

const MAX_WAITING = 200;
const POWER_STATE_LABELS = {
  on: "On",
  switching_off: "Switching off",
  sleeping: "Asleep",
  switching_on: "Switching on",
  down: "Down",
};

/**
 * Count jobs and nodes of a growing run. It reads only what is new.
 */
class LiveCounts {
  /** @param {RunModel} model */
  constructor(model) {
    this.model = model;
    this.stateOfNode = new Uint8Array(0);
    this.powerRead = 0;
  }

  /** Return the numbers of jobs in a state of the queue: `{waiting, running, over}`. */
  jobs() {
    const { state, jobs } = this.model;
    const found = { waiting: 0, running: 0, over: 0 };
    for (let row = 0; row < jobs; row++) {
      found[state[row] === 0 ? "waiting" : state[row] === 1 ? "running" : "over"]++;
    }
    return found;
  }

  /** Return the number of nodes in each of `POWER_STATES`. */
  nodes() {
    const { nodes, power } = this.model;
    if (this.stateOfNode.length !== nodes.count) this.stateOfNode = new Uint8Array(nodes.count);
    for (; this.powerRead < power.count; this.powerRead++) {
      this.stateOfNode[power.node[this.powerRead]] = power.state[this.powerRead];
    }
    const found = POWER_STATES.map(() => 0);
    for (const state of this.stateOfNode) found[state]++;
    return found;
  }
}

/**
 * Return the rows of the waiting jobs in order of submission.
 *
 * @param {RunModel} model
 * @param {number} most number of rows at most.
 */
function waitingRows(model, most = MAX_WAITING) {
  const rows = [];
  for (let row = 0; row < model.jobs && rows.length < most; row++) {
    if (model.state[row] === 0) rows.push(row);
  }
  return rows;
}

/**
 * Create the panes of waiting jobs and of nodes. The waiting jobs are beside the schedule while no
 * job is chosen, else below the charts.
 *
 * @param {HTMLElement} below
 * @param {HTMLElement} beside
 * @param {RunModel} model
 * @param {function(number): void} jump shows a job.
 * @returns {{redraw: function(): void, place: function(boolean): void,
 *   destroy: function(): void}}
 */
export function createLivePanels(below, beside, model, jump) {
  const [queue, nodes] = [make("div"), make("div")];
  const queuePane = makePane("Waiting jobs", "queue", queue);
  below.replaceChildren(makePane("Nodes", "nodes", nodes));
  const counts = new LiveCounts(model);
  return {
    redraw() {
      const used = queue.contains(document.activeElement);
      if (!used) drawQueue(queue, queueTable(model, counts, jump));
      nodes.replaceChildren(nodeTable(model, counts));
    },
    place(chosen) {
      const place = chosen ? below : beside;
      if (queuePane.parentElement !== place) place.prepend(queuePane);
    },
    destroy() {
      below.replaceChildren();
      queuePane.remove();
    },
  };
}

/** Replace the table; it keeps its place in both directions. */
function drawQueue(queue, table) {
  const { scrollLeft = 0, scrollTop = 0 } = queue.firstElementChild ?? {};
  queue.replaceChildren(table);
  Object.assign(table, { scrollLeft, scrollTop });
}

function queueTable(model, counts, jump) {
  const { waiting } = counts.jobs();
  if (waiting === 0) return make("p", { class: "muted" }, "No job waits.");
  const rows = waitingRows(model);
  const columns = queueColumns(model, jump)
    .filter(({ text }) => rows.some((row) => text(row) !== ""));
  return dataTable({
    caption: `${counted(waiting, "job")}, in order of submission.`,
    columns: columns.map(({ title }) => title),
    rows: rows.map((row) => columns.map(({ text, cell }) => (cell ?? text)(row))),
    total: waiting,
  });
}

/** The columns of the queue: `text` is empty where a fact is unknown, `cell` is what is shown. */
function queueColumns(model, jump) {
  const { names, requestedS } = model;
  const link = (row) => makeButton(model.idOf(row), () => jump(row), { class: "link" });
  return [
    { title: "job", text: (row) => model.idOf(row), cell: link },
    { title: "cores", text: (row) => countText(model.cores[row]) },
    { title: "waits", text: (row) => durationText(model.nowS - model.submitS[row]) },
    { title: "expected in", text: (row) => expectedText(model, row) },
    { title: "reason", text: (row) => model.explanationsOf(row).at(-1)?.reason ?? "" },
    { title: "requested time",
      text: (row) => (Number.isFinite(requestedS[row]) ? durationText(requestedS[row]) : "") },
    { title: "user", text: (row) => names.users[model.user[row]] ?? "" },
  ];
}

/** Return the time until the start that the scheduler expected last; empty: it has given none. */
function expectedText(model, row) {
  const expectedS = model.explanationsOf(row).at(-1)?.expectedStartS ?? NaN;
  return Number.isNaN(expectedS) ? "" : durationText(Math.max(expectedS - model.nowS, 0));
}

function nodeTable(model, counts) {
  const byState = counts.nodes();
  const rows = POWER_STATES.map((name, state) => [POWER_STATE_LABELS[name], countText(byState[state])])
    .filter((_, state) => byState[state] > 0);
  return dataTable({ caption: counted(model.nodes.count, "node"), columns: ["state", "nodes"], rows });
}

/**
 * Return the figures of now, for the head of the page.
 *
 * @param {RunModel} model
 * @returns {[string, string][]} title and text.
 */
export function liveFigures(model) {
  const { live = {} } = model.about;
  const { totalPower, usage } = seriesOf(model);
  const { waiting, running, over } = new LiveCounts(model).jobs();
  return [
    ["simulated time", timeText(model.nowS)],
    ["waiting", countText(waiting)],
    ["running", countText(running)],
    ["over", countText(over)],
    ["utilization", `${numberText(100 * usage.at(model.nowS), 3)} %`],
    ["power", powerText(totalPower.at(model.nowS))],
    ["rejected decisions", countText(live.rejected ?? 0)],
    ["messages", countText(live.requests ?? 0)],
    ["messages a second", numberText(live.messages_per_s ?? 0, 3)],
  ];
}
