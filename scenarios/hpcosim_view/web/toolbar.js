/** The tools of the page: colours, search, zoom, theme and help. */

import { make, makeButton, makeChoice } from "./dom.js";
import { createSearch } from "./search.js";

const ZOOM_FACTOR = 0.5;
const HELP_KEYS = [
  ["/", "search for a job"],
  ["+  −", "zoom in and out"],
  ["← →", "move in time; in the charts below: move the line that reads values"],
  ["0", "show the whole run"],
  ["n  p", "choose the next or the previous job"],
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
 *   `COLOURINGS`) and `jump(row)`, which shows a job of the first run.
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
      makeButton("+", zoom(ZOOM_FACTOR), { "aria-label": "Zoom in", title: "Zoom in" }),
      makeButton("−", zoom(1 / ZOOM_FACTOR), { "aria-label": "Zoom out", title: "Zoom out" }),
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
  const rows = HELP_KEYS.map(([keys, text]) => make("tr", {},
    make("th", { scope: "row" }, ...keys.split("  ").flatMap((key) => [make("kbd", {}, key), " "])),
    make("td", {}, text)));
  const dialog = make("dialog", { "aria-label": "Help" },
    make("h2", {}, "Keys and mouse"),
    make("table", {}, make("tbody", {}, ...rows)),
    make("p", {}, "Drag to move, turn the wheel to zoom, click a job for its details."),
    make("form", { method: "dialog" }, make("button", {}, "Close")));
  return dialog;
}

function pressKey(event, { page, input, help }) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "");
  if (typing || event.ctrlKey || event.altKey || event.metaKey || help.open) return;
  const act = {
    "/": () => input.focus(),
    "?": () => help.showModal(),
    "t": () => page.theme.toggle(),
    "Escape": () => page.selection.set(null),
  }[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
}
