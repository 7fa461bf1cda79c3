/** The tools of the page: colours, search, zoom, theme and help. */

import { make, makeButton, makeChoice } from "./dom.js";
import { createSearch } from "./search.js";

const BUTTON_ZOOM = 0.5;
const GANTT_HELP_KEYS = [
  ["←  →  ↑  ↓", "move, with Shift faster"],
  ["i  o", "zoom in and out in nodes"],
  ["n  p", "choose the next or the previous job, with Shift on the same nodes"],
  ["Enter", "zoom to the chosen job"],
];
const CHART_HELP_KEYS = [["←  →", "move the line that reads the values, with Shift faster"]];
const HELP_KEYS = [
  ["/", "search for a job by id, user or state"],
  ["+  −", "zoom in and out in time"],
  ["0", "show the whole run"],
  ["Esc", "choose no job"],
  ["t", "light or dark"],
  ["?", "this help"],
];

/**
 * Create the tools.
 *
 * @param {HTMLElement} container
 * @param {{model: RunModel, name: string}[]} runs
 * @param {object} page `viewport`, `selection`, `colouring`, `theme`, `colourings` (see
 *   `COLOURINGS`) and `jump(row, model)`, which shows a job.
 * @returns {{destroy: function(): void}} `destroy` ends the reaction to keys.
 */
export function createToolbar(container, runs, page) {
  const { viewport, colouring, theme, colourings } = page;
  const { field, input } = createSearch(runs, page.jump);
  const choices = Object.entries(colourings)
    .filter(([name]) => isUseful(name, runs))
    .map(([name, { label }]) => [name, label]);
  const help = helpDialog();
  const zoom = (factor) => () => viewport.zoom(factor);
  container.replaceChildren(
    makeChoice("Colour by", choices, colouring.get(), (name) => colouring.set(name)),
    field,
    make("div", { class: "buttons" },
      makeButton("+", zoom(BUTTON_ZOOM), { "aria-label": "Zoom in", title: "Zoom in" }),
      makeButton("−", zoom(1 / BUTTON_ZOOM), { "aria-label": "Zoom out", title: "Zoom out" }),
      makeButton("Whole run", () => viewport.fit()),
      makeButton("Light / dark", theme.toggle),
      makeButton("Help", () => help.showModal(), { "aria-haspopup": "dialog" })),
    help,
  );
  const press = (event) => pressKey(event, { page, input, help });
  document.addEventListener("keydown", press);
  return { destroy: () => document.removeEventListener("keydown", press) };
}

/** Whether a colouring says anything: a run without users has no colours by user. */
function isUseful(name, runs) {
  const list = { user: "users", partition: "partitions" }[name];
  return list === undefined || runs.some(({ model }) => model.names[list].length > 0);
}

function helpDialog() {
  const dialog = make("dialog", { "aria-label": "Help" },
    make("h2", {}, "Keys and mouse"),
    make("p", {}, "Drag to move, click a job for its details."),
    helpTable("Everywhere", HELP_KEYS),
    helpTable("In the schedule", GANTT_HELP_KEYS),
    helpTable("In the charts below it", CHART_HELP_KEYS),
    make("form", { method: "dialog" }, make("button", {}, "Close")));
  return dialog;
}

function helpTable(caption, keys) {
  const rows = keys.map(([names, text]) => {
    const marks = names.split("  ").flatMap((key) => [make("kbd", {}, key), " "]);
    return make("tr", {}, make("th", { scope: "row" }, ...marks), make("td", {}, text));
  });
  return make("table", {}, make("caption", {}, caption), make("tbody", {}, ...rows));
}

function pressKey(event, { page, input, help }) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "");
  const modified = event.ctrlKey || event.altKey || event.metaKey;
  if (typing || modified || event.defaultPrevented || help.open) return;
  const act = {
    "/": () => input.focus(),
    "?": () => help.showModal(),
    "+": () => page.viewport.zoom(BUTTON_ZOOM),
    "-": () => page.viewport.zoom(1 / BUTTON_ZOOM),
    "0": () => page.viewport.fit(),
    "t": () => page.theme.toggle(),
    "Escape": () => page.selection.set(null),
  }[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}
