// The picture of the jobs against a slow reference that draws every box by itself.
import assert from "node:assert/strict";
import { test } from "node:test";

import { decodeFrame } from "../../scenarios/hpcosim_view/web/frame.js";
import { RunModel } from "../../scenarios/hpcosim_view/web/model.js";
import { COLOURINGS } from "../../scenarios/hpcosim_view/web/colours.js";
import { jobAtPosition, positionOfJob } from "../../scenarios/hpcosim_view/web/gantt_find.js";
import { paintBoxes, paintPower } from "../../scenarios/hpcosim_view/web/gantt_paint.js";
import { GanttScale } from "../../scenarios/hpcosim_view/web/gantt_scale.js";
import { rgbOf } from "../../scenarios/hpcosim_view/web/palettes.js";
import { Raster, packedColour } from "../../scenarios/hpcosim_view/web/raster.js";
import { indicesOf } from "../../scenarios/hpcosim_view/web/span_index.js";
import { Interval, Viewport } from "../../scenarios/hpcosim_view/web/viewport.js";
import { encoded, modelOf } from "./encoded_frames.mjs";
import { areaInPixel, boxesInPixels, randomFrame, randomNumbers, randomRun } from "./random_run.mjs";

const WHITE = packedColour([255, 255, 255]);
const BLACK = packedColour([0, 0, 0]);
const LOOK = { name: "size", theme: "light" };
const NO_MARGINS = { above: 0, below: 0 };

/** A scale of `width` x `height` pixels whose plot begins at the left edge. */
function scaleOf(model, { startS, endS, firstCore, lastCore, width, height }) {
  const viewport = new Viewport(model.beginS, model.nowS);
  const cores = new Interval(0, model.coreCount, 1);
  viewport.set(startS, endS);
  cores.set(firstCore, lastCore);
  const scale = new GanttScale(viewport, cores, NO_MARGINS);
  scale.left = 0;
  return Object.assign(scale, { width, height });
}

function viewsOf(model) {
  const whole = { startS: 0, endS: model.nowS, firstCore: 0, lastCore: 48, width: 90, height: 70 };
  return [
    whole,
    { ...whole, width: 31, height: 11 },
    { ...whole, startS: model.nowS * 0.4, endS: model.nowS * 0.45, firstCore: 10.3, lastCore: 30.1 },
    { ...whole, startS: model.nowS * 0.9, firstCore: 39.9 },
  ];
}

/** Paint the boxes of a view white on black; an edge has the colour of its box. */
function paintedWhite(model, view) {
  const raster = new Raster(view.width, view.height);
  const box = raster.box.bind(raster);
  raster.box = (x0, y0, x1, y1, colour, edge, thick) => box(x0, y0, x1, y1, WHITE, WHITE, thick);
  raster.clear(BLACK);
  paint(raster, model, view);
  return raster;
}

function paint(raster, model, view) {
  for (const _ of paintBoxes(raster, scaleOf(model, view), indicesOf(model).boxes, LOOK, []));
  raster.finish();
}

/** The rule of the picture for large boxes: they begin and end at whole pixels. */
function snapped(box) {
  const { x0, x1, y0, y1 } = box;
  const wide = y1 - y0 >= 1.5 && x1 - x0 >= 4;
  const high = y1 - y0 >= 4;
  return {
    x0: wide ? Math.round(x0) : x0, x1: wide ? Math.round(x1) : x1,
    y0: high ? Math.round(y0) : y0, y1: high ? Math.round(y1) : y1,
  };
}

test("every pixel column has the busy cores of all boxes drawn one by one", () => {
  for (const seed of [1, 2, 3]) {
    const model = randomRun(1500, seed);
    for (const view of viewsOf(model)) {
      const { bytes } = paintedWhite(model, view);
      const boxes = boxesInPixels(model, view).map(snapped);
      for (let x = 0; x < view.width; x++) {
        const here = boxes.filter(({ x0, x1 }) => x0 < x + 1 && x1 > x);
        let [drawn, expected] = [0, 0];
        for (let y = 0; y < view.height; y++) {
          drawn += bytes[(y * view.width + x) * 4] / 255;
          const area = here.reduce((sum, box) => sum + areaInPixel(box, x, y), 0);
          expected += Math.min(area, 1);
        }
        assert.ok(Math.abs(drawn - expected) < 0.006 * view.height, `${x}: ${drawn} ${expected}`);
      }
    }
  }
});

test("a chart of small boxes has as many busy core-seconds as the run", () => {
  const model = randomRun(4000, 7);
  const view = { startS: 0, endS: model.nowS, firstCore: 0, lastCore: 48, width: 40, height: 24 };
  const { bytes } = paintedWhite(model, view);
  let drawn = 0;
  for (let at = 0; at < bytes.length; at += 4) drawn += bytes[at] / 255;
  const area = boxesInPixels(model, view).reduce(
    (sum, { x0, x1, y0, y1 }) => sum + (Math.min(x1, 40) - x0) * (y1 - y0), 0);
  assert.ok(Math.abs(drawn - area) < 0.01 * area, `${drawn} ${area}`);
});

