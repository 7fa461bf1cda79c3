/** Mouse, trackpad and touch on a Gantt chart. */

const DRAG_PX = 4;
const WHEEL_LINE_PX = 33;
const WHEEL_ZOOM = 0.0022;
const PINCH_ZOOM = 0.01;

/** Handle the pointers of a chart (a `Gantt`). */
export function listenToPointer(gantt, element) {
  const drag = new GanttDrag(gantt);
  // One finger scrolls the page vertically and the chart horizontally; two fingers zoom.
  element.style.touchAction = "pan-y";
  element.addEventListener("wheel", (event) => wheelGantt(gantt, event), { passive: false });
  element.addEventListener("pointerdown", (event) => drag.down(event));
  element.addEventListener("pointermove", (event) => drag.move(event));
  element.addEventListener("pointerup", (event) => drag.up(event));
  element.addEventListener("pointercancel", (event) => drag.cancel(event));
  element.addEventListener("pointerleave", () => gantt.hover(null));
  element.addEventListener("dblclick", (event) => {
    const { x, y } = chartPosition(event);
    const row = gantt.jobAt(x, y);
    if (row >= 0) gantt.zoomTo(row);
    else gantt.fit();
  });
}

function chartPosition(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/**
 * A mouse wheel zooms in time, with Shift in nodes, with Ctrl in both, as pinching a trackpad does.
 * Two fingers on a trackpad move. A wheel that changes nothing scrolls the page.
 */
function wheelGantt(gantt, event) {
  const { scale } = gantt;
  const { viewport, cores } = scale;
  const { x, y } = chartPosition(event);
  const unit = event.deltaMode === 0 ? 1 : WHEEL_LINE_PX;
  const before = [viewport.first, viewport.last, cores.first, cores.last];
  if (event.ctrlKey || isMouseWheel(event)) {
    const delta = (event.deltaY || event.deltaX) * unit;
    const speed = event.ctrlKey && Math.abs(delta) < 50 ? PINCH_ZOOM : WHEEL_ZOOM;
    const factor = Math.exp(Math.min(Math.max(delta, -300), 300) * speed);
    if (event.ctrlKey || event.shiftKey) cores.zoom(factor, scale.coreAt(y));
    if (event.ctrlKey || !event.shiftKey) viewport.zoom(factor, scale.timeAt(x));
  } else {
    viewport.pan((event.deltaX * unit) / scale.perSecond);
    cores.pan((event.deltaY * unit) / scale.perCore);
  }
  const after = [viewport.first, viewport.last, cores.first, cores.last];
  if (event.ctrlKey || after.some((value, at) => value !== before[at])) event.preventDefault();
}

/** Whether a wheel event comes from a mouse: trackpads report 3 units per pixel, or both axes. */
function isMouseWheel({ deltaMode, deltaX, deltaY, wheelDeltaY, wheelDeltaX }) {
  if (deltaMode !== 0) return true;
  const [delta, steps] = deltaY ? [deltaY, wheelDeltaY] : [deltaX, wheelDeltaX];
  if (deltaX && deltaY) return false;
  return steps === undefined ? Math.abs(delta) >= 50 : steps !== -3 * delta;
}

/** Pointers that are down: one moves or draws a rectangle to zoom to, two zoom. */
class GanttDrag {
  constructor(gantt) {
    this.gantt = gantt;
    this.pointers = new Map();
    this.moved = false;
    this.from = null;
  }

  down(event) {
    if (event.button !== 0) return;
    const at = chartPosition(event);
    this.pointers.set(event.pointerId, at);
    this.moved = this.pointers.size > 1;
    this.from = event.shiftKey ? at : null;
    event.currentTarget.setPointerCapture(event.pointerId);
  }

  move(event) {
    const at = chartPosition(event);
    const last = this.pointers.get(event.pointerId);
    if (!last) {
      this.gantt.hover(at);
      return;
    }
    const far = Math.hypot(at.x - last.x, at.y - last.y) >= DRAG_PX;
    if (!this.moved && !far) return;
    this.moved = true;
    this.gantt.hover(null);
    if (this.from) this.gantt.showBand(this.from, at);
    else if (this.pointers.size === 2) this.pinch(event.pointerId, at);
    else this.pan(last, at);
    if (!this.from) this.pointers.set(event.pointerId, at);
  }

  pan(last, at) {
    const { scale } = this.gantt;
    scale.viewport.pan((last.x - at.x) / scale.perSecond);
    scale.cores.pan((last.y - at.y) / scale.perCore);
  }

  pinch(pointer, at) {
    const { scale } = this.gantt;
    const last = this.pointers.get(pointer);
    const [other] = [...this.pointers].filter(([id]) => id !== pointer).map(([, place]) => place);
    const distance = (place) => Math.max(Math.hypot(place.x - other.x, place.y - other.y), 10);
    const factor = distance(last) / distance(at);
    scale.viewport.zoom(factor, scale.timeAt((last.x + other.x) / 2));
    scale.cores.zoom(factor, scale.coreAt((last.y + other.y) / 2));
    this.pan({ x: last.x / 2, y: last.y / 2 }, { x: at.x / 2, y: at.y / 2 });
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    const at = chartPosition(event);
    if (this.from && this.moved) this.gantt.zoomToBand(this.from, at);
    else if (!this.moved) this.gantt.selectAt(at);
    this.from = null;
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    this.from = null;
    this.gantt.showBand(null, null);
  }
}
