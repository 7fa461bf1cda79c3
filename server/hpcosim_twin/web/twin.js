/** The page of a twin: the queue with ranges, questions about a job, waits, and the record. */

const REFRESH_MS = 60_000;
const MOST_ROWS = 300;
const MOST_WAYS = 8;
const RANGES = ["0.5", "0.8", "0.95"];

const at = (id) => document.getElementById(id);

/** Return an element; texts among its children are never markup. */
function element(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) found.setAttribute(key, value);
  }
  found.append(...children.map((each) => each ?? "-"));
  return found;
}

/** Return the answer to a question; throw what the twin says against it. */
async function ask(question) {
  const reply = await fetch("ask", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(question),
  });
  const text = await reply.text();
  if (!reply.ok) {
    let words = text;
    try { words = JSON.parse(text).error; } catch { /* a text */ }
    throw new Error(words || `status ${reply.status}`);
  }
  return JSON.parse(text);
}

/** Return a time such as `14:05`, with the day if it is another one. */
function clock(unixS, nowS) {
  if (unixS == null) return "never";
  const time = new Date(unixS * 1000), now = new Date(nowS * 1000);
  const hours = time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  if (time.toDateString() === now.toDateString()) return hours;
  return `${time.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })} ${hours}`;
}

/** Return a duration such as `40 s`, `12 min` or `3.5 h`. */
function span(seconds) {
  if (seconds == null) return "never";
  const size = Math.abs(seconds), sign = seconds < 0 ? "−" : "";
  if (size < 90) return `${sign}${Math.round(size)} s`;
  if (size < 5400) return `${sign}${Math.round(size / 60)} min`;
  if (size < 2 * 86400) return `${sign}${(size / 3600).toFixed(1)} h`;
  return `${sign}${(size / 86400).toFixed(1)} d`;
}

const percent = (share) => `${Math.round(100 * share)} %`;
/** Return a range of times, with the day once if it is the same. */
function both([low, high], nowS) {
  if (low == null) return "never";
  const [from, until] = [clock(low, nowS), clock(high, nowS)];
  const day = from.slice(0, -5);
  return `${from} – ${day && until.startsWith(day) ? until.slice(day.length) : until}`;
}

/** Carry out work for a part of the page, and show its error there. */
async function show(target, work) {
  target.setAttribute("aria-busy", "true");
  try {
    target.replaceChildren(...await work());
  } catch (error) {
    target.replaceChildren(element("p", { class: "failure" }, error.message));
  } finally {
    target.removeAttribute("aria-busy");
  }
}

function table(heads, rows, kind = "") {
  const head = element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, column) =>
    cell instanceof HTMLTableCellElement ? cell
      : element(column ? "td" : "th", column ? {} : { scope: "row", class: "text" }, cell))));
  return element("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": heads[0] },
    element("table", { class: kind }, element("thead", {}, head), element("tbody", {}, ...body)));
}

let queue = { at_s: 0, jobs: [] };

/** Return the bar of a job on the time axis of all rows. */
function bar(row, nowS, untilS) {
  const place = (unixS) => `${100 * Math.min(Math.max((unixS - nowS) / (untilS - nowS), 0), 1)}%`;
  const part = (kind, low, high) => {
    const found = element("i", { class: kind });
    found.style.left = place(low);
    if (high !== undefined) found.style.right = `calc(100% - ${place(high ?? untilS)})`;
    return found;
  };
  const range = element("div", { class: "range", "aria-hidden": "true" });
  if (row.median_s == null) return range;
  range.append(part("wide", ...row.ranges["0.95"]), part("narrow", ...row.ranges["0.8"]), part("median", row.median_s));
  if (row.squeue_s != null) range.append(part("said", row.squeue_s));
  return range;
}

function drawQueue() {
  const words = at("filter").value.trim().toLowerCase();
  const nowS = queue.at_s;
  const rows = queue.jobs
    .filter((row) => !words || `${row.label} ${row.user}`.toLowerCase().includes(words))
    .sort((a, b) => (a.median_s ?? Infinity) - (b.median_s ?? Infinity) || a.job_id - b.job_id);
  const shown = rows.slice(0, MOST_ROWS);
  const ends = shown.map((row) => row.ranges["0.95"][1] ?? row.median_s ?? nowS).sort((a, b) => a - b);
  const untilS = Math.max(ends.at(Math.floor(0.95 * (ends.length - 1))) ?? nowS, nowS + 600);
  at("from").textContent = clock(nowS, nowS);
  at("until").textContent = clock(untilS, nowS);
  at("jobs").replaceChildren(...shown.map((row) => {
    const help = element("button", { type: "button", class: "link" }, "advice");
    help.addEventListener("click", () => advise(row));
    return element("tr", {},
      element("th", { scope: "row" }, row.label), element("td", {}, row.user),
      element("td", { title: row.meaning || row.reason }, clock(row.median_s, nowS)),
      element("td", {}, bar(row, nowS, untilS)),
      element("td", {}, row.median_s == null ? row.reason || "-" : both(row.ranges["0.8"], nowS)),
      element("td", { class: "slurm" }, row.squeue_s == null ? "-" : clock(row.squeue_s, nowS)),
      element("td", {}, help));
  }));
  const more = rows.length - shown.length;
  at("queue-note").textContent = more > 0 ? `${more} further jobs; give a job or a user above.`
    : rows.length ? "" : words ? "No waiting job has this in its number or user." : "No jobs wait.";
}

