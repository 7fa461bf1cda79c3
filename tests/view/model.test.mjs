// The columns of a run and its lookups.
import assert from "node:assert/strict";
import { test } from "node:test";

import { timesOf } from "../../scenarios/hpcosim_view/web/model.js";
import { observable } from "../../scenarios/hpcosim_view/web/observable.js";
import { modelOf } from "./encoded_frames.mjs";

const COLUMNS = ["id", "submitS", "requestedS", "cores", "placement", "user", "group", "partition",
  "startS", "endS", "state", "energyJ", "firstBox", "boxCount"];

test("live frames give the same run as one frame", async () => {
  const live = await modelOf("first", "second");
  const whole = await modelOf("whole");
  for (const name of COLUMNS) assert.deepEqual([...live[name]], [...whole[name]], name);
  for (const name of ["boxes", "ends", "power", "watts", "nodes", "names"]) {
    assert.deepEqual(live[name], whole[name], name);
  }
  for (let row = 0; row < 3; row++) {
    assert.deepEqual(live.explanationsOf(row), whole.explanationsOf(row));
  }
  assert.equal(live.version, 2);
});

test("a job has the times, the state and the energy of its events", async () => {
  const model = await modelOf("first");
  assert.deepEqual([...model.startS], [10, NaN]);
  assert.deepEqual([...model.state], [1, 0]);
  const { startS, endS, state, energyJ } = await modelOf("whole");
  assert.deepEqual([...startS], [10, 30, NaN]);
  assert.deepEqual([...endS], [30, NaN, 31]);
  assert.deepEqual([...state], [2, 1, 6]);
  assert.deepEqual([...energyJ], [1000, NaN, NaN]);
});

test("nodes of a job are intervals of node numbers", async () => {
  const model = await modelOf("whole");
  assert.deepEqual(model.nodesOf(0), [[0, 0], [2, 2]]);
  assert.deepEqual(model.nodesOf(1), [[2, 2]]);
  assert.deepEqual(model.nodesOf(2), []);
  assert.deepEqual([...model.nodes.firstCore], [0, 4, 8, 16]);
  assert.equal(model.coreCount, 16);
  assert.deepEqual([0, 3, 4, 8, 15].map((core) => model.nodeOfCore(core)), [0, 0, 1, 2, 2]);
});

test("a job is found by its id, whatever the order of ids", async () => {
  const model = await modelOf("whole");
  assert.equal(model.rowOf("3"), 0);
  assert.equal(model.rowOf(` ${2n ** 62n} `), 1);
  assert.equal(model.rowOf("1"), 2);
  for (const text of ["4", "", "x", "1e3", "-1", "9".repeat(30), null]) {
    assert.equal(model.rowOf(text), -1);
  }
});

test("explanations of a job are in order of time", async () => {
  const model = await modelOf("whole");
  assert.deepEqual(model.explanationsOf(1), [
    { timeS: 11.5, reason: "Priority", expectedStartS: 110 },
    { timeS: 20, reason: "Resources", expectedStartS: 30 },
  ]);
  assert.deepEqual(model.explanationsOf(0), []);
});

test("times of several runs reach from the first begin to the last end", async () => {
  assert.deepEqual(timesOf([await modelOf("first"), await modelOf("whole")]), [10, 40]);
});

test("an observable calls its listeners for another value only, until they leave", () => {
  const value = observable(1);
  const seen = [];
  const leave = value.subscribe((next) => seen.push(next));
  value.set(1);
  value.set(2);
  leave();
  value.set(3);
  assert.deepEqual(seen, [2]);
  assert.equal(value.get(), 3);
});
