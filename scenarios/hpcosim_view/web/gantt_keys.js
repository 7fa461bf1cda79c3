/** Keys of a Gantt chart that has the focus. */

import { neighbourOfJob } from "./gantt_find.js";

const PAN_SHARE = 0.1;
const FAST_PAN_SHARE = 0.5;
const ZOOM_FACTOR = 0.8;

/** The keys in words, for help texts and screen readers. */
export const GANTT_KEYS_HELP =
  "Arrow keys move, with Shift faster. Plus and minus zoom in time, i and o in nodes, 0 or Home " +
  "shows everything. n and p select the next and the previous job, with Shift on the same nodes. " +
  "Enter zooms to the selected job, Escape clears the selection.";

/** Handle the keys of a chart (a `Gantt`). */
export function listenToKeys(gantt, element) {
  const handle = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actionOfKey(gantt, event);
    if (!action) return;
    event.preventDefault();
    gantt.hover(null);
    action();
  };
  element.addEventListener("keydown", handle);
}

function actionOfKey(gantt, { key, shiftKey }) {
  const { viewport, cores } = gantt.scale;
  const share = shiftKey ? FAST_PAN_SHARE : PAN_SHARE;
  switch (key) {
    case "ArrowLeft": return () => viewport.pan(-share * viewport.length);
    case "ArrowRight": return () => viewport.pan(share * viewport.length);
    case "ArrowUp": return () => cores.pan(-share * cores.length);
    case "ArrowDown": return () => cores.pan(share * cores.length);
    case "PageUp": return () => cores.pan(-cores.length);
    case "PageDown": return () => cores.pan(cores.length);
    case "+": case "=": return () => viewport.zoom(ZOOM_FACTOR);
    case "-": case "_": return () => viewport.zoom(1 / ZOOM_FACTOR);
    case "i": case "I": return () => cores.zoom(ZOOM_FACTOR);
    case "o": case "O": return () => cores.zoom(1 / ZOOM_FACTOR);
    case "0": case "Home": return () => { viewport.fit(); cores.fit(); };
    case "n": case "N": return () => stepToJob(gantt, 1, shiftKey);
    case "p": case "P": return () => stepToJob(gantt, -1, shiftKey);
    case "Enter": return () => gantt.zoomTo(gantt.selectedRow);
    case "Escape": return () => gantt.selection.set(null);
    default: return null;
  }
}

function stepToJob(gantt, direction, sameNode) {
  const row = neighbourOfJob(gantt.model, gantt.selectedRow, direction, sameNode);
  if (row < 0) return;
  gantt.selection.set(gantt.model.idOf(row));
  gantt.show(row);
}
