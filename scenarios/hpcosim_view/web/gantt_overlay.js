/** What changes without the jobs: the selected job and the job under the pointer. */

import { endOfJob, partsOfJob } from "./gantt_find.js";
import { CHART_COLOURS } from "./palettes.js";

/** Draw the outlines of the selected job and of the hovered one. */
export function paintOverlay(context, scale, model, { selected, hovered, theme, waits, band }) {
  const colours = CHART_COLOURS[theme];
  context.save();
  context.beginPath();
  context.rect(scale.left, scale.top, scale.width, scale.height);
  context.clip();
  if (hovered >= 0 && hovered !== selected) outlineJob(context, scale, model, hovered, colours, 1);
  if (selected >= 0) {
    if (waits) paintWait(context, scale, model, selected, colours);
    outlineJob(context, scale, model, selected, colours, 2);
  }
  if (band) {
    const { from, to } = band;
    context.fillStyle = colours.window;
    context.fillRect(from.x, from.y, to.x - from.x, to.y - from.y);
  }
  context.restore();
}

function outlineJob(context, scale, model, row, colours, width) {
  const lines = [[colours.selectedHalo, width + 2], [colours.selected, width]];
  for (const [colour, lineWidth] of lines) {
    context.strokeStyle = colour;
    context.lineWidth = lineWidth;
    context.beginPath();
    for (const { left, top, right, bottom } of partsOfJob(scale, model, row)) {
      // A box narrower than the line is drawn as a line of 3 pixels, so that it can be found.
      const wide = Math.max(right - left, 3);
      const high = Math.max(bottom - top, 3);
      context.rect((left + right - wide) / 2, (top + bottom - high) / 2, wide, high);
    }
    context.stroke();
  }
}

/** Draw the time that a job waited as a dashed outline before its start, on the nodes it got. */
function paintWait(context, scale, model, row, colours) {
  const started = !Number.isNaN(model.startS[row]);
  const from = scale.x(model.submitS[row]);
  const to = scale.x(started ? model.startS[row] : endOfJob(model, row));
  context.strokeStyle = colours.selected;
  context.lineWidth = 1;
  context.setLineDash([4, 3]);
  context.beginPath();
  const { boxes, firstBox, boxCount } = model;
  for (let box = firstBox[row]; box < firstBox[row] + boxCount[row]; box++) {
    const top = scale.y(boxes.first[box]);
    context.rect(from, top, to - from, scale.y(boxes.last[box] + 1) - top);
  }
  if (!started) {
    context.moveTo(from, scale.top);
    context.lineTo(from, scale.bottom);
  }
  context.stroke();
  context.setLineDash([]);
}
