/** The picture of the plot of a Gantt chart, drawn in slices of time. */

import { backgroundPixel, paintBoxes, paintClosures, paintPower } from "./gantt_paint.js";
import { Raster } from "./raster.js";
import { indicesOf } from "./span_index.js";

const SLICE_MS = 6;
const FINISHED_ROWS = 64;

/**
 * Draws what is visible in steps, so that no frame of the screen waits for a large run. Until the
 * steps are done, `show` stretches the last complete picture, and below it that of the whole run.
 */
export class GanttPicture {
  constructor(model) {
    this.model = model;
    this.last = null;
    this.whole = null;
    this.steps = null;
  }

  resize(scale) {
    const width = Math.round(scale.width * scale.ratio);
    const height = Math.round(scale.height * scale.ratio);
    this.raster = new Raster(width, height);
    this.steps = null;
    this.last = null;
    this.whole = null;
  }

  /** Whether the last picture is that of a scale and of the same jobs and colours. */
  matches(scale, look) {
    return this.last !== null && sameView(this.last, pictureView(scale, look));
  }

  /**
   * Draw for a while; begin anew if the last picture is complete and another one is visible now.
   *
   * @param {GanttScale} scale
   * @param {{name: string, theme: string, version: number}} look colouring, theme, and number of
   *   appended frames.
   * @param {boolean} wholly whether to draw to the end, however long it takes.
   */
  advance(scale, look, wholly) {
    if (wholly || (this.steps && isMuchSmaller(scale, this.drawing.scale))) this.steps = null;
    if (!this.steps) {
      if (this.matches(scale, look)) return;
      this.drawing = { ...pictureView(scale, look), labelled: [], scale: scale.frozen(), look };
      this.steps = this.draw(this.drawing);
    }
    const until = performance.now() + SLICE_MS;
    let step = this.steps.next();
    while (!step.done && (wholly || performance.now() < until)) step = this.steps.next();
    if (!step.done) return;
    this.steps = null;
    this.keep(this.drawing);
  }

  *draw({ scale, look, labelled }) {
    const { raster } = this;
    const { boxes, power } = indicesOf(this.model);
    raster.clear(backgroundPixel(look.theme));
    paintClosures(raster, scale, this.model, look.theme);
    yield* paintPower(raster, scale, power, look.theme);
    yield* paintBoxes(raster, scale, boxes, look, labelled);
    for (let row = 0; row < raster.height; row += FINISHED_ROWS) {
      raster.finish(row, Math.min(row + FINISHED_ROWS, raster.height));
      yield;
    }
  }

  keep(drawn) {
    const { raster } = this;
    // The picture of the whole run keeps its canvas.
    const reusable = this.last && this.last !== this.whole ? this.last.canvas : null;
    const canvas = reusable ?? document.createElement("canvas");
    if (!reusable) Object.assign(canvas, { width: raster.width, height: raster.height });
    const image = new ImageData(raster.bytes, raster.width, raster.height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    this.last = { ...drawn, canvas };
    if (drawn.fits) this.whole = this.last;
  }

  /** Draw the picture onto the plot. */
  show(context, scale) {
    context.save();
    context.beginPath();
    context.rect(scale.left, scale.top, scale.width, scale.height);
    context.clip();
    // Stretched pictures are replaced in a moment: smoothing would only cost time.
    context.imageSmoothingEnabled = false;
    const { last, whole } = this;
    if (whole && (whole === last || !covers(last, scale))) stretchPicture(context, scale, whole);
    if (last && last !== whole) stretchPicture(context, scale, last);
    context.restore();
  }
}

function pictureView({ viewport, cores }, { name, theme, version }) {
  return {
    name, theme, version, fits: viewport.fits && cores.fits,
    startS: viewport.first, endS: viewport.last, firstCore: cores.first, lastCore: cores.last,
  };
}

function sameView(a, b) {
  return Object.keys(b).every((key) => a[key] === b[key]);
}

/** Whether the user zoomed in so far that a picture in the making is of little use. */
function isMuchSmaller({ viewport, cores }, drawn) {
  return viewport.length * 2 < drawn.viewport.length || cores.length * 2 < drawn.cores.length;
}

function covers({ startS, endS, firstCore, lastCore }, { viewport, cores }) {
  return startS <= viewport.first && endS >= viewport.last && firstCore <= cores.first &&
    lastCore >= cores.last;
}

function stretchPicture(context, scale, { startS, endS, firstCore, lastCore, canvas }) {
  const [left, top] = [scale.x(startS), scale.y(firstCore)];
  const [width, height] = [scale.x(endS) - left, scale.y(lastCore) - top];
  context.drawImage(canvas, left, top, width, height);
}
