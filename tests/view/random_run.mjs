// Random runs without overlapping jobs, and a slow reference of their picture.
import { RunModel } from "../../scenarios/hpcosim_view/web/model.js";

/** Return a generator of numbers from 0 to 1 (Lehmer). */
export function randomNumbers(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/**
 * Return a frame of a random run on 6 nodes with 4 cores and 2 with 12.
 *
 * @param {number} jobs number of jobs, each on adjacent cores.
 * @param {function(): number} random
 */
export function randomFrame(jobs, random) {
  const cores = 48;
  const free = new Float64Array(cores);
  const found = [];
  for (let i = 0; i < jobs; i++) {
    const first = Math.floor(random() * cores);
    const last = Math.min(first + Math.floor(random() ** 4 * 20), cores - 1);
    const start = Math.max(...free.subarray(first, last + 1)) + Math.max(random() * 200 - 100, 0);
    const end = start + random() ** 3 * 600;
    free.fill(end, first, last + 1);
    found.push({ first, last, start, end });
  }
  found.sort((a, b) => a.start - b.start);
  const byEnd = [...found.keys()].sort((a, b) => found[a].end - found[b].end).slice(0, -3);
  const rows = [...found.keys()];
  const column = (Type, values) => Type.from(values);
  const columns = {
    "job.id": column(BigInt64Array, rows.map((row) => BigInt(row + 1))),
    "job.submit_s": column(Float64Array, found.map(({ start }) => start * 0.9)),
    "job.requested_s": new Float64Array(jobs),
    "job.cores": column(Int32Array, found.map(({ first, last }) => last - first + 1)),
    "job.placement": new Uint8Array(jobs),
    "job.user": column(Int32Array, rows.map((row) => row % 14)),
    "job.group": new Int32Array(jobs).fill(-1),
    "job.partition": new Int32Array(jobs).fill(-1),
    "start.job": column(Int32Array, rows),
    "start.time_s": column(Float64Array, found.map(({ start }) => start)),
    "start.boxes": new Uint32Array(jobs).fill(1),
    "box.first": column(Uint32Array, found.map(({ first }) => first)),
    "box.last": column(Uint32Array, found.map(({ last }) => last)),
    "end.job": column(Int32Array, byEnd),
    "end.time_s": column(Float64Array, byEnd.map((row) => found[row].end)),
    "end.state": new Uint8Array(byEnd.length).fill(2),
    "end.energy_j": new Float64Array(byEnd.length).fill(3600),
  };
  for (const name of ["power.time_s", "power.node", "power.state", "watts.time_s", "watts.state",
    "watts.power_w", "explain.job", "explain.time_s", "explain.reason",
    "explain.expected_start_s"]) {
    columns[name] = new Float64Array(0);
  }
  const users = rows.slice(0, 14).map((row) => `user ${row}`);
  const now = Math.max(...byEnd.map((row) => found[row].end));
  const about = { start_s: 0, now_s: now, nodes: [[6, 4, "thin"], [2, 12, "fat"]], users };
  return { about, columns };
}

/** Return the model of a random run. */
export function randomRun(jobs, seed) {
  const model = new RunModel();
  model.append(randomFrame(jobs, randomNumbers(seed)));
  return model;
}

/** Return the boxes of a model in pixels of a plot: every box, one after the other. */
export function boxesInPixels(model, { startS, endS, firstCore, lastCore, width, height }) {
  const { job, first, last } = model.boxes;
  return [...job].map((row, box) => {
    const end = Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
    const x = (timeS) => ((timeS - startS) / (endS - startS)) * width;
    const y = (core) => ((core - firstCore) / (lastCore - firstCore)) * height;
    return {
      row, x0: x(model.startS[row]), x1: x(end), y0: y(first[box]), y1: y(last[box] + 1),
    };
  });
}

/** Return the area of a rectangle within a pixel. */
export function areaInPixel({ x0, x1, y0, y1 }, x, y) {
  const wide = Math.min(x1, x + 1) - Math.max(x0, x);
  const high = Math.min(y1, y + 1) - Math.max(y0, y);
  return wide > 0 && high > 0 ? wide * high : 0;
}
