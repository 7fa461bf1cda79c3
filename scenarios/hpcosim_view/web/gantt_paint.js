/** The jobs and the sleeping nodes of a Gantt chart, drawn into a picture. */

import { COLOURINGS, classesOf } from "./colours.js";
import { CHART_COLOURS, NODE_STATE_COLOURS, mixedColour, rgbOf, textColourOn } from "./palettes.js";
import { packedColour } from "./raster.js";

const LABEL_FONT = "11px system-ui, sans-serif";
const LABEL_HEIGHT = 13;
const DIGIT_WIDTH = 6.6;
const MOST_LABELS = 800;
// Slopes of the stripes of nodes that are off, by `POWER_STATES`; 0 for vertical ones.
const STRIPE_SLOPES = [0, 1, 0, -1];

/**
 * Draw the visible boxes.
 *
 * @param {Raster} raster a picture of the plot in device pixels.
 * @param {GanttScale} scale
 * @param {BoxIndex} index
 * @param {{name: string, theme: string}} look name of the colouring and theme.
 * @returns {number[]} boxes with room for a job number.
 */
export function paintBoxes(raster, scale, index, { name, theme }) {
  const { model, start, end } = index;
  const { job, first, last } = model.boxes;
  const { fills, edges, of } = jobPixels(model, name, theme);
  const { ratio, viewport, cores } = scale;
  const [perSecond, perCore] = [scale.perSecond * ratio, scale.perCore * ratio];
  const [from, to] = [viewport.first, Math.min(viewport.last, model.nowS)];
  const thick = Math.max(Math.round(ratio), 1);
  const [labelHeight, digit] = [LABEL_HEIGHT * ratio, DIGIT_WIDTH * ratio];
  const labelled = [];
  const ranges = index.candidates(from, to);
  for (let range = 0; range < ranges.length; range += 2) {
    for (let box = ranges[range]; box < ranges[range + 1]; box++) {
      if (end[box] <= from || last[box] < cores.first || first[box] >= cores.last) continue;
      const x0 = (start[box] - from) * perSecond;
      const x1 = (Math.min(end[box], to) - from) * perSecond;
      const y0 = (first[box] - cores.first) * perCore;
      const y1 = (last[box] + 1 - cores.first) * perCore;
      const colour = of[job[box]];
      raster.box(x0, y0, x1, y1, fills[colour], edges[colour], thick);
      if (y1 - y0 >= labelHeight && x1 - x0 >= digit * 2) labelled.push(box);
    }
  }
  return labelled;
}

/** Draw the times of nodes that were not on, as stripes. */
export function paintPower(raster, scale, index, theme) {
  const { model, start, end, node, state } = index;
  const { firstCore } = model.nodes;
  const { ratio, viewport, cores } = scale;
  const [perSecond, perCore] = [scale.perSecond * ratio, scale.perCore * ratio];
  const [from, to] = [viewport.first, Math.min(viewport.last, model.nowS)];
  const pixels = powerPixels(theme);
  const ranges = index.candidates(from, to);
  for (let range = 0; range < ranges.length; range += 2) {
    for (let i = ranges[range]; i < ranges[range + 1]; i++) {
      const [top, bottom] = [firstCore[node[i]], firstCore[node[i] + 1]];
      if (end[i] <= from || bottom <= cores.first || top >= cores.last) continue;
      const { fill, stripe } = pixels[state[i]];
      raster.hatch(
        (start[i] - from) * perSecond, (top - cores.first) * perCore,
        (Math.min(end[i], to) - from) * perSecond, (bottom - cores.first) * perCore,
        fill, stripe, { period: Math.round(8 * ratio), slope: STRIPE_SLOPES[state[i]] });
    }
  }
}

/** Write job numbers into boxes. */
export function paintLabels(context, scale, model, labelled, { name, theme }) {
  const { boxes, startS, endS } = model;
  const { of, texts } = jobPixels(model, name, theme);
  context.font = LABEL_FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  let drawn = 0;
  for (const box of labelled) {
    const row = boxes.job[box];
    const text = model.idOf(row);
    const end = Number.isNaN(endS[row]) ? model.nowS : endS[row];
    const left = Math.max(scale.x(startS[row]), scale.left);
    const right = Math.min(scale.x(end), scale.right);
    const top = Math.max(scale.y(boxes.first[box]), scale.top);
    const bottom = Math.min(scale.y(boxes.last[box] + 1), scale.bottom);
    if (right - left < text.length * DIGIT_WIDTH + 6 || bottom - top < LABEL_HEIGHT) continue;
    context.fillStyle = texts[of[row]];
    context.fillText(text, (left + right) / 2, (top + bottom) / 2 + 1);
    if (++drawn === MOST_LABELS) return;
  }
}

/** Return the class of each job, and by class the pixels and the colour of text. */
function jobPixels(model, name, theme) {
  const palette = COLOURINGS[name].palette(theme);
  const [edge, share] = CHART_COLOURS[theme].edge;
  return {
    of: classesOf(name, model).of,
    fills: palette.map((colour) => packedColour(rgbOf(colour))),
    edges: palette.map((colour) => packedColour(mixedColour(colour, edge, share))),
    texts: palette.map(textColourOn),
  };
}

/** Return the pixel of the background of a plot. */
export function backgroundPixel(theme) {
  return packedColour(rgbOf(CHART_COLOURS[theme].plot));
}

function powerPixels(theme) {
  const background = CHART_COLOURS[theme].plot;
  const [, , sleeping, on, off] = NODE_STATE_COLOURS[theme];
  return [sleeping, off, sleeping, on].map((colour) => ({
    fill: packedColour(mixedColour(colour, background, 0.55)),
    stripe: packedColour(rgbOf(colour)),
  }));
}
