/** Positions on a Gantt chart. */

import { PLOT_LEFT, PLOT_RIGHT } from "./time_axis.js";
import { Interval } from "./viewport.js";

const GANTT_MARGINS = { above: 8, below: 24 };

/** Converts between CSS pixels of a chart and times and cores. Core 0 is at the top. */
export class GanttScale {
  /**
   * @param {Viewport} viewport the visible time.
   * @param {Interval} cores the visible cores: number of the first, and that after the last.
   * @param {{above: number, below: number}} margins space around the plot, CSS pixels.
   */
  constructor(viewport, cores, margins = GANTT_MARGINS) {
    this.viewport = viewport;
    this.cores = cores;
    this.left = PLOT_LEFT;
    this.margins = margins;
    this.top = margins.above;
    this.resize(0, 0, 1);
  }

  /**
   * Set the size of the chart, CSS pixels, and the device pixels per CSS pixel.
   *
   * @returns {boolean} whether something changed.
   */
  resize(width, height, ratio) {
    const size = [width, height, ratio];
    if (this.size?.every((part, at) => part === size[at])) return false;
    this.size = size;
    this.ratio = ratio;
    this.width = Math.max(width - PLOT_LEFT - PLOT_RIGHT, 1);
    this.height = Math.max(height - this.margins.above - this.margins.below, 1);
    return true;
  }

  /** Return a copy that does not change when the user zooms. */
  frozen() {
    const still = ({ first, last, length }) => ({ first, last, length });
    const copy = new GanttScale(still(this.viewport), still(this.cores), this.margins);
    return Object.assign(copy, { ratio: this.ratio, width: this.width, height: this.height });
  }

  get right() {
    return this.left + this.width;
  }

  get bottom() {
    return this.top + this.height;
  }

  /** CSS pixels of a second. */
  get perSecond() {
    return this.width / this.viewport.length;
  }

  /** CSS pixels of a core. */
  get perCore() {
    return this.height / this.cores.length;
  }

  x(timeS) {
    return this.left + (timeS - this.viewport.first) * this.perSecond;
  }

  y(core) {
    return this.top + (core - this.cores.first) * this.perCore;
  }

  timeAt(x) {
    return this.viewport.first + (x - this.left) / this.perSecond;
  }

  coreAt(y) {
    return this.cores.first + (y - this.top) / this.perCore;
  }

  /** Whether a position is in the plot. */
  contains(x, y) {
    return x >= this.left && x < this.right && y >= this.top && y < this.bottom;
  }
}

/** Return the interval of all cores of a model, which can be zoomed down to a few cores. */
export function coreInterval(model) {
  return new Interval(0, Math.max(model.coreCount, 1), Math.min(4, Math.max(model.coreCount, 1)));
}
