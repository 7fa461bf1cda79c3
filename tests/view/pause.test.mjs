// Jobs that were suspended or requeued have several computing periods.
import assert from "node:assert/strict";
import { test } from "node:test";

import { partsOfJob } from "../../scenarios/hpcosim_view/web/gantt_find.js";
import { RunModel } from "../../scenarios/hpcosim_view/web/model.js";
import { seriesOf } from "../../scenarios/hpcosim_view/web/series.js";
import { randomFrame, randomNumbers } from "./random_run.mjs";

const EMPTY = randomFrame(0, randomNumbers(1)).columns;

/** A frame of one node with 4 cores: `starts` and `pauses` are [job or period, time, why]. */
function frame({ submits = [], starts = [], pauses = [], ends = [], now }) {
  return {
    about: { start_s: 0, now_s: now, nodes: [[1, 4, "n"]] },
    columns: {
      ...EMPTY,
      "job.id": BigInt64Array.from(submits, (_, row) => BigInt(row + 1)),
      "job.submit_s": Float64Array.from(submits),
      "job.requested_s": new Float64Array(submits.length),
      "job.cores": new Int32Array(submits.length).fill(2),
      "job.placement": new Uint8Array(submits.length),
      "job.user": new Int32Array(submits.length),
      "job.group": new Int32Array(submits.length),
      "job.partition": new Int32Array(submits.length),
      "start.job": Int32Array.from(starts, ([job]) => job),
      "start.time_s": Float64Array.from(starts, ([, time]) => time),
      "start.boxes": new Uint32Array(starts.length).fill(1),
      "box.first": Uint32Array.from(starts, ([job]) => 2 * job),
      "box.last": Uint32Array.from(starts, ([job]) => 2 * job + 1),
      "pause.start": Int32Array.from(pauses, ([period]) => period),
      "pause.time_s": Float64Array.from(pauses, ([, time]) => time),
      "pause.why": Uint8Array.from(pauses, ([, , why]) => why),
      "end.job": Int32Array.from(ends, ([job]) => job),
      "end.time_s": Float64Array.from(ends, ([, time]) => time),
      "end.state": new Uint8Array(ends.length).fill(2),
      "end.energy_j": new Float64Array(ends.length),
    },
  };
}

// Job 0 is suspended from 20 to 30. Job 1 is requeued at 15 and starts again at 40.
const STEPS = [
  { submits: [0, 5], starts: [[0, 0], [1, 10]], pauses: [[1, 15, 2]], now: 16 },
  { pauses: [[0, 20, 1]], now: 25 },
  { starts: [[0, 30], [1, 40]], ends: [[0, 50]], now: 50 },
  { ends: [[1, 60]], now: 60 },
];
const WHOLE = {
  submits: [0, 5], starts: [[0, 0], [1, 10], [0, 30], [1, 40]],
  pauses: [[1, 15, 2], [0, 20, 1]], ends: [[0, 50], [1, 60]], now: 60,
};

function modelOfSteps(...steps) {
  const model = new RunModel();
  for (const step of steps) model.append(frame(step));
  return model;
}

test("a suspended job keeps its start, and a requeued one waits again", () => {
  const first = modelOfSteps(...STEPS.slice(0, 2));
  assert.deepEqual([...first.startS], [0, NaN]);
  assert.deepEqual([...first.state], [1, 0]);
  assert.deepEqual([...first.boxCount], [1, 0]);
  for (const model of [modelOfSteps(...STEPS), modelOfSteps(WHOLE)]) {
    assert.deepEqual([...model.startS], [0, 40]);
    assert.deepEqual([...model.endS], [50, 60]);
    assert.deepEqual([...model.boxes.startS], [0, 10, 30, 40]);
    assert.deepEqual([...model.boxes.endS], [20, 15, 50, 60]);
  }
});

test("a job has all its computing periods", () => {
  for (const model of [modelOfSteps(...STEPS), modelOfSteps(WHOLE)]) {
    const periods = model.periodsOf(1).map(({ startS, endS, why }) => [startS, endS, why]);
    assert.deepEqual(periods, [[10, 15, 2], [40, 60, 0]]);
  }
  const scale = { left: 0, right: 60, top: 0, bottom: 4, x: (time) => time, y: (core) => core };
  const parts = partsOfJob(scale, modelOfSteps(WHOLE), 0).map(({ left, right }) => [left, right]);
  assert.deepEqual(parts, [[0, 20], [30, 50]]);
});

test("cores are free and jobs wait between computing periods", () => {
  const { held, queue } = seriesOf(modelOfSteps(WHOLE));
  assert.deepEqual([5, 12, 17, 25, 35, 45, 55, 65].map((time) => held.at(time)),
    [2, 4, 2, 0, 2, 4, 2, 0]);
  assert.deepEqual([2, 7, 12, 17, 25, 35, 45].map((time) => queue.at(time)),
    [0, 1, 0, 1, 1, 1, 0]);
});

test("a job may be requeued at the instant of another one's start", () => {
  const model = modelOfSteps({
    submits: [0, 0], starts: [[0, 0], [1, 10], [0, 10]], pauses: [[0, 10, 3]],
    ends: [[0, 10], [1, 20]], now: 20,
  });
  assert.deepEqual([...model.startS], [10, 10]);
  assert.deepEqual([0, 5, 10, 15].map((time) => seriesOf(model).queue.at(time)), [1, 1, 0, 0]);
});

test("a job that was requeued while it was suspended waits once", () => {
  const steps = [
    { submits: [0], starts: [[0, 0]], pauses: [[0, 10, 1]], now: 15 },
    { pauses: [[0, 10, 4]], now: 20 },
  ];
  const model = modelOfSteps(...steps);
  assert.deepEqual([model.startS[0], model.state[0]], [NaN, 0]);
  assert.deepEqual([5, 12].map((time) => seriesOf(model).queue.at(time)), [0, 1]);
  const again = modelOfSteps(...steps, { starts: [[0, 30]], ends: [[0, 40]], now: 40 });
  assert.deepEqual([5, 12, 35].map((time) => seriesOf(again).queue.at(time)), [0, 1, 0]);
});
