/** A run as columns that grow with each frame. */

import { GrowableColumn } from "./growable_column.js";
import { expandHosts } from "./host_list.js";

export const JOB_STATES = [
  "waiting",
  "running",
  "completed",
  "timeout",
  "killed",
  "node_failed",
  "rejected",
  "failed",
  "cancelled",
  "preempted",
  "deadline",
];
export const POWER_STATES = ["on", "switching_off", "sleeping", "switching_on", "down"];
export const NODE_STATES = [
  "computing", "idle", "sleeping", "switching_on", "switching_off", "down",
];
export const PLACEMENTS = ["cores", "one_node", "whole_nodes"];
/** Why computing periods ended after which the jobs were not over; the first entry: none of these. */
export const PERIOD_ENDS = [
  "",
  "suspended",
  "requeued",
  "requeued_node_failed",
  "suspended_requeued",
  "suspended_requeued_node_failed",
];
const SUSPENDED = 1;
const NAME_LISTS = ["users", "groups", "partitions", "reasons"];
const MODEL_COLUMNS = {
  job: { id: BigInt64Array, submit_s: Float64Array, requested_s: Float64Array, cores: Int32Array,
         placement: Uint8Array, user: Int32Array, group: Int32Array, partition: Int32Array },
  box: { first: Uint32Array, last: Uint32Array },
  power: { time_s: Float64Array, node: Uint32Array, state: Uint8Array },
  drain: { time_s: Float64Array, node: Uint32Array, drained: Uint8Array },
  watts: { time_s: Float64Array, state: Uint8Array, power_w: Float64Array },
  explain: { job: Int32Array, time_s: Float64Array, reason: Uint16Array,
             expected_start_s: Float64Array },
};

/**
 * A run. Rows of jobs are in order of submission. Every column is a typed array of exactly as many
 * rows as there are; `append` replaces it, so read it from the model again after each append.
 *
 * Columns of jobs (`jobs` rows): `id` (BigInt), `submitS`, `requestedS` (NaN: unknown), `cores`,
 * `placement` (index into `PLACEMENTS`), `user`, `group`, `partition` (indices into `names`; -1:
 * unknown), `startS` and `endS` (NaN: not yet), `state` (index into `JOB_STATES`), `energyJ` (NaN:
 * unknown), `firstBox` and `boxCount` (the rows of `boxes` of the job).
 *
 * Tables with `count` rows: `boxes` in order of starts (`job`, first and last core: `first`, `last`,
 * and begin and end of the computing: `startS`, `endS`, infinite while it lasts), `ends` in order of
 * ends (`job`), `pauses` in order of time (`start`: number of the computing period that ended,
 * `timeS`), `power` (`timeS`, `node`, `state`), `drains` (`timeS`, `node`, `drained`), `watts` (`timeS`, `state`, `powerW`) and
 * `explanations`.
 */
export class RunModel {
  constructor() {
    /** Facts of all frames. */
    this.about = {};
    this.names = { users: [], groups: [], partitions: [], reasons: [] };
    /** Number of appended frames. */
    this.version = 0;
    /**
     * `count`; `firstCore` of each node and, last, the number of cores; `groups`; `names` of the
     * nodes, empty: they have none.
     */
    this.nodes = { count: 0, firstCore: new Uint32Array(1), groups: [], names: [] };
    this.growing = {};
    for (const [prefix, columns] of Object.entries(MODEL_COLUMNS)) {
      for (const [name, Type] of Object.entries(columns)) {
        this.growing[`${prefix}.${name}`] = new GrowableColumn(Type);
      }
    }
    for (const [name, Type] of [["start", Float64Array], ["end", Float64Array],
      ["energy", Float64Array], ["state", Uint8Array], ["firstBox", Uint32Array],
      ["boxCount", Uint32Array], ["boxJob", Int32Array], ["ended", Int32Array],
      ["boxStart", Float64Array], ["boxEnd", Float64Array], ["startBox", Uint32Array],
      ["paused", Int32Array], ["pausedAt", Float64Array], ["why", Uint8Array],
      ["before", Int32Array], ["last", Int32Array],
      ["explainBefore", Int32Array], ["lastExplain", Int32Array]]) {
      this.growing[name] = new GrowableColumn(Type);
    }
    this.publish();
  }

  /** Simulated time of the begin of the run, s. */
  get beginS() {
    return this.about.start_s ?? 0;
  }

  /** Simulated time up to which the run is known, s. */
  get nowS() {
    return this.about.now_s ?? this.beginS;
  }

  /** Number of cores of all nodes. */
  get coreCount() {
    return this.nodes.firstCore[this.nodes.count];
  }

