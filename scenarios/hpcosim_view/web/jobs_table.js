/** The table of a Gantt chart: the jobs that it shows. */

import { makeButton } from "./dom.js";
import { JOB_STATES } from "./model.js";
import { stateText } from "./search.js";
import { MAX_ROWS, lazyTable } from "./tables.js";
import { durationText, timeText } from "./time_axis.js";
import { countText } from "./units.js";
import { waitEnd } from "./waits.js";

/**
 * Return a table, made when it is opened, of the jobs that wait or run in the visible time.
 *
 * @param {RunModel} model
 * @param {Viewport} viewport
 * @param {function(number): void} jump shows the job of a row.
 */
export function jobsTable(model, viewport, jump) {
  return lazyTable("Table of jobs", () => {
    const users = model.names.users.length > 0 ? ["user"] : [];
    const columns = ["job", ...users, "cores", "submitted", "waited", "started", "ended", "state"];
    const { rows, total } = visibleJobs(model, viewport);
    return {
      caption: "Jobs that wait or run in the shown time, in order of submission.",
      columns,
      rows: rows.map((row) => jobCells(model, row, jump)),
      total,
    };
  });
}

function visibleJobs(model, { startS, endS }) {
  const rows = [];
  let total = 0;
  for (let row = 0; row < model.jobs; row += 1) {
    const overS = Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
    if (model.submitS[row] > endS || overS < startS) continue;
    total += 1;
    if (rows.length < MAX_ROWS) rows.push(row);
  }
  return { rows, total };
}

function jobCells(model, row, jump) {
  return [
    makeButton(model.idOf(row), () => jump(row), { class: "link" }),
    ...(model.names.users.length > 0 ? [model.names.users[model.user[row]] ?? ""] : []),
    countText(model.cores[row]),
    timeText(model.submitS[row]),
    durationText(waitEnd(model, row) - model.submitS[row]),
    timeText(model.startS[row]),
    timeText(model.endS[row]),
    stateText(JOB_STATES[model.state[row]]),
  ];
}
