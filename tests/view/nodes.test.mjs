// Names and states of nodes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { closureAt, closuresOf } from "../../scenarios/hpcosim_view/web/closures.js";
import { GanttScale } from "../../scenarios/hpcosim_view/web/gantt_scale.js";
import { paintPower } from "../../scenarios/hpcosim_view/web/gantt_paint.js";
import { expandHosts } from "../../scenarios/hpcosim_view/web/host_list.js";
import { JOB_STATES, NODE_STATES, POWER_STATES } from "../../scenarios/hpcosim_view/web/model.js";
import { NODE_STATE_COLOURS, statePalette } from "../../scenarios/hpcosim_view/web/palettes.js";
import { indicesOf } from "../../scenarios/hpcosim_view/web/span_index.js";
import { Interval, Viewport } from "../../scenarios/hpcosim_view/web/viewport.js";
import { randomRun } from "./random_run.mjs";

test("a host list has the names of its ranges in order", () => {
  assert.deepEqual(expandHosts("c[01-03,7],g[1-2],login", 99),
    ["c01", "c02", "c03", "c7", "g1", "g2", "login"]);
  assert.deepEqual(expandHosts("r[1-2]n[08-10]x", 99),
    ["r1n08x", "r1n09x", "r1n10x", "r2n08x", "r2n09x", "r2n10x"]);
  assert.deepEqual(expandHosts("", 9), []);
});

test("no more names are made than there are nodes", () => {
  for (const text of ["n[0-999999999999]", "a[0-9999]b[0-9999]c[0-9999]", "a,b,n[1-99]"]) {
    assert.equal(expandHosts(text, 5).length, 5);
  }
  assert.equal(expandHosts("n[1-2", 0).length, 0);
});

test("each state has a colour", () => {
  for (const theme of ["light", "dark"]) {
    assert.equal(statePalette(theme).length, JOB_STATES.length);
    assert.equal(new Set(statePalette(theme)).size, JOB_STATES.length);
    assert.equal(NODE_STATE_COLOURS[theme].length, NODE_STATES.length);
  }
});

test("nodes in each state but on are hatched", () => {
  for (const state of POWER_STATES.keys()) {
    const model = randomRun(20, 3);
    model.growing["power.time_s"].push(Float64Array.of(0));
    model.growing["power.node"].push(Uint32Array.of(1));
    model.growing["power.state"].push(Uint8Array.of(state));
    model.publish();
    const scale = new GanttScale(new Viewport(0, model.nowS), new Interval(0, 48, 1));
    Object.assign(scale, { width: 90, height: 70 });
    const drawn = [];
    const raster = { hatch: (...call) => drawn.push(call) };
    for (const _ of paintPower(raster, scale, indicesOf(model).power, "light"));
    assert.equal(drawn.length, state === 0 ? 0 : 1);
  }
});

test("windows of reservations repeat, and drains last until the repair", () => {
  const model = randomRun(20, 3);
  model.about.now_s = 250;
  model.about.node_reservations = [["r", [[0, 1], [4, 4]], 10, 20, 100], ["once", [[7, 7]], 0, 5]];
  model.growing["drain.time_s"].push(Float64Array.of(30, 40, 240));
  model.growing["drain.node"].push(Uint32Array.of(2, 2, 3));
  model.growing["drain.drained"].push(Uint8Array.of(1, 0, 1));
  model.publish();
  const found = closuresOf(model)
    .map(({ first, last, startS, endS }) => [first, last, startS, endS]);
  assert.deepEqual(found, [
    [0, 1, 10, 20], [4, 4, 10, 20], [0, 1, 110, 120], [4, 4, 110, 120], [0, 1, 210, 220],
    [4, 4, 210, 220], [7, 7, 0, 5], [2, 2, 30, 40], [3, 3, 240, 250],
  ]);
  assert.equal(closureAt(model, 1, 115), "reserved: r");
  assert.equal(closureAt(model, 2, 35), "drained");
  assert.equal(closureAt(model, 2, 45), "");
});
