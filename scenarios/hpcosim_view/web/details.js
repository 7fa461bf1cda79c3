/** Details of the chosen job, and why it waited. */

import { make, makeButton } from "./dom.js";
import { JOB_STATES, PERIOD_ENDS, PLACEMENTS } from "./model.js";
import { stateText } from "./search.js";
import { durationText, timeText } from "./time_axis.js";
import { countText, counted, energyText, numberText } from "./units.js";
import { longestWaits, waitFacts } from "./waits.js";
import { boundedSlowdownOf } from "./statistics.js";

const MAX_INTERVALS = 12;
const MAX_SAID = 200;
const LONGEST = 8;
const SAID_TITLE = "What the scheduler said";
const NOTHING_SAID_TEXT = "Nothing: the scheduler was not called while the job waited, or gave no "
  + "reason.";
const KEPT_TEXT = "The scheduler kept them for other jobs, or they were on nodes that the job "
  + "could not use, such as sleeping ones.";
const PLACEMENT_TEXTS = { cores: "", one_node: ", on one node", whole_nodes: ", whole nodes" };

/**
 * Fill the pane with the details of the chosen job, or with the jobs that waited longest.
 * @param {HTMLElement} body
 * @param {Array<{model: RunModel, name: string}>} runs
 * @param {string|null} chosen id of a job
 * @param {(row: number, model: RunModel) => void} jump shows a job
 */
export function showDetails(body, runs, chosen, jump) {
  const found = runs
    .map((run) => ({ ...run, row: chosen === null ? -1 : run.model.rowOf(chosen) }))
    .filter(({ row }) => row >= 0);
  if (found.length === 0) {
    const text = chosen === null
      ? "Click a job, or search for one, to see its details and why it waited."
      : `No job has the id ${chosen}.`;
    body.replaceChildren(make("p", {}, text), ...longestPart(runs, jump));
    return;
  }
  const parts = found.map(({ model, row, name }) => {
    const title = runs.length > 1 ? make("h4", {}, name) : null;
    return make("div", { class: "job" }, title, jobFacts(model, row), whyWaited(model, row, jump));
  });
  const head = make("h3", {}, `Job ${chosen.trim()}`);
  const zoom = makeButton("Zoom to it", () => jump(found[0].row, found[0].model));
  body.replaceChildren(make("div", { class: "job-head" }, head, zoom), ...parts,
    ...longestPart(runs, jump));
}

function longestPart(runs, jump) {
  const { model } = runs[0];
  const rows = longestWaits(model, LONGEST);
  if (rows.length === 0) {
    const waits = model.state.some((state) => state === 0);
    return [make("p", {}, waits ? "No job has started after a wait." : "No job waited.")];
  }
  const items = rows.map((row) => {
    const wait = durationText(model.startS[row] - model.submitS[row]);
    const link = makeButton(`Job ${model.idOf(row)}`, () => jump(row, model), { class: "link" });
    return make("li", {}, link, ` ${wait}, ${counted(model.cores[row], "core")}`);
  });
  const title = runs.length > 1 ? `Longest waits of ${runs[0].name}` : "Longest waits";
  return [make("h3", { class: "longest-head" }, title), make("ol", { class: "longest" }, ...items)];
}

function jobFacts(model, row) {
  const { startS, endS, submitS } = model;
  const slowdown = boundedSlowdownOf(model, row);
  const nameOf = (kind, list) => (kind[row] < 0 ? null : model.names[list][kind[row]]);
  const facts = [
    ["State", stateText(JOB_STATES[model.state[row]])],
    ["User", nameOf(model.user, "users")],
    ["Group", nameOf(model.group, "groups")],
    ["Partition", nameOf(model.partition, "partitions")],
    ["Asks for", askedText(model, row)],
    ["Submitted", timeText(submitS[row])],
    ["Started", Number.isNaN(startS[row]) ? null : timeText(startS[row])],
    ["Ended", Number.isNaN(endS[row]) ? null : timeText(endS[row])],
    ["Waited", Number.isNaN(startS[row]) ? null : durationText(startS[row] - submitS[row])],
    ["Ran", Number.isNaN(startS[row] + endS[row]) ? null : durationText(ranS(model, row))],
    ["Interrupted", interruptionsText(model, row)],
    ["Slowdown", Number.isNaN(slowdown) ? null : `${numberText(slowdown)} (bounded)`],
    ["Nodes", nodesText(model, model.nodesOf(row))],
    ["Energy", Number.isNaN(model.energyJ[row]) ? null : energyText(model.energyJ[row])],
  ];
  const items = facts
    .filter(([, text]) => text !== null && text !== "")
    .flatMap(([title, text]) => [make("dt", {}, title), make("dd", { dir: "auto" }, text)]);
  return make("dl", { class: "facts" }, ...items);
}

/** Return the time for which a job computed in its last run, s. */
function ranS(model, row) {
  return model.periodsOf(row)
    .filter(({ startS }) => startS >= model.startS[row])
    .reduce((sum, { startS, endS }) => sum + Math.min(endS, model.nowS) - startS, 0);
}