async function readQueue() {
  at("queue").setAttribute("aria-busy", "true");
  try {
    queue = await ask({ ask: "queue" });
    at("problem").hidden = true;
    const age = queue.picture_age_s;
    at("about").textContent = queue.record;
    const facts = [["waiting", String(queue.jobs.length)], ["as of", clock(queue.at_s, queue.at_s)],
      ["picture", age < 60 ? "fresh" : `${span(age)} old`], ["simulations", String(queue.samples)]];
    at("facts").replaceChildren(...facts.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value))));
    drawQueue();
  } catch (error) {
    at("problem").textContent = error.message;
    at("problem").hidden = false;
  }
  at("queue").removeAttribute("aria-busy");
}

function startCells(row, nowS) {
  return [clock(row.start.median_s, nowS), both(row.start.ranges["0.8"], nowS)];
}

async function advise(row) {
  at("advice").hidden = false;
  at("advice-title").textContent = `What would help job ${row.label}`;
  at("advice").scrollIntoView({ block: "nearest" });
  await show(at("advice-answer"), async () => {
    const found = await ask({ ask: "advice", job_id: row.job_id });
    const same = ["as it is", ...startCells(found, found.at_s), "", ""];
    const others = found.ways.map((each) => [each.what, ...startCells(each, found.at_s),
      percent(each.chance_to_start_sooner), span(each.median_gain_s)]);
    return [table(["Request", "Start", "80 %", "Sooner", "Gain"], [same, ...others])];
  });
}

at("ways").addEventListener("submit", (event) => {
  event.preventDefault();
  show(at("ways-answer"), async () => {
    const ways = at("ways-text").value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!ways.length || ways.length > MOST_WAYS) throw new Error(`expected 1 to ${MOST_WAYS} lines`);
    const found = await ask({ ask: "ways", ways, user: at("ways-user").value.trim() });
    const rows = found.jobs.map((row) => [row.options, ...startCells(row, found.at_s),
      clock(row.end.median_s, found.at_s), percent(row.chance_to_start_within_1_h),
      percent(row.chance_to_end_first)]);
    const never = found.jobs.some((row) => row.start.median_s == null);
    const note = element("p", { class: "note" },
      "never: in most simulations the job does not start; it may ask for more than the partition has");
    return [table(["Request", "Start", "80 %", "End", "In 1 h", "Ends first"], rows), ...(never ? [note] : [])];
  });
});

at("map").addEventListener("submit", (event) => {
  event.preventDefault();
  show(at("map-answer"), async () => {
    const found = await ask({ ask: "map", partition: at("partition").value.trim() });
    const sizes = [...new Set(found.cells.map((cell) => cell.nodes))].sort((a, b) => a - b);
    const hours = [...new Set(found.cells.map((cell) => cell.hours))].sort((a, b) => a - b);
    const longest = Math.max(3600, ...found.cells.map((cell) => cell.median_wait_s ?? 0));
    const rows = sizes.map((nodes) => [`${nodes} node${nodes > 1 ? "s" : ""}`, ...hours.map((time) => {
      const cell = found.cells.find((each) => each.nodes === nodes && each.hours === time);
      const wait = cell.median_wait_s;
      const td = element("td", { title: `80 %: ${span(cell.low_wait_s)} to ${span(cell.high_wait_s)}` }, span(wait));
      const shade = wait == null ? 70 : (60 * Math.log1p(Math.max(wait, 0))) / Math.log1p(longest);
      td.style.background = `color-mix(in srgb, var(--run-1) ${shade.toFixed(0)}%, var(--panel))`;
      return td;
    })]);
    const caption = element("p", { class: "note" }, `Median waits in ${found.partition}, by time limit.`);
    return [caption, table(["Size", ...hours.map((time) => `${time} h`)], rows, "map")];
  });
});

async function readRecord() {
  await show(at("record"), async () => {
    const found = await ask({ ask: "record" });
    if (!found.started) {
      const words = `${found.answers} answers are kept; none of their jobs has started yet.`;
      return [element("p", { class: "note" }, words)];
    }
    const rows = RANGES.filter((each) => found.coverage[each] != null).flatMap((each) => {
      const share = found.coverage[each];
      const bar = element("i"), goal = element("b");
      bar.style.width = percent(share).replace(" ", "");
      goal.style.left = `${100 * Number(each)}%`;
      return [element("span", {}, `range of ${percent(Number(each))}`),
        element("div", { class: "meter", role: "img", "aria-label": `held in ${percent(share)}` }, bar, goal),
        element("span", {}, percent(share))];
    });
    const slurm = found.beside_slurm;
    const facts = [["answers compared", found.started.toLocaleString()], ["median error", span(found.median_error_s)]];
    if (slurm.answers) {
      facts.push(["where Slurm said a time", `${span(slurm.median_error_s)}; Slurm: ${span(slurm.slurm_median_error_s)}`]);
    }
    const reliable = found.reliability.map((each) => [span(each.said_s), span(each.waited_s),
      `${span(each.low_s)} – ${span(each.high_s)}`, String(each.answers)]);
    return [element("p", { class: "note" }, "How often the start lay within the range; the mark is where it should be."),
      element("div", { class: "coverage" }, ...rows),
      element("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      table(["Wait that was said", "Median wait", "80 % of waits", "Answers"], reliable)];
  });
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const theme = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", theme);
theme();
at("filter").addEventListener("input", drawQueue);

async function refresh() {
  if (!document.hidden) {
    await readQueue();
    await readRecord();
  }
}
setInterval(refresh, REFRESH_MS);
refresh();
