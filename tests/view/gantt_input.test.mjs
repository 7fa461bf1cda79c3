// Keys, wheels and drags of a Gantt chart, with events as browsers send them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { neighbourOfJob } from "../../scenarios/hpcosim_view/web/gantt_find.js";
import { listenToKeys } from "../../scenarios/hpcosim_view/web/gantt_keys.js";
import { listenToPointer } from "../../scenarios/hpcosim_view/web/gantt_pointer.js";
import { GanttScale, coreInterval } from "../../scenarios/hpcosim_view/web/gantt_scale.js";
import { observable } from "../../scenarios/hpcosim_view/web/observable.js";
import { Viewport } from "../../scenarios/hpcosim_view/web/viewport.js";
import { randomRun } from "./random_run.mjs";

/** A chart of 1000 x 480 pixels without a page. */
function chart() {
  const model = randomRun(400, 21);
  const scale = new GanttScale(new Viewport(0, 1000), coreInterval(model), { above: 0, below: 0 });
  Object.assign(scale, { left: 0, width: 1000, height: 480 });
  const gantt = {
    model, scale, selection: observable(null), calls: [],
    get selectedRow() { return model.rowOf(this.selection.get()); },
    jobAt: () => -1,
  };
  for (const name of ["show", "zoomTo", "hover", "selectAt", "showBand", "zoomToBand", "fit"]) {
    gantt[name] = (...given) => gantt.calls.push([name, ...given]);
  }
  const listeners = {};
  const element = {
    style: {},
    addEventListener: (type, listener) => (listeners[type] = listener),
    getBoundingClientRect: () => ({ left: 10, top: 20 }),
    setPointerCapture: () => {},
  };
  listenToKeys(gantt, element);
  listenToPointer(gantt, element);
  const send = (type, fields) => {
    let prevented = false;
    const event = { button: 0, pointerId: 1, deltaMode: 0, deltaX: 0, deltaY: 0,
      currentTarget: element, preventDefault: () => (prevented = true), ...fields };
    if ("x" in fields) Object.assign(event, { clientX: fields.x + 10, clientY: fields.y + 20 });
    listeners[type](event);
    return prevented;
  };
  const shown = () => [scale.viewport.first, scale.viewport.last].map(Math.round);
  const cores = () => [scale.cores.first, scale.cores.last].map(Math.round);
  return { gantt, scale, model, send, shown, cores };
}

const wheelStep = { wheelDeltaY: 120, deltaY: -100 };

test("arrow keys pan, plus and minus zoom, Home shows everything", () => {
  const { scale, send, shown, cores } = chart();
  scale.viewport.set(400, 600);
  scale.cores.set(10, 20);
  send("keydown", { key: "ArrowRight" });
  assert.deepEqual(shown(), [420, 620]);
  send("keydown", { key: "ArrowLeft", shiftKey: true });
  assert.deepEqual(shown(), [320, 520]);
  send("keydown", { key: "ArrowDown" });
  assert.deepEqual(cores(), [11, 21]);
  send("keydown", { key: "+" });
  assert.deepEqual(shown(), [340, 500]);
  send("keydown", { key: "i" });
  assert.deepEqual(cores(), [12, 20]);
  assert.ok(send("keydown", { key: "Home" }));
  assert.deepEqual([...shown(), ...cores()], [0, 1000, 0, 48]);
});

test("keys of the browser and unknown keys are left alone", () => {
  const { send, shown } = chart();
  for (const event of [{ key: "+", ctrlKey: true }, { key: "Tab" }, { key: "a" }]) {
    assert.ok(!send("keydown", event));
  }
  assert.deepEqual(shown(), [0, 1000]);
});

test("n and p step through jobs in order of their starts, Escape clears", () => {
  const { gantt, send } = chart();
  send("keydown", { key: "n" });
  send("keydown", { key: "n" });
  assert.equal(gantt.selection.get(), "2");
  send("keydown", { key: "p" });
  assert.equal(gantt.selection.get(), "1");
  assert.deepEqual(gantt.calls.at(-1), ["show", 0]);
  send("keydown", { key: "Escape" });
  assert.equal(gantt.selection.get(), null);
  send("keydown", { key: "p" });
  assert.equal(gantt.selection.get(), "400");
});

