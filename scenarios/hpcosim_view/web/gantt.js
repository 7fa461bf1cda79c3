/** A Gantt chart: the jobs of a run on its cores. */

import { closureAt } from "./closures.js";
import { paintAxes } from "./gantt_axes.js";
import { endOfJob, jobAtPosition, positionOfJob } from "./gantt_find.js";
import { GANTT_KEYS_HELP, listenToKeys } from "./gantt_keys.js";
import { paintOverlay } from "./gantt_overlay.js";
import { paintLabels } from "./gantt_paint.js";
import { GanttPicture } from "./gantt_picture.js";
import { listenToPointer } from "./gantt_pointer.js";
import { GanttScale, coreInterval } from "./gantt_scale.js";
import { createTooltip } from "./gantt_tooltip.js";
import { jobLines, shortName } from "./job_text.js";
import { POWER_STATES } from "./model.js";
import { observable } from "./observable.js";
import { CHART_COLOURS } from "./palettes.js";
import { indicesOf } from "./span_index.js";
import { systemTheme } from "./system_theme.js";
import { timeText } from "./time_axis.js";

/**
 * Add a Gantt chart to a container, which determines its size.
 *
 * @param {HTMLElement} container
 * @param {RunModel} model call `redraw` after it has grown.
 * @param {Viewport} viewport the visible time.
 * @param {object} options
 * @param {object} [options.selection] observable of a job id as text, or null.
 * @param {object} [options.colouring] observable of a name of `COLOURINGS`.
 * @param {object} [options.theme] observable of "light" or "dark"; default: that of the system.
 * @param {Interval} [options.cores] the visible cores; default: an interval of its own.
 * @param {boolean} [options.waits] whether to outline the waiting time of the selected job.
 * @returns {{redraw, jobAt, positionOf, show, drawn, cores, destroy}} `redraw()` draws with the
 *   next frame of the screen. `jobAt(x, y)` returns the row of the job at a position of the chart,
 *   CSS pixels, or -1; `positionOf(row)` returns the middle `{x, y}` of the largest visible box of
 *   a job, or null. `show(row)` moves as little as possible so that a job is visible. `drawn()`
 *   returns a promise that is fulfilled when everything visible is drawn. `cores` is the interval
 *   of visible cores.
 */
export function createGantt(container, model, viewport, options = {}) {
  const gantt = new Gantt(container, model, viewport, options);
  return {
    redraw: () => gantt.schedule(true),
    jobAt: (x, y) => gantt.jobAt(x, y),
    positionOf: (row) => positionOfJob(gantt.scale, model, row),
    show: (row) => gantt.show(row),
    drawn: () => gantt.drawn(),
    cores: gantt.scale.cores,
    destroy: () => gantt.destroy(),
  };
}

class Gantt {
  constructor(container, model, viewport, options) {
    this.container = container;
    this.model = model;
    this.selection = options.selection ?? observable(null);
    this.colouring = options.colouring ?? observable("size");
    this.theme = options.theme ?? systemTheme();
    this.waits = options.waits ?? true;
    this.scale = new GanttScale(viewport, options.cores ?? coreInterval(model));
    this.picture = new GanttPicture(model);
    this.version = model.version;
    this.waiting = [];
    this.pointer = null;
    this.band = null;
    this.build();
    this.follow();
    this.resize();
  }

  build() {
    if (getComputedStyle(this.container).position === "static") {
      this.container.style.position = "relative";
    }
    this.base = ganttCanvas(this.container);
    this.overlay = ganttCanvas(this.container);
    this.overlay.className = "gantt-canvas";
    this.overlay.tabIndex = 0;
    this.overlay.setAttribute("role", "application");
    this.overlay.setAttribute("aria-roledescription", "Gantt chart");
    this.overlay.setAttribute("aria-description", GANTT_KEYS_HELP);
    this.overlay.style.outlineOffset = "-2px";
    this.overlay.style.cursor = "default";
    this.status = document.createElement("div");
    this.status.setAttribute("aria-live", "polite");
    Object.assign(this.status.style, {
      position: "absolute", width: "1px", height: "1px", overflow: "hidden", clipPath: "inset(50%)",
    });
    this.container.append(this.status);
    this.tooltip = createTooltip(this.container);
    listenToPointer(this, this.overlay);
    listenToKeys(this, this.overlay);
  }

  follow() {
    const redraw = () => this.schedule(true);
    this.subscriptions = [
      this.scale.viewport.subscribe(redraw),
      this.scale.cores.subscribe(redraw),
      this.colouring.subscribe(redraw),
      this.theme.subscribe(redraw),
      this.selection.subscribe(() => this.selectionChanged()),
    ];
    this.resizes = new ResizeObserver(() => this.resize());
    this.resizes.observe(this.container);
  }

  destroy() {
    for (const leave of this.subscriptions) leave();
    this.resizes.disconnect();
    cancelAnimationFrame(this.scheduled);
    this.container.replaceChildren();
  }

