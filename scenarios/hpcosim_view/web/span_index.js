/** Indices of what lasts from one time to another: which spans overlap the visible time? */

import { GrowableColumn } from "./growable_column.js";
import { lowerBound } from "./model.js";

const BLOCK_SPANS = 128;
const NO_SPAN = -1;

/**
 * Spans in order of their starts. `start` and `end` are columns in seconds; the end of a span that
 * lasts is infinite. Blocks of consecutive spans have the latest end of their spans, so that a
 * search skips the blocks that ended before.
 */
class SpanIndex {
  constructor() {
    this.starts = new GrowableColumn(Float64Array);
    this.ends = new GrowableColumn(Float64Array);
    this.blockEnd = new Float64Array(0);
  }

  get start() {
    return this.starts.view;
  }

  get end() {
    return this.ends.view;
  }

  /** Call after changes of starts or ends. */
  indexBlocks() {
    const end = this.end;
    const blocks = Math.ceil(end.length / BLOCK_SPANS);
    this.blockEnd = new Float64Array(blocks);
    for (let block = 0; block < blocks; block++) {
      const to = Math.min((block + 1) * BLOCK_SPANS, end.length);
      let latest = -Infinity;
      for (let i = block * BLOCK_SPANS; i < to; i++) if (end[i] > latest) latest = end[i];
      this.blockEnd[block] = latest;
    }
  }

  /**
   * Return intervals of indices that contain every span which overlaps a time. They also contain
   * others.
   *
   * @returns {number[]} first index and index after the last, one pair after the other.
   */
  candidates(startS, endS) {
    const before = lowerBound(this.start, endS);
    const found = [];
    for (let block = 0, from = 0; from < before; block++, from += BLOCK_SPANS) {
      if (this.blockEnd[block] < startS) continue;
      const to = Math.min(from + BLOCK_SPANS, before);
      if (found.at(-1) === from) found[found.length - 1] = to;
      else found.push(from, to);
    }
    return found;
  }
}

/** The boxes of a model. */
class BoxIndex extends SpanIndex {
  constructor(model) {
    super();
    this.model = model;
    this.endsSeen = 0;
    this.pausesSeen = 0;
    this.update();
  }

  /** Take up what was appended to the model. */
  update() {
    const { model } = this;
    const { boxes, ends, pauses, startBox, firstBox, boxCount } = model;
    const seen = this.starts.length;
    this.starts.extend(boxes.count - seen, 0);
    this.ends.extend(boxes.count - seen, Infinity);
    const { start, end } = this;
    for (let box = seen; box < boxes.count; box++) start[box] = boxes.startS[box];
    for (; this.pausesSeen < pauses.count; this.pausesSeen++) {
      const at = pauses.start[this.pausesSeen];
      const last = startBox[at + 1] ?? boxes.count;
      for (let box = startBox[at]; box < last; box++) end[box] = boxes.endS[box];
    }
    for (; this.endsSeen < ends.count; this.endsSeen++) {
      const row = ends.job[this.endsSeen];
      const last = firstBox[row] + boxCount[row];
      for (let box = firstBox[row]; box < last; box++) end[box] = boxes.endS[box];
    }
    this.indexBlocks();
  }
}

/** The times for which nodes were not on: columns `node` and `state` besides those of spans. */
class PowerIndex extends SpanIndex {
  constructor(model) {
    super();
    this.model = model;
    this.nodes = new GrowableColumn(Uint32Array);
    this.states = new GrowableColumn(Uint8Array);
    this.changesSeen = 0;
    // The span that lasts, by node.
    this.lasting = new GrowableColumn(Int32Array);
    this.update();
  }

  get node() {
    return this.nodes.view;
  }

  get state() {
    return this.states.view;
  }

  /** Return the state of a node at a time: index into `POWER_STATES`. */
  stateAt(node, timeS) {
    const ranges = this.candidates(timeS, timeS);
    for (let range = 0; range < ranges.length; range += 2) {
      for (let i = ranges[range]; i < ranges[range + 1]; i++) {
        if (this.node[i] === node && this.end[i] > timeS) return this.state[i];
      }
    }
    return 0;
  }

  /** Take up what was appended to the model. */
  update() {
    const { power, nodes } = this.model;
    this.lasting.extend(nodes.count - this.lasting.length, NO_SPAN);
    const lasting = this.lasting.view;
    let spans = this.starts.length;
    const most = spans + power.count - this.changesSeen;
    const columns = [this.starts, this.ends, this.nodes, this.states];
    for (const column of columns) column.resize(most);
    const [starts, ends, nodeOf, stateOf] = columns.map(({ view }) => view);
    for (; this.changesSeen < power.count; this.changesSeen++) {
      const node = power.node[this.changesSeen];
      const state = power.state[this.changesSeen];
      const timeS = power.timeS[this.changesSeen];
      if (lasting[node] !== NO_SPAN) ends[lasting[node]] = timeS;
      lasting[node] = state === 0 ? NO_SPAN : spans;
      if (state === 0) continue;
      starts[spans] = timeS;
      ends[spans] = Infinity;
      nodeOf[spans] = node;
      stateOf[spans] = state;
      spans++;
    }
    for (const column of columns) column.resize(spans);
    this.indexBlocks();
  }
}

const MODEL_INDICES = new WeakMap();

/**
 * Return the indices of a model with all that was appended to it. All charts share them.
 *
 * @param {RunModel} model
 * @returns {{boxes: BoxIndex, power: PowerIndex}}
 */
export function indicesOf(model) {
  let indices = MODEL_INDICES.get(model);
  if (!indices) {
    indices = { version: model.version, boxes: new BoxIndex(model), power: new PowerIndex(model) };
    MODEL_INDICES.set(model, indices);
  } else if (indices.version !== model.version) {
    indices.version = model.version;
    indices.boxes.update();
    indices.power.update();
  }
  return indices;
}