  /**
   * Append a frame.
   *
   * @param {{about: object, columns: Object<string, ArrayLike>}} frame see `decodeFrame`.
   */
  append({ about, columns }) {
    const { growing } = this;
    for (const list of NAME_LISTS) {
      for (const name of about[list] ?? []) this.names[list].push(String(name));
    }
    const { users, groups, partitions, reasons, ...facts } = about;
    Object.assign(this.about, facts);
    if (facts.nodes) this.nodes = numberCores(facts.nodes);
    if (facts.node_names) {
      this.nodes.names = expandHosts(String(facts.node_names), this.nodes.count);
    }
    for (const [prefix, names] of Object.entries(MODEL_COLUMNS)) {
      for (const name of Object.keys(names)) {
        growing[`${prefix}.${name}`].push(columns[`${prefix}.${name}`] ?? []);
      }
    }
    const jobs = columns["job.id"].length;
    for (const name of ["start", "end", "energy"]) growing[name].extend(jobs, NaN);
    for (const name of ["state", "firstBox", "boxCount"]) growing[name].extend(jobs, 0);
    growing.lastExplain.extend(jobs, -1);
    growing.last.extend(jobs, -1);
    this.publish();
    this.appendPeriods(columns);
    this.appendStarts(columns);
    this.appendPauses(columns);
    this.appendEnds(columns);
    this.appendExplanations(columns["explain.job"]);
    this.publish();
    this.version++;
  }

  appendStarts(columns) {
    const { "start.job": job, "start.time_s": timeS, "start.boxes": boxes } = columns;
    const { boxJob: owner, boxStart, startBox, before, last } = this.growing;
    let box = owner.length - columns["box.first"].length;
    const known = startBox.length - job.length;
    for (let i = 0; i < job.length; i++) {
      const row = job[i];
      const period = known + i;
      before.view[period] = last.view[row];
      last.view[row] = period;
      if (!this.isResumed(period)) this.startS[row] = timeS[i];
      this.state[row] = 1;
      startBox.view[period] = box;
      boxStart.view.fill(timeS[i], box, box + boxes[i]);
      this.firstBox[row] = box;
      this.boxCount[row] = boxes[i];
      owner.view.fill(row, box, box + boxes[i]);
      box += boxes[i];
    }
  }

  /** Make room for the new computing periods, and note why those ended that were not the last. */
  appendPeriods(columns) {
    const { "start.job": job, "box.first": boxes, "pause.start": paused = [] } = columns;
    const { boxJob, boxStart, boxEnd, startBox, before, why } = this.growing;
    boxJob.extend(boxes.length, -1);
    boxStart.extend(boxes.length, 0);
    boxEnd.extend(boxes.length, Infinity);
    startBox.extend(job.length, 0);
    before.extend(job.length, -1);
    why.extend(job.length, 0);
    paused.forEach((period, i) => (why.view[period] = columns["pause.why"][i]));
  }

  /** Whether a computing period continues the run of the one before it. */
  isResumed(period) {
    const before = this.growing.before.view[period];
    return before >= 0 && this.growing.why.view[before] === SUSPENDED;
  }

  /** Whether the job waits after the end of a computing period. */
  waitsAfter(period) {
    return this.growing.why.view[period] > SUSPENDED;
  }

  /** Take up the ends of computing periods after which the jobs were not over. */
  appendPauses(columns) {
    const { "pause.start": start = [], "pause.time_s": timeS = [] } = columns;
    const { boxJob, boxEnd, startBox, last, why } = this.growing;
    for (let i = 0; i < start.length; i++) {
      const first = startBox.view[start[i]];
      const row = boxJob.view[first];
      boxEnd.view.fill(timeS[i], first, startBox.view[start[i] + 1] ?? boxJob.length);
      if (why.view[start[i]] === SUSPENDED || last.view[row] !== start[i]) continue;
      this.startS[row] = NaN; // it waits again
      this.state[row] = 0;
      this.boxCount[row] = 0;
    }
    this.growing.paused.push(Int32Array.from(start));
    this.growing.pausedAt.push(Float64Array.from(timeS));
  }

  appendEnds(columns) {
    const { "end.job": job, "end.time_s": timeS, "end.state": state } = columns;
    for (let i = 0; i < job.length; i++) {
      const row = job[i];
      this.endS[row] = timeS[i];
      const boxEnd = this.growing.boxEnd.view;
      for (let box = this.firstBox[row]; box < this.firstBox[row] + this.boxCount[row]; box++) {
        if (boxEnd[box] === Infinity) boxEnd[box] = timeS[i]; // otherwise it was suspended
      }
      this.state[job[i]] = state[i];
      this.energyJ[job[i]] = columns["end.energy_j"][i];
    }
    this.growing.ended.push(job);
  }

  appendExplanations(job) {
    const before = this.growing.explainBefore;
    const first = before.length;
    const last = this.growing.lastExplain.view;
    before.extend(job.length, -1);
    for (let i = 0; i < job.length; i++) {
      before.view[first + i] = last[job[i]];
      last[job[i]] = first + i;
    }
  }

