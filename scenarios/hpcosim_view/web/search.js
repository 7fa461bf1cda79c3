/** Search for jobs by id, user and state. */

import { make } from "./dom.js";
import { JOB_STATES } from "./model.js";
import { durationText } from "./time_axis.js";
import { counted } from "./units.js";

const MAX_RESULTS = 50;
/** Further words that find a state: a job with `timeout` was killed at its requested time. */
const STATE_SYNONYMS = { timeout: ["killed"] };

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

/**
 * Return the jobs of several runs that a text names, the runs taking turns.
 * @param {Array<{model: RunModel, name: string}>} runs
 * @param {string} text
 * @returns {{jobs: Array<{run: object, row: number}>, total: number}}
 */
export function searchRuns(runs, text) {
  const most = Math.ceil(MAX_RESULTS / runs.length);
  const found = runs.map(({ model }) => searchJobs(model, text, most));
  const jobs = [];
  for (let at = 0; at < most; at += 1) {
    found.forEach(({ rows }, run) => {
      if (at < rows.length) jobs.push({ run: runs[run], row: rows[at] });
    });
  }
  return { jobs, total: found.reduce((sum, { total }) => sum + total, 0) };
}

function matcherOf(model, wanted) {
  const users = new Set();
  model.names.users.forEach((name, at) => {
    if (name.toLowerCase().includes(wanted)) users.add(at);
  });
  const states = new Set();
  JOB_STATES.forEach((name, at) => {
    const words = [stateText(name), name, ...(STATE_SYNONYMS[name] ?? [])];
    if (words.some((word) => word.startsWith(wanted))) states.add(at);
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
 * @param {Array<{model: RunModel, name: string}>} runs all are searched
 * @param {(row: number, model: RunModel) => void} jump shows a job
 * @returns {{field: HTMLElement, input: HTMLInputElement}}
 */
export function createSearch(runs, jump) {
  const input = make("input", {
    type: "search", placeholder: "Job id, user or state", "aria-label": "Search jobs",
    role: "combobox", "aria-expanded": "false", "aria-controls": "search-results",
    "aria-autocomplete": "list", autocomplete: "off", maxlength: 200,
  });
  const list = make("ul", { id: "search-results", role: "listbox", "aria-label": "Jobs found" });
  const count = make("p", { class: "note", role: "status" });
  const popup = make("div", { class: "popup", hidden: true }, count, list);
  const field = make("div", { class: "search" }, input, popup);
  const state = { runs, input, list, count, popup, jump, jobs: [], active: 0 };
  input.addEventListener("input", () => showResults(state));
  input.addEventListener("focus", () => showResults(state));
  input.addEventListener("keydown", (event) => moveInResults(state, event));
  field.addEventListener("focusout", (event) => {
    if (!field.contains(event.relatedTarget)) closeResults(state);
  });
  return { field, input };
}

function showResults(state) {
  const { runs, input, count, popup } = state;
  if (input.value.trim() === "") {
    closeResults(state);
    return;
  }
  const { jobs, total } = searchRuns(runs, input.value);
  state.jobs = jobs;
  state.active = 0;
  count.textContent = total === 0
    ? "No job has this id, user or state."
    : `${counted(total, "job")}${total > jobs.length ? `; the first ${jobs.length}` : ""}`;
  drawResults(state);
  popup.hidden = false;
  input.setAttribute("aria-expanded", "true");
}

function drawResults(state) {
  const { runs, jobs, list, input, active } = state;
  list.replaceChildren(...jobs.map(({ run: { model, name }, row }, at) => {
    const user = model.names.users[model.user[row]];
    const facts = [
      ...(runs.length > 1 ? [name] : []),
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
  input.setAttribute("aria-activedescendant", jobs.length ? `search-result-${active}` : "");
}

function moveInResults(state, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") closeResults(state);
  if (event.key === "Enter" && state.jobs.length > 0) chooseResult(state, state.active);
  if (step === undefined || state.jobs.length === 0) return;
  event.preventDefault();
  state.active = (state.active + step + state.jobs.length) % state.jobs.length;
  drawResults(state);
  state.list.children[state.active].scrollIntoView({ block: "nearest" });
}

function chooseResult(state, at) {
  closeResults(state);
  const { run, row } = state.jobs[at];
  state.jump(row, run.model);
}

function closeResults({ popup, input }) {
  popup.hidden = true;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}