test("a pixel that several boxes share has their colours weighted by area", () => {
  const raster = new Raster(3, 2);
  raster.clear(packedColour([100, 100, 100]));
  raster.fill(0.5, 0, 1.25, 1, packedColour([200, 0, 0]));
  raster.fill(1.25, 0.5, 1.75, 1, packedColour([0, 240, 0]));
  raster.fill(2, 1, 3, 2, packedColour([1, 2, 3]));
  raster.finish();
  const pixel = (x, y) => [...raster.bytes.subarray((y * 3 + x) * 4, (y * 3 + x) * 4 + 3)];
  assert.deepEqual(pixel(0, 0), [150, 50, 50]);
  assert.deepEqual(pixel(1, 0), [100, 110, 50]);
  assert.deepEqual(pixel(2, 0), [100, 100, 100]);
  assert.deepEqual(pixel(2, 1), [1, 2, 3]);
});

test("the picture is the same again after it was finished", () => {
  const model = randomRun(500, 5);
  const [view] = viewsOf(model);
  const raster = new Raster(view.width, view.height);
  const pictures = [1, 2].map(() => {
    raster.clear(WHITE);
    paint(raster, model, view);
    return raster.pixels.slice();
  });
  assert.deepEqual(pictures[0], pictures[1]);
});

test("the job at a position is the one that covers most of its pixel", () => {
  const model = randomRun(1500, 11);
  const random = randomNumbers(3);
  for (const view of viewsOf(model)) {
    const scale = scaleOf(model, view);
    const boxes = boxesInPixels(model, view);
    for (let i = 0; i < 60; i++) {
      const [x, y] = [random() * (view.width - 1), random() * (view.height - 1)];
      const areas = boxes.map((box) => areaInPixel(box, x, y));
      const most = Math.max(...areas);
      const row = jobAtPosition(scale, indicesOf(model).boxes, x + 0.5, y + 0.5);
      if (row < 0) assert.ok(most < 1e-9);
      else assert.ok(areas[boxes.findIndex((box) => box.row === row)] > most - 1e-9);
    }
  }
});

test("the position of a job shows this job in its colour", () => {
  const model = randomRun(300, 13);
  let shown = 0;
  for (const small of viewsOf(model)) {
    const view = { ...small, width: 900, height: 500 };
    const scale = scaleOf(model, view);
    const raster = new Raster(view.width, view.height);
    raster.clear(WHITE);
    paint(raster, model, view);
    for (const { row, x0, x1, y0, y1 } of boxesInPixels(model, view)) {
      const inside = x0 >= 0 && y0 >= 0 && x1 <= view.width && y1 <= view.height;
      if (!inside || x1 - x0 < 5 || y1 - y0 < 5) continue;
      const { x, y } = positionOfJob(scale, model, row);
      assert.equal(jobAtPosition(scale, indicesOf(model).boxes, x, y), row);
      const at = (Math.floor(y) * view.width + Math.floor(x)) * 4;
      assert.deepEqual([...raster.bytes.subarray(at, at + 3)],
        rgbOf(COLOURINGS.size.colourOf(model, row)));
      shown++;
    }
  }
  assert.ok(shown > 20);
});

test("a picture of frames appended one by one is that of one frame", async () => {
  const live = await modelOf("first");
  indicesOf(live);
  live.append(await decodeFrame(encoded("second")));
  const view = { startS: 10, endS: 40, firstCore: 0, lastCore: 16, width: 90, height: 70 };
  const pictures = [live, await modelOf("whole")].map((model) => paintedWhite(model, view).pixels);
  assert.deepEqual(pictures[0], pictures[1]);
});

test("a node has the state of its last change of power", async () => {
  const model = new RunModel();
  const { about, columns } = randomFrame(10, randomNumbers(1));
  const power = { time_s: [5, 6, 20, 30], node: [1, 2, 1, 1], state: [1, 2, 2, 0] };
  for (const [name, values] of Object.entries(power)) columns[`power.${name}`] = values;
  model.append({ about, columns });
  const stateAt = (node, timeS) => indicesOf(model).power.stateAt(node, timeS);
  assert.deepEqual([4, 10, 25, 35].map((timeS) => stateAt(1, timeS)), [0, 1, 2, 0]);
  assert.equal(stateAt(2, 1e9), 2);
  assert.equal(stateAt(3, 10), 0);
});

test("neighbours that were off together cover the area of each of them", () => {
  const { about, columns } = randomFrame(10, randomNumbers(1));
  const power = {
    time_s: [10, 10, 10, 10, 10, 60, 60, 80, 90, 90],
    node: [0, 1, 2, 4, 7, 0, 1, 2, 4, 7],
    state: [1, 1, 1, 2, 1, 0, 0, 0, 0, 0],
  };
  for (const [name, values] of Object.entries(power)) columns[`power.${name}`] = values;
  const model = new RunModel();
  model.append({ about, columns });
  const width = model.nowS / 15;
  const view = { startS: 0, endS: model.nowS, firstCore: 0, lastCore: 48, width, height: 17 };
  const raster = new Raster(Math.ceil(width), view.height);
  const areas = [];
  raster.hatch = (x0, y0, x1, y1) => areas.push([x0 * 15, x1 * 15, y0 / 17 * 48, y1 / 17 * 48]);
  for (const _ of paintPower(raster, scaleOf(model, view), indicesOf(model).power, "light"));
  const expected = [[10, 60, 0, 8], [10, 80, 8, 12], [10, 90, 16, 20], [10, 90, 36, 48]];
  assert.deepEqual(areas.map((area) => area.map(Math.round)), expected);
});

test("a job that is not visible has no position", () => {
  const model = randomRun(300, 13);
  const [, , view] = viewsOf(model);
  assert.equal(positionOfJob(scaleOf(model, view), model, 0), null);
  assert.equal(positionOfJob(scaleOf(model, view), model, -1), null);
});
