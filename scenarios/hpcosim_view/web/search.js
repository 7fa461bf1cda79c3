/** Search for jobs by id, user and state. */

import { make } from "./dom.js";
import { JOB_STATES } from "./model.js";
import { durationText } from "./time_axis.js";
import { counted } from "./units.js";

const MAX_RESULTS = 50;

/**
 * Return the jobs that a text names: an id or its begin, a part of a user's name, or a state.
 * @param {RunModel} model
 * @param {string} text
 * @param {number} most number of rows to return
 * @returns {{rows: number[], total: number}} an exact id first, then in order of submission
 */
export function searchJobs(model, text, most = MAX_RESULTS) {
  const wanted = text.trim().toLowerCase().replace(/^job\s*(?=\d)/, "");
  if (wanted === "") return { rows: [], total: 0 };
  const matches = matcherOf(model, wanted);
  const exact = model.rowOf(wanted);
  const rows = exact >= 0 ? [exact] : [];
  let total = rows.length;
  for (let row = 0; row < model.jobs; row += 1) {
    if (row === exact || !matches(row)) continue;
    total += 1;
    if (rows.length < most) rows.push(row);
  }
  return { rows, total };
}

function matcherOf(model, wanted) {
  const users = new Set();
  model.names.users.forEach((name, at) => {
    if (name.toLowerCase().includes(wanted)) users.add(at);
  });
  const states = new Set();
  JOB_STATES.forEach((name, at) => {
    if (stateText(name).startsWith(wanted) || name === wanted) states.add(at);
  });
  const begins = /^\d{1,15}$/.test(wanted) ? rangesOfPrefix(Number(wanted)) : [];
  return (row) =>
    users.has(model.user[row]) ||
    states.has(model.state[row]) ||
    begins.some(([least, next]) => model.id[row] >= least && model.id[row] < next);
}

/** Return the ranges of ids that begin with these digits. */
function rangesOfPrefix(number) {
  const ranges = [];
  for (let factor = 1n; factor <= 10n ** 12n; factor *= 10n) {
    ranges.push([BigInt(number) * factor, BigInt(number + 1) * factor]);
    if (number === 0) break;
  }
  return ranges;
}

/** Return the name of a state as text: `node failed`. */
export function stateText(name) {
  return name.replaceAll("_", " ");
}

/**
 * Create the field and the list of results.
 * @param {Array<{model: RunModel, name: string}>} runs the first one is searched
 * @param {(row: number) => void} jump shows a job of the first run
 * @returns {{field: HTMLElement, input: HTMLInputElement}}
 */
export function createSearch(runs, jump) {
  const { model } = runs[0];
  const input = make("input", {
    type: "search", placeholder: "Job id, user or state", "aria-label": "Search jobs",
    role: "combobox", "aria-expanded": "false", "aria-controls": "search-results",
    "aria-autocomplete": "list", autocomplete: "off", maxlength: 200,
  });
  const list = make("ul", { id: "search-results", role: "listbox", "aria-label": "Jobs found" });
  const count = make("p", { class: "note", role: "status" });
  const popup = make("div", { class: "popup", hidden: true }, count, list);
  const field = make("div", { class: "search" }, input, popup);
  const state = { model, input, list, count, popup, jump, rows: [], active: 0 };
  input.addEventListener("input", () => showResults(state));
  input.addEventListener("focus", () => showResults(state));
  input.addEventListener("keydown", (event) => moveInResults(state, event));
  field.addEventListener("focusout", (event) => {
    if (!field.contains(event.relatedTarget)) closeResults(state);
  });
  return { field, input };
}

function showResults(state) {
  const { model, input, count, popup } = state;
  if (input.value.trim() === "") {
    closeResults(state);
    return;
  }
  const { rows, total } = searchJobs(model, input.value);
  state.rows = rows;
  state.active = 0;
  count.textContent = total === 0
    ? "No job has this id, user or state."
    : `${counted(total, "job")}${total > rows.length ? `; the first ${rows.length}` : ""}`;
  drawResults(state);
  popup.hidden = false;
  input.setAttribute("aria-expanded", "true");
}

function drawResults(state) {
  const { model, rows, list, input, active } = state;
  list.replaceChildren(...rows.map((row, at) => {
    const user = model.names.users[model.user[row]];
    const facts = [
      `${counted(model.cores[row], "core")}`,
      stateText(JOB_STATES[model.state[row]]),
      `waited ${durationText(model.startS[row] - model.submitS[row])}`,
      ...(user === undefined ? [] : [user]),
    ];
    return make("li", {
      role: "option", id: `search-result-${at}`, "aria-selected": String(at === active),
      onmousedown: (event) => event.preventDefault(), onclick: () => chooseResult(state, at),
    }, make("b", {}, `Job ${model.idOf(row)}`), make("span", {}, facts.join(" · ")));
  }));
  input.setAttribute("aria-activedescendant", rows.length ? `search-result-${active}` : "");
}

function moveInResults(state, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") closeResults(state);
  if (event.key === "Enter" && state.rows.length > 0) chooseResult(state, state.active);
  if (step === undefined || state.rows.length === 0) return;
  event.preventDefault();
  state.active = (state.active + step + state.rows.length) % state.rows.length;
  drawResults(state);
  state.list.children[state.active].scrollIntoView({ block: "nearest" });
}

function chooseResult(state, at) {
  closeResults(state);
  state.jump(state.rows[at]);
}

function closeResults({ popup, input }) {
  popup.hidden = true;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}
