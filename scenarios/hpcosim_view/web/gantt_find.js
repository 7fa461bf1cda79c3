/** Which job is where on a Gantt chart. */

/**
 * Return the row of the job at a position: that which covers most of its pixel.
 *
 * @param {GanttScale} scale
 * @param {BoxIndex} index
 * @param {number} x CSS pixels from the left edge of the chart.
 * @param {number} y CSS pixels from its top edge.
 * @returns {number} -1: there is none.
 */
export function jobAtPosition(scale, index, x, y) {
  if (!scale.contains(x, y)) return -1;
  const { model, start, end } = index;
  const { job, first, last } = model.boxes;
  const half = 0.5 / scale.ratio;
  const [from, to] = [scale.timeAt(x - half), Math.min(scale.timeAt(x + half), model.nowS)];
  const [top, bottom] = [scale.coreAt(y - half), scale.coreAt(y + half)];
  let found = -1;
  let most = 0;
  const ranges = index.candidates(from, to);
  for (let range = 0; range < ranges.length; range += 2) {
    for (let box = ranges[range]; box < ranges[range + 1]; box++) {
      const wide = Math.min(end[box], to) - Math.max(start[box], from);
      const high = Math.min(last[box] + 1, bottom) - Math.max(first[box], top);
      if (wide > 0 && high > 0 && wide * high > most) {
        most = wide * high;
        found = job[box];
      }
    }
  }
  return found;
}

/** Return the visible parts of the boxes of a job, CSS pixels: `[{left, top, right, bottom}]`. */
export function partsOfJob(scale, model, row) {
  const { boxes } = model;
  const parts = [];
  for (const period of row < 0 ? [] : model.periodsOf(row)) {
    const left = Math.max(scale.x(period.startS), scale.left);
    const right = Math.min(scale.x(Math.min(period.endS, model.nowS)), scale.right);
    for (let box = period.first; box < period.last; box++) {
      const top = Math.max(scale.y(boxes.first[box]), scale.top);
      const bottom = Math.min(scale.y(boxes.last[box] + 1), scale.bottom);
      if (left <= right && top < bottom) parts.push({ left, top, right, bottom });
    }
  }
  return parts;
}

/** Return the middle of the largest visible box of a job, or null. */
export function positionOfJob(scale, model, row) {
  let most = null;
  for (const part of partsOfJob(scale, model, row)) {
    if (!most || part.bottom - part.top > most.bottom - most.top) most = part;
  }
  return most && { x: (most.left + most.right) / 2, y: (most.top + most.bottom) / 2 };
}

/** Return the end of a job, or the time up to which the run is known if it has not ended, s. */
export function endOfJob(model, row) {
  return Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
}

/**
 * Return the job that starts next or before another one.
 *
 * @param {RunModel} model
 * @param {number} row -1: none; then the first or the last job that started.
 * @param {1|-1} direction
 * @param {boolean} sameNode only jobs that share a node with this job.
 * @returns {number} a row; -1: there is none.
 */
export function neighbourOfJob(model, row, direction, sameNode) {
  const { boxes, firstBox, boxCount } = model;
  let box = direction > 0 ? 0 : boxes.count - 1;
  const nodes = row >= 0 && sameNode ? model.nodesOf(row) : null;
  if (row >= 0 && boxCount[row]) {
    box = direction > 0 ? firstBox[row] + boxCount[row] : firstBox[row] - 1;
  }
  for (; box >= 0 && box < boxes.count; box += direction) {
    if (!nodes) return boxes.job[box];
    const from = model.nodeOfCore(boxes.first[box]);
    const to = model.nodeOfCore(boxes.last[box]);
    if (nodes.some(([first, last]) => from <= last && to >= first)) return boxes.job[box];
  }
  return -1;
}
