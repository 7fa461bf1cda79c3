/** The whole run at once, with the visible part as a window that can be moved and resized. */

import { GanttPicture } from "./gantt_picture.js";
import { GanttScale } from "./gantt_scale.js";
import { observable } from "./observable.js";
import { CHART_COLOURS } from "./palettes.js";
import { systemTheme } from "./system_theme.js";
import { timeText } from "./time_axis.js";

const HANDLE_PX = 7;
const MINIMAP_KEYS_HELP = "Arrow keys move the visible time, with Shift they change its end. " +
  "Plus and minus zoom, Home shows everything.";

/**
 * Add a minimap to a container, which determines its size.
 *
 * @param {HTMLElement} container
 * @param {RunModel} model call `redraw` after it has grown.
 * @param {Viewport} viewport the visible time.
 * @param {object} options
 * @param {object} [options.colouring] observable of a name of `COLOURINGS`.
 * @param {object} [options.theme] observable of "light" or "dark"; default: that of the system.
 * @param {Interval} [options.cores] the visible cores of the Gantt chart.
 * @returns {{redraw: function(): void, destroy: function(): void}}
 */
export function createMinimap(container, model, viewport, options = {}) {
  const minimap = new Minimap(container, model, viewport, options);
  return { redraw: () => minimap.schedule(), destroy: () => minimap.destroy() };
}

class Minimap {
  constructor(container, model, viewport, options) {
    this.container = container;
    this.model = model;
    this.viewport = viewport;
    this.cores = options.cores ?? null;
    this.colouring = options.colouring ?? observable("size");
    this.theme = options.theme ?? systemTheme();
    const whole = { get first() { return viewport.limits.first; },
      get last() { return viewport.limits.last; },
      get length() { return viewport.limits.last - viewport.limits.first; }, fits: true };
    const all = { first: 0, get last() { return Math.max(model.coreCount, 1); },
      get length() { return Math.max(model.coreCount, 1); }, fits: true };
    this.scale = new GanttScale(whole, all, { above: 2, below: 2 });
    this.picture = new GanttPicture(model);
    this.grip = null;
    this.build();
    const redraw = () => this.schedule();
    this.subscriptions = [viewport, this.cores, this.colouring, this.theme]
      .filter((source) => source)
      .map((source) => source.subscribe(redraw));
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(container);
    this.resize();
  }

  build() {
    const canvas = document.createElement("canvas");
    canvas.className = "minimap-canvas";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "slider");
    canvas.setAttribute("aria-label", "Visible time");
    canvas.setAttribute("aria-description", MINIMAP_KEYS_HELP);
    Object.assign(canvas.style, { display: "block", touchAction: "none", outlineOffset: "-2px" });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", () => (this.grip = null));
    canvas.addEventListener("pointercancel", () => (this.grip = null));
    canvas.addEventListener("dblclick", () => this.viewport.fit());
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas = canvas;
    this.container.append(canvas);
  }

  destroy() {
    for (const leave of this.subscriptions) leave();
    this.resizes.disconnect();
    cancelAnimationFrame(this.scheduled);
    this.container.replaceChildren();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.container;
    const ratio = window.devicePixelRatio || 1;
    if (!this.scale.resize(width, height, ratio)) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.picture.resize(this.scale);
    this.draw(true);
  }

  schedule() {
    this.scheduled ??= requestAnimationFrame(() => {
      this.scheduled = undefined;
      this.draw(false);
    });
  }

  draw(wholly) {
    const { scale, picture, model, canvas } = this;
    const theme = this.theme.get();
    const colours = CHART_COLOURS[theme];
    const look = { name: this.colouring.get(), theme, version: model.version };
    const context = canvas.getContext("2d", { alpha: false });
    context.setTransform(scale.ratio, 0, 0, scale.ratio, 0, 0);
    context.fillStyle = colours.background;
    context.fillRect(0, 0, canvas.width, canvas.height);
    picture.advance(scale, look, wholly);
    picture.show(context, scale);
    this.drawWindow(context, colours);
    canvas.style.outlineColor = colours.focus;
    this.describe();
    if (!picture.matches(scale, look)) this.schedule();
  }

  drawWindow(context, colours) {
    const { scale, viewport, cores } = this;
    const [left, right] = [scale.x(viewport.first), scale.x(viewport.last)];
    const top = cores ? scale.y(cores.first) : scale.top;
    const bottom = cores ? scale.y(cores.last) : scale.bottom;
    context.fillStyle = colours.veil;
    context.fillRect(scale.left, scale.top, left - scale.left, scale.height);
    context.fillRect(right, scale.top, scale.right - right, scale.height);
    context.fillRect(left, scale.top, right - left, top - scale.top);
    context.fillRect(left, bottom, right - left, scale.bottom - bottom);
    context.strokeStyle = colours.focus;
    context.lineWidth = 2;
    const wide = Math.max(right - left, 2);
    context.strokeRect(left, top, wide, Math.max(bottom - top, 2));
    context.fillStyle = colours.focus;
    const middle = (top + bottom) / 2;
    for (const x of [left, left + wide]) context.fillRect(x - 3, middle - 9, 6, 18);
  }

  /** Tell assistive technology the visible time. */
  describe() {
    const { canvas, viewport } = this;
    const { first, last } = viewport.limits;
    canvas.setAttribute("aria-valuemin", String(Math.round(first)));
    canvas.setAttribute("aria-valuemax", String(Math.round(last)));
    canvas.setAttribute("aria-valuenow", String(Math.round(viewport.first)));
    canvas.setAttribute("aria-valuetext",
      `${timeText(viewport.first)} to ${timeText(viewport.last)}`);
  }

  down(event) {
    if (event.button !== 0) return;
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const { scale, viewport } = this;
    const [left, right] = [scale.x(viewport.first), scale.x(viewport.last)];
    this.canvas.setPointerCapture(event.pointerId);
    this.grip = this.gripAt(x);
    if (this.grip !== "window" || (x >= left && x <= right)) {
      this.x = x;
      return;
    }
    // A click beside the window moves it there.
    viewport.pan(scale.timeAt(x) - (viewport.first + viewport.last) / 2);
    this.x = x;
  }

  /** Return what a pointer takes hold of: "first" or "last" end of the window, or the "window". */
  gripAt(x) {
    const { scale, viewport } = this;
    const left = Math.abs(x - scale.x(viewport.first));
    const right = Math.abs(x - scale.x(viewport.last));
    if (Math.min(left, right) > HANDLE_PX) return "window";
    const middle = (scale.x(viewport.first) + scale.x(viewport.last)) / 2;
    return x < middle ? "first" : "last";
  }

  move(event) {
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const { scale, viewport } = this;
    this.canvas.style.cursor = (this.grip ?? this.gripAt(x)) === "window" ? "grab" : "ew-resize";
    if (!this.grip) return;
    const timeS = scale.timeAt(x);
    if (this.grip === "window") viewport.pan(timeS - scale.timeAt(this.x));
    else if (this.grip === "first") viewport.set(Math.min(timeS, viewport.last), viewport.last);
    else viewport.set(viewport.first, Math.max(timeS, viewport.first));
    this.x = x;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { viewport } = this;
    const step = viewport.length * 0.1;
    const turn = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (turn && event.shiftKey) viewport.set(viewport.first, viewport.last + turn * step);
    else if (turn) viewport.pan(turn * step);
    else if (event.key === "+" || event.key === "=") viewport.zoom(0.8);
    else if (event.key === "-") viewport.zoom(1.25);
    else if (event.key === "Home" || event.key === "0") viewport.fit();
    else return;
    event.preventDefault();
  }
}
