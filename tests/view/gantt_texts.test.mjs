// Job numbers and marks of the axes of a Gantt chart, written by a context that only notes them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { paintAxes } from "../../scenarios/hpcosim_view/web/gantt_axes.js";
import { paintLabels } from "../../scenarios/hpcosim_view/web/gantt_paint.js";
import { GanttScale } from "../../scenarios/hpcosim_view/web/gantt_scale.js";
import { CHART_COLOURS } from "../../scenarios/hpcosim_view/web/palettes.js";
import { Interval, Viewport } from "../../scenarios/hpcosim_view/web/viewport.js";
import { randomRun } from "./random_run.mjs";

const LOOK = { name: "size", theme: "light" };

/** A scale of the whole run in a plot of `width` x `height` pixels. */
function wholeScale(model, width, height) {
  const viewport = new Viewport(model.beginS, model.nowS);
  const scale = new GanttScale(viewport, new Interval(0, model.coreCount, 1));
  return Object.assign(scale, { width, height });
}

test("a job number is written upwards where its box is too narrow, or left out", () => {
  const model = randomRun(300, 3); // numbers up to 300
  for (const [width, height] of [[2500, 700], [1200, 1500]]) {
    const scale = wholeScale(model, width, height);
    const labels = [];
    let turned = false;
    const context = {
      save: () => (turned = false), rotate: () => (turned = true), translate() {}, restore() {},
      fillText: (text) => labels.push([text, turned]),
    };
    paintLabels(context, scale, model, [...model.boxes.job.keys()], LOOK);
    for (const [box, row] of model.boxes.job.entries()) {
      const text = model.idOf(row);
      const end = Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
      const [wide, high] = [scale.x(end) - scale.x(model.startS[row]),
        scale.perCore * (model.boxes.last[box] + 1 - model.boxes.first[box])];
      const found = labels.filter(([label]) => label === text).map(([, up]) => up);
      const needed = 6.6 * text.length;
      if (found.length > 0) assert.ok(found[0] ? wide >= 10 && high > needed : wide > needed);
      else assert.ok(wide < needed + 5 && (wide < 10 || high < needed + 5) || high < 13);
    }
    assert.ok(labels.some(([, up]) => up) && labels.some(([, up]) => !up));
  }
});

/** Return the horizontal lines that `paintAxes` draws, `{colour, from, to, y}`. */
function axisLines(model, scale) {
  const lines = [];
  let [path, at] = [[], null];
  const context = {
    beginPath: () => (path = []), moveTo: (x, y) => (at = [x, y]), fillText() {}, strokeRect() {},
    lineTo: (x, y) => { if (y === at[1]) path.push({ from: at[0], to: x, y }); },
    measureText: () => ({ width: 30 }),
    stroke() { lines.push(...path.map((line) => ({ ...line, colour: this.strokeStyle }))); },
  };
  paintAxes(context, scale, model, "light");
  return lines;
}

test("the boundary between groups of nodes is a mark on the axis, not a line over the jobs", () => {
  const model = randomRun(50, 3);
  const scale = wholeScale(model, 90, 70);
  const lines = axisLines(model, scale).filter(({ colour }) => colour === CHART_COLOURS.light.text);
  assert.deepEqual(lines.map(({ to, y }) => [to, y]), [[scale.left, scale.y(24)]]);
});
