// The visible interval: zoom, pan and limits that grow.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Viewport } from "../../scenarios/hpcosim_view/web/viewport.js";

const shown = (viewport) => [viewport.startS, viewport.endS];

test("zoom keeps the time under the pointer where it is", () => {
  const viewport = new Viewport(0, 100);
  viewport.zoom(0.5, 20);
  assert.deepEqual(shown(viewport), [10, 60]);
  viewport.zoom(0.5, 60);
  assert.deepEqual(shown(viewport), [35, 60]);
});

test("the interval stays within its limits and keeps its length", () => {
  const viewport = new Viewport(0, 100);
  viewport.set(40, 60);
  viewport.pan(1000);
  assert.deepEqual(shown(viewport), [80, 100]);
  viewport.pan(-1000);
  assert.deepEqual(shown(viewport), [0, 20]);
  viewport.zoom(1e9);
  assert.deepEqual(shown(viewport), [0, 100]);
  viewport.zoom(0, 50);
  assert.ok(Math.abs(viewport.length - 0.1) < 1e-9);
});

test("an interval that shows everything goes on to do so", () => {
  const viewport = new Viewport(0, 100);
  viewport.setLimits(0, 150);
  assert.deepEqual(shown(viewport), [0, 150]);
});

test("an interval at the end follows, any other stays", () => {
  const viewport = new Viewport(0, 100);
  viewport.set(80, 100);
  viewport.setLimits(0, 130);
  assert.deepEqual(shown(viewport), [110, 130]);
  viewport.set(50, 60);
  viewport.setLimits(0, 200);
  assert.deepEqual(shown(viewport), [50, 60]);
});

test("listeners hear of each change once, and of none after they left", () => {
  const viewport = new Viewport(0, 100);
  let changes = 0;
  const leave = viewport.subscribe(() => changes++);
  viewport.set(10, 20);
  viewport.set(10, 20);
  assert.equal(changes, 1);
  viewport.setLimits(0, 200);
  assert.equal(changes, 2);
  leave();
  viewport.fit();
  assert.equal(changes, 2);
});

test("showing an interval moves as little as possible and zooms out if it is too long", () => {
  const viewport = new Viewport(0, 1000);
  viewport.set(100, 200);
  viewport.show(150, 160);
  assert.deepEqual(shown(viewport), [100, 200]);
  viewport.show(220, 230);
  assert.deepEqual(shown(viewport), [135, 235]);
  viewport.show(300, 500);
  assert.deepEqual(shown(viewport), [250, 550]);
});

test("values that are no times change nothing", () => {
  const viewport = new Viewport(0, 100);
  viewport.set(NaN, 5);
  viewport.zoom(NaN, 5);
  assert.deepEqual(shown(viewport), [0, 100]);
});
