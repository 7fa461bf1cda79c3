/** Drawing of a step chart: a column of pixels shows least, mean and greatest of its time. */

import { themeColour } from "./dom.js";
import { PLOT_LEFT, PLOT_RIGHT, timeTicks } from "./time_axis.js";
import { numberText, roundSteps } from "./units.js";

const TOP = 6;
const BOTTOM = 6;
const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
const TICK_SPACE = 110;

/**
 * Return the time under a place in a chart, s.
 * @param {number} x CSS pixels from the left edge
 * @param {number} width of the chart
 * @param {Viewport} viewport
 */
export function timeAt(x, width, { startS, endS }) {
  const plot = width - PLOT_LEFT - PLOT_RIGHT;
  return startS + ((x - PLOT_LEFT) / plot) * (endS - startS);
}

/**
 * Draw a chart.
 * @param {CanvasRenderingContext2D} context cleared
 * @param {Object} about `layers`, `unit`, `spec`, `viewport`, `crosshair`, `selection`, `runs`,
 *   `axis` (whether times are written below), `width` and `height` in CSS pixels
 */
export function drawChart(context, about) {
  const { width, height, viewport, layers, spec } = about;
  const left = PLOT_LEFT;
  const right = width - PLOT_RIGHT;
  const greatest = spec.greatest() || 1;
  const perSecond = (right - left) / (viewport.endS - viewport.startS);
  const scale = {
    left, right, bottom: height - BOTTOM,
    x: (timeS) => left + (timeS - viewport.startS) * perSecond,
    y: (value) => height - BOTTOM - (value / (greatest * 1.04)) * (height - TOP - BOTTOM),
  };
  context.font = `11px ${themeColour("--font") || "sans-serif"}`;
  drawGrid(context, scale, about, greatest);
  context.save();
  context.beginPath();
  context.rect(left, 0, right - left, height + 1);
  context.clip();
  drawSelectedSpans(context, scale, about);
  const columns = columnsOf(scale, viewport, layers, !spec.stacked);
  if (spec.stacked) drawStack(context, scale, layers, columns);
  else {
    const filled = layers.length === 1;
    layers.forEach((layer, at) => drawLine(context, scale, layer, columns[at], filled));
  }
  drawCrosshair(context, scale, about);
  context.restore();
}

function drawGrid(context, scale, { unit, viewport, axis }, greatest) {
  context.fillStyle = themeColour("--muted");
  context.strokeStyle = themeColour("--grid");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.beginPath();
  const counts = unit[0] === "jobs";
  for (const value of roundSteps(0, greatest / unit[1], counts ? Math.min(greatest, 3) : 3)) {
    const y = Math.round(scale.y(value * unit[1])) + 0.5;
    context.moveTo(scale.left, y);
    context.lineTo(scale.right, y);
    const suffix = counts || value === 0 ? "" : ` ${unit[0]}`;
    context.fillText(`${numberText(value)}${suffix}`, scale.left - 6, y);
  }
  const ticks = timeTicks(viewport.startS, viewport.endS, (scale.right - scale.left) / TICK_SPACE);
  context.textAlign = "center";
  for (const { timeS, label } of ticks) {
    const x = Math.round(scale.x(timeS)) + 0.5;
    context.moveTo(x, TOP);
    context.lineTo(x, scale.bottom);
    const most = scale.right + PLOT_RIGHT - context.measureText(label).width / 2;
    if (axis) context.fillText(label, Math.min(x, most), scale.bottom + 14);
  }
  context.stroke();
}

/** Shade the wait (lighter) and the run time of the chosen job, of the first run that has it. */
function drawSelectedSpans(context, scale, { selection, runs }) {
  const chosen = selection.get();
  if (chosen === null) return;
  for (const { model } of runs) {
    const row = model.rowOf(chosen);
    if (row < 0) continue;
    const [submitS, startS, endS] = [model.submitS[row], model.startS[row], model.endS[row]];
    const begunS = Number.isNaN(startS) ? (Number.isNaN(endS) ? model.nowS : endS) : startS;
    shade(context, scale, submitS, begunS, "--wait-band");
    if (!Number.isNaN(startS)) {
      shade(context, scale, startS, Number.isNaN(endS) ? model.nowS : endS, "--run-band");
    }
    return;
  }
}

function shade(context, scale, fromS, toS, colour) {
  context.fillStyle = themeColour(colour);
  const x = scale.x(fromS);
  context.fillRect(x, 0, Math.max(scale.x(toS) - x, 1), scale.bottom);
}

/** Return least, mean and greatest value of each layer in each column of pixels, or means only. */
function columnsOf(scale, { startS, endS }, layers, withRange) {
  const count = Math.max(1, Math.ceil(scale.right - scale.left));
  const perColumnS = (endS - startS) / count;
  return layers.map(({ steps }) => {
    const found = [];
    let before = steps.integralTo(startS);
    for (let at = 0; at < count; at += 1) {
      const [fromS, toS] = [startS + at * perColumnS, startS + (at + 1) * perColumnS];
      const after = steps.integralTo(toS);
      const mean = (after - before) / perColumnS;
      before = after;
      if (!withRange) {
        found.push([0, mean, 0]);
        continue;
      }
      const [least, greatest] = steps.range(fromS, toS);
      found.push([least, Math.min(Math.max(mean, least), greatest), greatest]);
    }
    return found;
  });
}

function drawStack(context, scale, layers, columns) {
  const below = new Float64Array(columns[0]?.length ?? 0);
  layers.forEach(({ colour }, layer) => {
    context.fillStyle = colour;
    context.beginPath();
    columns[layer].forEach(([, mean], at) => {
      if (mean <= 0) return;
      const top = scale.y(below[at] + mean);
      context.rect(scale.left + at, top, 1.02, scale.y(below[at]) - top);
      below[at] += mean;
    });
    context.fill();
  });
}

function drawLine(context, scale, { colour, dash }, columns, filled) {
  context.fillStyle = colour;
  context.globalAlpha = 0.28;
  context.beginPath();
  columns.forEach(([least, , greatest], at) => {
    const [top, bottom] = [scale.y(greatest), scale.y(filled ? 0 : least)];
    context.rect(scale.left + at, top, 1.02, bottom - top);
  });
  context.fill();
  context.globalAlpha = 1;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.setLineDash(DASHES[dash % DASHES.length]);
  context.beginPath();
  columns.forEach(([, mean], at) => context.lineTo(scale.left + at + 0.5, scale.y(mean)));
  context.stroke();
  context.setLineDash([]);
}

function drawCrosshair(context, scale, { crosshair }) {
  const atS = crosshair.get();
  if (atS === null) return;
  const x = Math.round(scale.x(atS)) + 0.5;
  context.strokeStyle = themeColour("--ink");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, 0);
  context.lineTo(x, scale.bottom);
  context.stroke();
}