/** Return when and why a job stopped computing before it was over; null: it never did. */
function interruptionsText(model, row) {
  const periods = model.periodsOf(row).filter(({ why }) => why > 0);
  if (!periods.length) return null;
  const texts = periods.slice(-MAX_INTERVALS)
    .map(({ startS, endS, why }) => (
      `${stateText(PERIOD_ENDS[why])} ${timeText(endS)} after ${durationText(endS - startS)}`));
  return `${periods.length > MAX_INTERVALS ? "… " : ""}${texts.join(", ")}`;
}

function askedText(model, row) {
  const placement = PLACEMENT_TEXTS[PLACEMENTS[model.placement[row]]] ?? "";
  const requestedS = model.requestedS[row];
  const time = Number.isFinite(requestedS) ? ` for ${durationText(requestedS)}` : "";
  return `${counted(model.cores[row], "core")}${time}${placement}`;
}

/** Return `0–3, 7 (5 nodes)`, with the names of nodes that have some. */
function nodesText(model, intervals) {
  if (intervals.length === 0) return null;
  const count = intervals.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  const texts = intervals
    .slice(0, MAX_INTERVALS)
    .map((ends) => [...new Set(ends)].map((node) => model.nameOfNode(node) || node).join("–"));
  if (intervals.length > MAX_INTERVALS) texts.push("…");
  return `${texts.join(", ")} (${counted(count, "node")})`;
}

function whyWaited(model, row, jump) {
  const facts = waitFacts(model, row);
  if (facts.waitS <= 0) {
    const started = !Number.isNaN(model.startS[row]);
    const text = started ? "It started when it was submitted." : "It did not wait.";
    return make("div", {}, make("h4", {}, "Wait"), make("p", {}, text));
  }
  return make("div", { class: "why" },
    make("h4", {}, `Why it waited ${durationText(facts.waitS)}`),
    saidPart(model, facts),
    make("ul", {}, ...recordedParts(model, row, facts, jump)));
}

function recordedParts(model, row, facts, jump) {
  const link = (other) =>
    makeButton(`job ${model.idOf(other)}`, () => jump(other, model), { class: "link" });
  const linked = (rows, most) =>
    rows.slice(0, most).flatMap((other, at) => [at ? ", " : "", link(other)]);
  const parts = [scarceText(model, row, facts)];
  const were = facts.ahead === 1 ? "was" : "were";
  parts.push(facts.ahead === 0
    ? "No earlier job was waiting when it came."
    : `${counted(facts.ahead, "earlier job")} ${were} waiting when it came.`);
  const items = parts.map((text) => make("li", {}, text));
  if (facts.overtaken > 0) {
    const more = facts.overtaken > 5 ? ", …" : "";
    items.push(make("li", {}, `${counted(facts.overtaken, "later job")} started before it: `,
      ...linked(facts.overtakers, 5), more));
  } else items.push(make("li", {}, "No later job started before it."));
  if (facts.freedBy.length > 0) {
    items.push(make("li", {}, "At its start ended ", ...linked(facts.freedBy, 3),
      facts.freedBy.length > 3 ? ", …" : "", `, which held ${counted(facts.freedCores, "core")}.`));
  }
  return items;
}

function scarceText(model, row, { scarceShare, scarceUntilS, toS }) {
  const cores = model.cores[row];
  if (!(scarceShare > 0)) {
    const enough = cores === 1 ? "1 core was" : `${countText(cores)} cores were`;
    return `All the time at least ${enough} free. ${KEPT_TEXT}`;
  }
  const fewer = `Fewer than ${countText(cores)} cores were free`;
  const scarce = cores === 1 ? "No core was free" : fewer;
  if (scarceShare > 0.99999) return `${scarce} all the time.`;
  const until = scarceUntilS === toS ? "the end of the wait" : timeText(scarceUntilS);
  const share = `${numberText(scarceShare * 100, 3)} %`;
  return `${scarce} in ${share} of the wait, last until ${until}. `
    + `In the rest enough cores were free. ${KEPT_TEXT}`;
}

function saidPart(model, { said, fromS }) {
  if (model.explanations.count === 0) return null;
  if (said.length === 0) return saidBox(make("p", {}, NOTHING_SAID_TEXT));
  const items = said.slice(0, MAX_SAID).map(({ timeS, reason, expectedS, errorS }) =>
    make("li", {},
      make("span", { class: "muted" }, timeText(timeS)), " ", make("b", { dir: "auto" }, reason),
      Number.isNaN(expectedS) ? null : make("div", {}, forecastText(expectedS, errorS))));
  const more = said.length > MAX_SAID
    ? make("p", { class: "note" }, `The first ${MAX_SAID} of ${countText(said.length)}.`)
    : null;
  const before = said[0].timeS > fromS
    ? make("p", { class: "note" }, `Nothing until ${timeText(said[0].timeS)}.`)
    : null;
  const list = make("ol", { class: "said", tabindex: 0, "aria-label": SAID_TITLE }, ...items);
  return saidBox(before, list, more);
}

function saidBox(...parts) {
  return make("div", {}, make("h5", {}, SAID_TITLE), ...parts,
    make("h5", {}, "What the recording shows"));
}

function forecastText(expectedS, errorS) {
  const expected = `expected start ${timeText(expectedS)}`;
  if (Number.isNaN(errorS)) return expected;
  if (Math.abs(errorS) < 0.05) return `${expected}: exact`;
  const error = durationText(Math.abs(errorS));
  return `${expected}: it started ${error} ${errorS > 0 ? "later" : "earlier"}`;
}
