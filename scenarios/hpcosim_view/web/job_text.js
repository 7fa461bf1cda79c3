/** A job in words. Names from data are cut: they may have any length. */

import { endOfJob } from "./gantt_find.js";
import { JOB_STATES } from "./model.js";
import { durationText, timeText } from "./time_axis.js";

const LONGEST_NAME = 40;

/** Return a name, cut if it is long. */
export function shortName(name) {
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
}

/**
 * Return the facts of a job as lines of text.
 *
 * @param {RunModel} model
 * @param {number} row
 * @returns {string[]} the first one names the job.
 */
export function jobLines(model, row) {
  const { startS, submitS, endS } = model;
  const started = !Number.isNaN(startS[row]);
  const user = model.names.users[model.user[row]];
  const count = model.nodesOf(row).reduce((sum, [first, last]) => sum + last - first + 1, 0);
  const place = count ? ` on ${count} ${count === 1 ? "node" : "nodes"}` : "";
  const wait = (started ? startS[row] : endOfJob(model, row)) - submitS[row];
  const lines = [
    `Job ${model.idOf(row)}, ${JOB_STATES[model.state[row]]}`,
    `${model.cores[row]} ${model.cores[row] === 1 ? "core" : "cores"}${place}`,
    `waited ${durationText(wait)}`,
  ];
  if (user !== undefined) lines.splice(1, 0, `user ${shortName(user)}`);
  if (!started) return lines;
  const ran = durationText(endOfJob(model, row) - startS[row]);
  lines.push(`started ${timeText(startS[row])}`);
  lines.push(Number.isNaN(endS[row]) ? `running for ${ran}` : `ran ${ran}`);
  return lines;
}
