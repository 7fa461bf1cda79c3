/** Tables: one for every chart, drawn when it is opened and bounded in rows. */

import { make } from "./dom.js";
import { countText } from "./units.js";

/** Rows that a table shows at most. */
export const MAX_ROWS = 1000;

/**
 * Return a table that is made when it is opened.
 * @param {string} title
 * @param {() => {caption: string, columns: Array, rows: Array[]}} build see `dataTable`
 */
export function lazyTable(title, build) {
  const details = make("details", { class: "data" }, make("summary", {}, title));
  details.addEventListener("toggle", () => {
    details.querySelector(".table-box")?.remove();
    if (details.open) details.append(dataTable(build()));
  });
  return details;
}

/**
 * Return a table in a box that scrolls.
 * @param {{caption: string, columns: Array<string|{title: string, sort: Function}>, rows: Array[],
 *   total: number}} content cells are texts, nodes or null; `total`: number of rows if `rows` are
 *   only the first of them; a column with `sort` has a button that calls it
 */
export function dataTable({ caption, columns, rows, total = rows.length }) {
  const head = make("tr", {}, ...columns.map(headCell));
  const body = make("tbody", {}, ...rows.slice(0, MAX_ROWS).map(bodyRow));
  const shown = Math.min(rows.length, MAX_ROWS);
  const note = total > shown ? ` The first ${countText(shown)} of ${countText(total)} rows.` : "";
  const table = make("table", {},
    make("caption", {}, caption + note), make("thead", {}, head), body);
  const attributes = { class: "table-box", tabindex: 0, role: "region", "aria-label": caption };
  return make("div", attributes, table);
}

function headCell(column) {
  if (typeof column === "string") return make("th", { scope: "col" }, column);
  const { title, sort, sorted = "none" } = column;
  const arrow = { ascending: " ▲", descending: " ▼", none: "" }[sorted];
  const button = make("button", { type: "button", class: "plain", onclick: sort }, title + arrow);
  return make("th", { scope: "col", "aria-sort": sorted }, button);
}

function bodyRow(cells) {
  return make("tr", {}, ...cells.map((cell, at) =>
    make(at === 0 ? "th" : "td", at === 0 ? { scope: "row" } : {}, cell ?? "")));
}

/**
 * Return a box with a table whose columns sort on a click on their titles.
 * @param {string} caption
 * @param {Array<{title: string, value: Function, cell: Function}>} columns `value(item)` sorts,
 *   `cell(item)` is shown
 * @param {any[]} items the rows
 * @param {{column: number, descending: boolean}} first order at the begin
 */
export function sortableTable(caption, columns, items, first) {
  const box = make("div", { class: "sortable" });
  let order = first;
  const draw = () => {
    const { value } = columns[order.column];
    const sign = order.descending ? -1 : 1;
    const sorted = [...items].sort((a, b) => sign * compareValues(value(a), value(b)));
    const heads = columns.map(({ title }, column) => ({
      title,
      sorted: column !== order.column ? "none" : order.descending ? "descending" : "ascending",
      sort: () => {
        order = { column, descending: column === order.column ? !order.descending : true };
        draw();
        box.querySelectorAll("th button")[column].focus();
      },
    }));
    const rows = sorted.slice(0, MAX_ROWS).map((item) => columns.map(({ cell }) => cell(item)));
    box.replaceChildren(dataTable({ caption, columns: heads, rows, total: items.length }));
  };
  draw();
  return box;
}

/** Numbers sort by size, with NaN last in descending order; texts by code. */
function compareValues(a, b) {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(b) - Number.isNaN(a);
  return a < b ? -1 : a > b ? 1 : 0;
}