  get selectedRow() {
    return this.model.rowOf(this.selection.get());
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.container;
    const ratio = window.devicePixelRatio || 1;
    if (!this.scale.resize(width, height, ratio)) return;
    for (const canvas of [this.base, this.overlay]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    this.picture.resize(this.scale);
    this.draw(true);
    this.drawOverlay();
  }

  /** Draw with the next frame of the screen, however often this is called before. */
  schedule(all) {
    this.all ||= all;
    this.scheduled ??= requestAnimationFrame(() => {
      this.scheduled = undefined;
      const all = this.all;
      this.all = false;
      if (all) this.draw(false);
      this.drawOverlay();
    });
  }

  /** Draw; `wholly` to the end, however long it takes. */
  draw(wholly) {
    this.takeUp();
    const { scale, model, picture } = this;
    const theme = this.theme.get();
    const look = { name: this.colouring.get(), theme, version: model.version };
    const context = this.context(this.base);
    context.fillStyle = CHART_COLOURS[theme].background;
    context.fillRect(0, 0, this.base.width, this.base.height);
    picture.advance(scale, look, wholly);
    picture.show(context, scale);
    paintLabels(context, scale, model, picture.last.labelled, look);
    paintAxes(context, scale, model, theme);
    if (!picture.matches(scale, look)) this.schedule(true);
    else for (const done of this.waiting.splice(0)) done();
  }

  /** Return a promise that is fulfilled when everything visible is drawn. */
  drawn() {
    return new Promise((done) => {
      this.waiting.push(done);
      this.schedule(true);
    });
  }

  drawOverlay() {
    const { scale, model, overlay } = this;
    const theme = this.theme.get();
    const hovered = this.pointer ? this.jobAt(this.pointer.x, this.pointer.y) : -1;
    const selected = this.selectedRow;
    const marks = selected >= 0 || hovered >= 0 || this.band !== null;
    if (marks || this.marked) {
      const context = this.context(overlay);
      context.clearRect(0, 0, overlay.width, overlay.height);
      paintOverlay(context, scale, model,
        { selected, hovered, theme, waits: this.waits, band: this.band });
    }
    this.marked = marks;
    overlay.style.outlineColor = CHART_COLOURS[theme].focus;
    this.showTooltip(hovered, theme);
  }

  /** Take up what was appended to the model since the last drawing. */
  takeUp() {
    const { model, scale } = this;
    const label = `${model.about.scenario ?? "Run"}, ${model.about.scheduler ?? ""}: ` +
      `${model.jobs} jobs on ${model.nodes.count} nodes`;
    this.overlay.setAttribute("aria-label", shortName(label));
    if (this.version === model.version) return;
    this.version = model.version;
    scale.cores.setLimits(0, Math.max(model.coreCount, 1));
  }

  context(canvas) {
    const context = canvas.getContext("2d", { alpha: canvas === this.overlay });
    const { ratio } = this.scale;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }

  jobAt(x, y) {
    return jobAtPosition(this.scale, indicesOf(this.model).boxes, x, y);
  }

  hover(pointer) {
    this.pointer = pointer;
    this.schedule(false);
  }

  showTooltip(row, theme) {
    if (!this.pointer || !this.scale.contains(this.pointer.x, this.pointer.y)) {
      this.tooltip.hide();
      return;
    }
    const { x, y } = this.pointer;
    this.tooltip.show(row >= 0 ? jobLines(this.model, row) : this.idleLines(x, y), x, y, theme);
  }

  /** Return the text for a position without a job. */
  idleLines(x, y) {
    const { model, scale } = this;
    const timeS = scale.timeAt(x);
    const node = model.nodeOfCore(Math.floor(scale.coreAt(y)));
    if (node < 0 || timeS > model.nowS) return [timeText(timeS)];
    const group = model.nodes.groups.find(({ last }) => node <= last);
    const known = model.nameOfNode(node);
    const name = group.name && !known ? ` (${shortName(group.name)})` : "";
    const state = POWER_STATES[indicesOf(model).power.stateAt(node, timeS)].replace("_", " ");
    const place = [state === "on" ? "idle core" : state, closureAt(model, node, timeS)]
      .filter((text) => text);
    return [`Node ${known ? shortName(known) : node}${name}`, ...place, timeText(timeS)];
  }

  selectAt({ x, y }) {
    const row = this.jobAt(x, y);
    this.selection.set(row < 0 ? null : this.model.idOf(row));
  }

  selectionChanged() {
    const row = this.selectedRow;
    this.status.textContent = row < 0 ? "" : jobLines(this.model, row).join(", ");
    this.schedule(false);
  }

  /** Move as little as possible so that a job is visible. */
  show(row) {
    const { model, scale } = this;
    if (row < 0 || !model.boxCount[row]) return;
    const box = model.firstBox[row];
    scale.viewport.show(model.startS[row], endOfJob(model, row));
    scale.cores.show(model.boxes.first[box], model.boxes.last[box] + 1);
  }

  /** Zoom so that a job fills a third of the time. */
  zoomTo(row) {
    const { model, scale } = this;
    if (row < 0 || !model.boxCount[row]) return;
    const [start, end] = [model.startS[row], endOfJob(model, row)];
    scale.viewport.set(start - (end - start), end + (end - start));
    this.show(row);
  }

  fit() {
    this.scale.viewport.fit();
    this.scale.cores.fit();
  }

  showBand(from, to) {
    this.band = from && { from, to };
    this.schedule(false);
  }

  /** Zoom to a rectangle of the chart. */
  zoomToBand(from, to) {
    const { scale } = this;
    const ordered = (a, b) => [Math.min(a, b), Math.max(a, b)];
    const times = ordered(scale.timeAt(from.x), scale.timeAt(to.x));
    const cores = ordered(scale.coreAt(from.y), scale.coreAt(to.y));
    this.showBand(null, null);
    scale.viewport.set(...times);
    scale.cores.set(...cores);
  }
}

function ganttCanvas(container) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas.style, { position: "absolute", left: "0", top: "0" });
  container.append(canvas);
  return canvas;
}
