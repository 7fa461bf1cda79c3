/** The jobs and the sleeping nodes of a Gantt chart, drawn into a picture. */

import { closuresOf } from "./closures.js";
import { COLOURINGS, classesOf } from "./colours.js";
import { CHART_COLOURS, NODE_STATE_COLOURS, mixedColour, rgbOf, textColourOn } from "./palettes.js";
import { packedColour } from "./raster.js";

const LABEL_FONT = "11px system-ui, sans-serif";
const LABEL_HEIGHT = 13;
const DIGIT_WIDTH = 6.6;
const LABEL_MARGIN = 3;
const TURNED_WIDTH = 10; // of a box with upright text
const MOST_LABELS = 800;
const SLICE_BOXES = 4096;
// Slopes of the stripes of nodes that are off, by `POWER_STATES`; 0 for vertical ones.
const STRIPE_SLOPES = [0, 1, 0, -1, 1];

/**
 * Draw the visible boxes. Yields now and then.
 *
 * @param {Raster} raster a picture of the plot in device pixels.
 * @param {GanttScale} scale
 * @param {BoxIndex} index
 * @param {{name: string, theme: string}} look name of the colouring and theme.
 * @param {number[]} labelled gets the boxes with room for a job number.
 */
export function* paintBoxes(raster, scale, index, look, labelled) {
  const place = devicePlace(scale, index.model);
  const pixels = jobPixels(index.model, look);
  for (const [first, last] of slices(index.candidates(place.from, place.to))) {
    paintSomeBoxes(raster, index, { ...place, ...pixels, first, last, labelled });
    yield;
  }
}

function paintSomeBoxes(raster, index, slice) {
  const { from, nowS, perSecond, perCore, ratio, firstCore, lastCore, of, fills, edges } = slice;
  const { start, end, model } = index;
  const { job, first, last } = model.boxes;
  const thick = Math.max(Math.round(ratio), 1);
  const [labelHeight, labelWidth] = [LABEL_HEIGHT * ratio, TURNED_WIDTH * ratio];
  for (let box = slice.first; box < slice.last; box++) {
    if (end[box] <= from || last[box] + 1 <= firstCore || first[box] >= lastCore) continue;
    const x0 = (start[box] - from) * perSecond;
    const x1 = ((end[box] < nowS ? end[box] : nowS) - from) * perSecond;
    const y0 = (first[box] - firstCore) * perCore;
    const y1 = (last[box] + 1 - firstCore) * perCore;
    const colour = of[job[box]];
    raster.box(x0, y0, x1, y1, fills[colour], edges[colour], thick);
    if (y1 - y0 >= labelHeight && x1 - x0 >= labelWidth) slice.labelled.push(box);
  }
}

/** Draw the windows of reservations and of drains as faint stripes. */
export function paintClosures(raster, scale, model, theme) {
  const { from, nowS, to, perSecond, perCore, firstCore, lastCore, ratio } =
    devicePlace(scale, model);
  const { plot, border } = CHART_COLOURS[theme].closed;
  const [fill, stripe] = [packedColour(rgbOf(plot)), packedColour(rgbOf(border))];
  const cores = model.nodes.firstCore;
  for (const { first, last, startS, endS } of closuresOf(model)) {
    const [top, bottom] = [cores[first], cores[last + 1]];
    if (endS <= from || startS >= to || bottom <= firstCore || top >= lastCore) continue;
    raster.hatch((startS - from) * perSecond, (top - firstCore) * perCore,
      (Math.min(endS, nowS) - from) * perSecond, (bottom - firstCore) * perCore,
      fill, stripe, { period: Math.round(12 * ratio), slope: 1 });
  }
}

/** Draw the times of nodes that were not on, as stripes. Yields now and then. */
export function* paintPower(raster, scale, index, theme) {
  const place = devicePlace(scale, index.model);
  const pixels = powerPixels(theme);
  for (const [first, last] of slices(index.candidates(place.from, place.to))) {
    paintSomePower(raster, index, { ...place, pixels, first, last });
    yield;
  }
}

