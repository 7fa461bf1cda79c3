/** Step functions of a run: constant between changes, fast to look at on any scale. */

const BLOCK_STEPS = 64;

/** A step function of time. */
export class Steps {
  /**
   * @param {Float64Array} timesS times of changes, ascending, without repetitions
   * @param {Float64Array} values value from each time on
   */
  constructor(timesS, values) {
    this.timesS = timesS;
    this.values = values;
    /** Integral from the first time up to each time. */
    this.sums = new Float64Array(values.length);
    for (let at = 1; at < values.length; at += 1) {
      this.sums[at] = this.sums[at - 1] + values[at - 1] * (timesS[at] - timesS[at - 1]);
    }
    this.#summarise();
  }

  #summarise() {
    const blocks = Math.ceil(this.values.length / BLOCK_STEPS);
    this.blockLeast = new Float64Array(blocks).fill(Infinity);
    this.blockGreatest = new Float64Array(blocks).fill(-Infinity);
    this.values.forEach((value, at) => {
      const block = Math.floor(at / BLOCK_STEPS);
      if (value < this.blockLeast[block]) this.blockLeast[block] = value;
      if (value > this.blockGreatest[block]) this.blockGreatest[block] = value;
    });
    /** The greatest value; 0 if there is none. */
    this.greatest = this.blockGreatest.reduce((most, value) => Math.max(most, value), 0);
  }

  /** Return the number of the last change at or before a time; -1: there is none. */
  indexAt(timeS) {
    let [low, high] = [0, this.timesS.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.timesS[middle] <= timeS) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Return the value at a time; 0 before the first change. */
  at(timeS) {
    const index = this.indexAt(timeS);
    return index < 0 ? 0 : this.values[index];
  }

  /** Return the integral from the first change up to a time. */
  integralTo(timeS) {
    const index = this.indexAt(timeS);
    if (index < 0) return 0;
    return this.sums[index] + this.values[index] * (timeS - this.timesS[index]);
  }

  /** Return the mean over a span of time. */
  mean(fromS, toS) {
    if (toS <= fromS) return this.at(fromS);
    return (this.integralTo(toS) - this.integralTo(fromS)) / (toS - fromS);
  }

  /** Return least and greatest value in a span of time, with the value at its begin. */
  range(fromS, toS) {
    let at = this.indexAt(fromS);
    const last = this.indexAt(toS);
    let [least, greatest] = at < 0 ? [0, 0] : [Infinity, -Infinity];
    at = Math.max(at, 0);
    while (at <= last) {
      const block = at / BLOCK_STEPS;
      const whole = Number.isInteger(block) && at + BLOCK_STEPS - 1 <= last;
      const [low, high] = whole
        ? [this.blockLeast[block], this.blockGreatest[block]]
        : [this.values[at], this.values[at]];
      if (low < least) least = low;
      if (high > greatest) greatest = high;
      at += whole ? BLOCK_STEPS : 1;
    }
    return [least, greatest];
  }
}

/**
 * Return the step function of sums of changes.
 * @param {Float64Array} timesS time of each change, ascending
 * @param {Float64Array} changes
 * @returns {Steps}
 */
export function stepsOfChanges(timesS, changes) {
  const times = new Float64Array(timesS.length);
  const values = new Float64Array(timesS.length);
  let [count, value] = [0, 0];
  for (let at = 0; at < timesS.length; at += 1) {
    value += changes[at];
    if (count === 0 || timesS[at] !== times[count - 1]) count += 1;
    times[count - 1] = timesS[at];
    values[count - 1] = value;
  }
  return new Steps(times.slice(0, count), values.slice(0, count));
}

/**
 * Return the step function of what comes and goes.
 * @param {{fromS: Float64Array, toS: Float64Array, size: ArrayLike<number>}} spans rows with NaN
 *   in `fromS` never come, those with NaN in `toS` stay
 * @returns {Steps}
 */
export function stepsOfSpans({ fromS, toS, size }) {
  const come = orderOf(fromS);
  const go = orderOf(toS);
  const times = new Float64Array(come.length + go.length);
  const change = new Float64Array(times.length);
  let [first, second] = [0, 0];
  for (let at = 0; at < times.length; at += 1) {
    const comes = second >= go.length
      || (first < come.length && fromS[come[first]] <= toS[go[second]]);
    const row = comes ? come[first] : go[second];
    times[at] = comes ? fromS[row] : toS[row];
    change[at] = comes ? size[row] : -size[row];
    if (comes) first += 1;
    else second += 1;
  }
  return stepsOfChanges(times, change);
}

function orderOf(timesS) {
  const rows = new Uint32Array(timesS.length);
  let count = 0;
  let sorted = true;
  let last = -Infinity;
  for (let row = 0; row < timesS.length; row += 1) {
    if (Number.isNaN(timesS[row])) continue;
    rows[count] = row;
    count += 1;
    if (timesS[row] < last) sorted = false;
    last = timesS[row];
  }
  const found = rows.subarray(0, count);
  return sorted ? found : found.sort((a, b) => timesS[a] - timesS[b] || a - b);
}