test("the next job on the same nodes shares one with the job", () => {
  const { model } = chart();
  for (let row = 0; row < 100; row++) {
    const next = neighbourOfJob(model, row, 1, true);
    const shares = (other) => model.nodesOf(row).some(([first, last]) =>
      model.nodesOf(other).some(([from, to]) => from <= last && to >= first));
    assert.ok(shares(next));
    for (let between = row + 1; between < next; between++) assert.ok(!shares(between));
  }
});

test("a mouse wheel zooms at the pointer: in time, with Shift in nodes, with Ctrl in both", () => {
  const { scale, send, shown, cores } = chart();
  const at = { x: 250, y: 120 };
  assert.ok(send("wheel", { ...at, ...wheelStep }));
  assert.equal(Math.round(scale.timeAt(250)), 250);
  assert.ok(scale.viewport.length < 900);
  assert.deepEqual(cores(), [0, 48]);
  const times = shown();
  send("wheel", { ...at, deltaX: -100, wheelDeltaX: 120, shiftKey: true });
  assert.deepEqual(shown(), times);
  assert.equal(Math.round(scale.coreAt(120)), 12);
  assert.ok(scale.cores.length < 40);
  const length = scale.cores.length;
  send("wheel", { ...at, ...wheelStep, ctrlKey: true });
  assert.ok(scale.cores.length < length && scale.viewport.length < times[1] - times[0]);
});

test("two fingers on a trackpad move", () => {
  const { scale, send, shown, cores } = chart();
  scale.viewport.set(400, 600);
  scale.cores.set(10, 34);
  send("wheel", { x: 1, y: 1, deltaX: 10, wheelDeltaX: -30, deltaY: 20, wheelDeltaY: -60 });
  assert.deepEqual([...shown(), ...cores()], [402, 602, 11, 35]);
});

test("a wheel that changes nothing scrolls the page", () => {
  const { send } = chart();
  assert.ok(!send("wheel", { x: 1, y: 1, deltaY: 100, wheelDeltaY: -120 }));
});

test("a drag moves times and cores, a click selects", () => {
  const { gantt, scale, send, shown, cores } = chart();
  scale.viewport.set(400, 600);
  scale.cores.set(10, 34);
  send("pointerdown", { x: 500, y: 200 });
  send("pointermove", { x: 400, y: 220 });
  send("pointerup", { x: 400, y: 220 });
  assert.deepEqual([...shown(), ...cores()], [420, 620, 9, 33]);
  assert.ok(!gantt.calls.some(([name]) => name === "selectAt"));
  send("pointerdown", { x: 500, y: 200 });
  send("pointermove", { x: 501, y: 200 });
  send("pointerup", { x: 501, y: 200 });
  assert.deepEqual(gantt.calls.at(-1), ["selectAt", { x: 501, y: 200 }]);
});

test("a drag with Shift zooms to its rectangle", () => {
  const { gantt, send } = chart();
  send("pointerdown", { x: 100, y: 100, shiftKey: true });
  send("pointermove", { x: 200, y: 150, shiftKey: true });
  send("pointerup", { x: 200, y: 150, shiftKey: true });
  assert.deepEqual(gantt.calls.at(-1), ["zoomToBand", { x: 100, y: 100 }, { x: 200, y: 150 }]);
});

test("two fingers that part zoom in between them", () => {
  const { scale, send } = chart();
  send("pointerdown", { x: 400, y: 200, pointerId: 1 });
  send("pointerdown", { x: 600, y: 200, pointerId: 2 });
  send("pointermove", { x: 300, y: 200, pointerId: 1 });
  send("pointermove", { x: 700, y: 200, pointerId: 2 });
  assert.equal(Math.round(scale.viewport.length), 500);
  assert.equal(Math.round(scale.timeAt(500)), 500);
});