  /** Make the columns as long as they have grown. */
  publish() {
    const view = (name) => this.growing[name].view;
    this.id = view("job.id");
    this.jobs = this.id.length;
    this.submitS = view("job.submit_s");
    this.requestedS = view("job.requested_s");
    this.cores = view("job.cores");
    this.placement = view("job.placement");
    this.user = view("job.user");
    this.group = view("job.group");
    this.partition = view("job.partition");
    this.startS = view("start");
    this.endS = view("end");
    this.state = view("state");
    this.energyJ = view("energy");
    this.firstBox = view("firstBox");
    this.boxCount = view("boxCount");
    this.boxes = modelTable({
      job: view("boxJob"), first: view("box.first"), last: view("box.last"),
      startS: view("boxStart"), endS: view("boxEnd"),
    });
    this.ends = modelTable({ job: view("ended") });
    this.pauses = modelTable({ start: view("paused"), timeS: view("pausedAt") });
    this.startBox = view("startBox");
    this.power = modelTable({
      timeS: view("power.time_s"), node: view("power.node"), state: view("power.state"),
    });
    this.drains = modelTable({
      timeS: view("drain.time_s"), node: view("drain.node"), drained: view("drain.drained"),
    });
    this.watts = modelTable({
      timeS: view("watts.time_s"), state: view("watts.state"), powerW: view("watts.power_w"),
    });
    this.explanations = modelTable({
      job: view("explain.job"), timeS: view("explain.time_s"), reason: view("explain.reason"),
      expectedStartS: view("explain.expected_start_s"),
    });
  }

  /** Return the id of a job as text. */
  idOf(row) {
    return String(this.id[row]);
  }

  /**
   * Return the row of a job.
   *
   * @param {string|null} text the job id.
   * @returns {number} -1: there is no such job.
   */
  rowOf(text) {
    if (text === null || !/^\s*\d{1,19}\s*$/.test(text)) return -1;
    const id = BigInt(text);
    const guess = lowerBound(this.id, id);
    if (this.id[guess] === id) return guess;
    return this.id.indexOf(id);
  }

  /**
   * Return why a job waited according to its scheduler, in order of time.
   *
   * @returns {{timeS: number, reason: string, expectedStartS: number}[]} NaN: no expected start.
   */
  explanationsOf(row) {
    const { timeS, reason, expectedStartS } = this.explanations;
    const found = [];
    let at = this.growing.lastExplain.view[row];
    for (; at >= 0; at = this.growing.explainBefore.view[at]) {
      found.push({
        timeS: timeS[at],
        reason: this.names.reasons[reason[at]] ?? "",
        expectedStartS: expectedStartS[at],
      });
    }
    return found.reverse();
  }

  /**
   * Return the computing periods of a job in chronological order.
   *
   * @returns {{startS: number, endS: number, why: number, first: number, last: number}[]} `endS`:
   *   infinity while it lasts; `why`: index into `PERIOD_ENDS`, 0: it lasts, or the job is over;
   *   its boxes from `first` to below `last`.
   */
  periodsOf(row) {
    const { before, why, last } = this.growing;
    const { startS, endS, count } = this.boxes;
    const found = [];
    for (let period = last.view[row] ?? -1; period >= 0; period = before.view[period]) {
      const first = this.startBox[period];
      found.push({ startS: startS[first], endS: endS[first], why: why.view[period],
                   first, last: this.startBox[period + 1] ?? count });
    }
    return found.reverse();
  }

  /** Return the nodes of a job as intervals `[[first, last], ...]`; empty before its start. */
  nodesOf(row) {
    const { first, last } = this.boxes;
    const found = [];
    const end = this.firstBox[row] + this.boxCount[row];
    for (let box = this.firstBox[row]; box < end; box++) {
      const from = this.nodeOfCore(first[box]);
      const to = this.nodeOfCore(last[box]);
      const before = found.at(-1);
      if (before && from <= before[1] + 1) before[1] = Math.max(before[1], to);
      else found.push([from, to]);
    }
    return found;
  }

  /** Return the name of a node; empty: it has none. */
  nameOfNode(node) {
    return this.nodes.names[node] ?? "";
  }

  /** Return the number of the node that has a core. */
  nodeOfCore(core) {
    for (const group of this.nodes.groups) {
      if (core <= group.lastCore) {
        return group.first + Math.floor((core - group.firstCore) / group.cores);
      }
    }
    return -1;
  }
}

/** Return columns of equal length with their `count`. */
function modelTable(columns) {
  return { count: Object.values(columns)[0].length, ...columns };
}

/**
 * Number the cores through all nodes.
 *
 * @param {[number, number, string][]} groups number of nodes, cores of each, and name.
 */
function numberCores(groups) {
  const count = groups.reduce((sum, [nodes]) => sum + nodes, 0);
  const firstCore = new Uint32Array(count + 1);
  const found = [];
  let node = 0;
  for (const [nodes, cores, name] of groups) {
    const from = firstCore[node];
    found.push({
      first: node, last: node + nodes - 1, cores, name: String(name ?? ""),
      firstCore: from, lastCore: from + nodes * cores - 1,
    });
    for (let i = 0; i < nodes; i++, node++) firstCore[node + 1] = firstCore[node] + cores;
  }
  return { count, firstCore, groups: found, names: [] };
}

/** Return the index of the first element of an ascending array that is not below a value. */
export function lowerBound(ascending, value) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Return the times of all runs, for the limits of a viewport.
 *
 * @param {RunModel[]} models
 * @returns {[number, number]} first and last simulated time, s.
 */
export function timesOf(models) {
  return [Math.min(...models.map((run) => run.beginS)), Math.max(...models.map((run) => run.nowS))];
}
