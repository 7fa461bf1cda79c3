/** The axes of a Gantt chart: times below, nodes on the left. */

import { CHART_COLOURS } from "./palettes.js";
import { timeTicks } from "./time_axis.js";

const TICK_WIDTH = 90;
const NODE_LABEL_HEIGHT = 14;
const GROUP_MARK_WIDTH = 2;
const LONGEST_NODE_NAME = 10; // the end of a longer name is shown: there it has its number
const AXIS_FONT = "11px system-ui, sans-serif";
const NODE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 1e5, 1e6];

/** Draw the axes and the boundaries of nodes around and over the plot. */
export function paintAxes(context, scale, model, theme) {
  const colours = CHART_COLOURS[theme];
  context.font = AXIS_FONT;
  context.lineWidth = 1 / scale.ratio;
  paintTimes(context, scale, colours);
  paintNodes(context, scale, model, colours);
  context.strokeStyle = colours.border;
  context.strokeRect(scale.left - 0.5, scale.top - 0.5, scale.width + 1, scale.height + 1);
}

function paintTimes(context, scale, colours) {
  const { first, last } = scale.viewport;
  context.textAlign = "center";
  context.textBaseline = "top";
  context.strokeStyle = colours.border;
  context.beginPath();
  for (const { timeS, label, major } of timeTicks(first, last, scale.width / TICK_WIDTH)) {
    const x = scale.x(timeS);
    context.moveTo(x, scale.bottom);
    context.lineTo(x, scale.bottom + (major ? 6 : 4));
    context.fillStyle = major ? colours.text : colours.faint;
    const half = context.measureText(label).width / 2;
    const right = scale.right + 12 - half;
    context.fillText(label, Math.min(x, right), scale.bottom + 8);
  }
  context.stroke();
}

function paintNodes(context, scale, model, colours) {
  const { nodes } = model;
  if (!nodes.count) return;
  const first = model.nodeOfCore(Math.floor(scale.cores.first));
  const last = model.nodeOfCore(Math.ceil(scale.cores.last) - 1);
  const shortest = (NODE_LABEL_HEIGHT * (last - first + 1)) / scale.height;
  const step = NODE_STEPS.find((candidate) => candidate >= shortest) ?? nodes.count;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = colours.faint;
  for (let node = Math.ceil(first / step) * step; node <= last; node += step) {
    const top = Math.max(scale.y(nodes.firstCore[node]), scale.top);
    const bottom = Math.min(scale.y(nodes.firstCore[node + 1]), scale.bottom);
    const y = step === 1 ? (top + bottom) / 2 : top;
    if (bottom - top < 4 && y > scale.bottom - 4) continue;
    context.fillText(nodeLabel(model, node), scale.left - 8, Math.max(y, scale.top + 5));
  }
  paintNodeBoundaries(context, scale, model, { first, last, colours });
}

function nodeLabel(model, node) {
  const name = model.nameOfNode(node);
  if (!name) return `node ${node}`;
  return name.length > LONGEST_NODE_NAME ? `…${name.slice(1 - LONGEST_NODE_NAME)}` : name;
}

/**
 * Draw lines between nodes if they are far enough apart. Groups of nodes have a mark on the axis:
 * a line over the jobs would look like an event.
 */
function paintNodeBoundaries(context, scale, model, { first, last, colours }) {
  const { nodes } = model;
  const line = (node, left, right) => {
    const y = Math.round(scale.y(nodes.firstCore[node]) * scale.ratio) / scale.ratio;
    context.moveTo(left, y);
    context.lineTo(right, y);
  };
  context.strokeStyle = colours.border;
  context.globalAlpha = 0.35;
  context.beginPath();
  if (scale.height / (last - first + 1) >= 8) {
    for (let node = first + 1; node <= last; node++) line(node, scale.left - 4, scale.right);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.strokeStyle = colours.text;
  context.lineWidth = GROUP_MARK_WIDTH;
  context.beginPath();
  for (const group of nodes.groups.slice(1)) {
    if (group.first > first && group.first <= last) line(group.first, scale.left - 7, scale.left);
  }
  context.stroke();
  context.lineWidth = 1 / scale.ratio;
}