function paintSomePower(raster, index, slice) {
  const { from, nowS, perSecond, perCore, ratio, pixels } = slice;
  const { start, end, node, state, model } = index;
  const nodeCores = model.nodes.firstCore;
  const period = Math.round(8 * ratio);
  for (let i = slice.first, next; i < slice.last; i = next) {
    next = endOfNeighbours(index, i, slice.last);
    const [top, bottom] = [nodeCores[node[i]], nodeCores[node[next - 1] + 1]];
    if (end[i] <= from || bottom <= slice.firstCore || top >= slice.lastCore) continue;
    const { fill, stripe } = pixels[state[i]];
    const x0 = (start[i] - from) * perSecond;
    const x1 = (Math.min(end[i], nowS) - from) * perSecond;
    const y0 = (top - slice.firstCore) * perCore;
    const y1 = (bottom - slice.firstCore) * perCore;
    raster.hatch(x0, y0, x1, y1, fill, stripe, { period, slope: STRIPE_SLOPES[state[i]] });
  }
}

/** Return the index after the spans of adjacent nodes that were off together. */
function endOfNeighbours({ start, end, node, state }, first, last) {
  let next = first + 1;
  while (next < last && node[next] === node[next - 1] + 1 && end[next] === end[first] &&
    start[next] === start[first] && state[next] === state[first]) next++;
  return next;
}

/** Return the visible times and cores, and device pixels per second and per core. */
function devicePlace(scale, model) {
  const { ratio, viewport, cores } = scale;
  return {
    ratio, perSecond: scale.perSecond * ratio, perCore: scale.perCore * ratio,
    from: viewport.first, to: Math.min(viewport.last, model.nowS), nowS: model.nowS,
    firstCore: cores.first, lastCore: cores.last,
  };
}

/** Yield intervals of indices that are short enough to be drawn without a pause. */
function* slices(ranges) {
  for (let range = 0; range < ranges.length; range += 2) {
    const end = ranges[range + 1];
    for (let first = ranges[range]; first < end; first += SLICE_BOXES) {
      yield [first, Math.min(first + SLICE_BOXES, end)];
    }
  }
}

/** Write job numbers into boxes, upwards where a box is too narrow. */
export function paintLabels(context, scale, model, labelled, look) {
  const { boxes } = model;
  const { of, texts } = jobPixels(model, look);
  context.font = LABEL_FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  let drawn = 0;
  for (const box of labelled) {
    const row = boxes.job[box];
    const text = model.idOf(row);
    const end = Math.min(boxes.endS[box], model.nowS);
    const left = Math.max(scale.x(boxes.startS[box]), scale.left);
    const right = Math.min(scale.x(end), scale.right);
    const top = Math.max(scale.y(boxes.first[box]), scale.top);
    const bottom = Math.min(scale.y(boxes.last[box] + 1), scale.bottom);
    const length = text.length * DIGIT_WIDTH + LABEL_MARGIN;
    const fits = right - left >= length && bottom - top >= LABEL_HEIGHT;
    if (!fits && (right - left < TURNED_WIDTH || bottom - top < length)) continue;
    context.fillStyle = texts[of[row]];
    paintLabel(context, text, (left + right) / 2, (top + bottom) / 2, !fits);
    if (++drawn === MOST_LABELS) return;
  }
}

function paintLabel(context, text, x, y, turned) {
  context.save();
  context.translate(x, y);
  if (turned) context.rotate(-Math.PI / 2);
  context.fillText(text, 0, 1);
  context.restore();
}

/** Return the class of each job, and by class the pixels and the colour of text. */
function jobPixels(model, { name, theme }) {
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
  const [, , sleeping, on, off, down] = NODE_STATE_COLOURS[theme];
  return [sleeping, off, sleeping, on, down].map((colour) => ({
    fill: packedColour(mixedColour(colour, background, 0.55)),
    stripe: packedColour(rgbOf(colour)),
  }));
}
