/** The visible part of an axis: times that all charts share, or the cores of one chart. */

/** An interval within limits that can be zoomed and panned. */
export class Interval {
  /**
   * @param {number} first first value of the limits.
   * @param {number} last last value of the limits.
   * @param {number} smallest the shortest interval that zooming reaches.
   */
  constructor(first, last, smallest) {
    this.smallest = smallest;
    this.listeners = new Set();
    this.limits = { first, last: Math.max(last, first + smallest) };
    this.first = this.limits.first;
    this.last = this.limits.last;
  }

  get length() {
    return this.last - this.first;
  }

  /** Whether the interval is as long as its limits. */
  get fits() {
    return this.first <= this.limits.first && this.last >= this.limits.last;
  }

  /** Show an interval; what is outside the limits is moved or cut. */
  set(first, last) {
    if (this.place(first, last)) this.changed();
  }

  /** Set without a call of the listeners; return whether something changed. */
  place(first, last) {
    const { limits } = this;
    const whole = limits.last - limits.first;
    const length = Math.min(Math.max(last - first, Math.min(this.smallest, whole)), whole);
    const middle = (first + last) / 2;
    let from = last - first === length ? first : middle - length / 2;
    from = Math.min(Math.max(from, limits.first), limits.last - length);
    const to = length === whole ? limits.last : from + length;
    if (!(from < to) || (from === this.first && to === this.last)) return false;
    this.first = from;
    this.last = to;
    return true;
  }

  /**
   * Multiply the length; `at` stays where it is on the screen.
   *
   * @param {number} factor below 1 to zoom in.
   * @param {number} [at] a value; default: the middle.
   */
  zoom(factor, at = (this.first + this.last) / 2) {
    const whole = this.limits.last - this.limits.first;
    const length = Math.min(Math.max(this.length * factor, this.smallest), whole);
    const scale = length / this.length;
    const from = at - (at - this.first) * scale;
    this.set(from, from + length);
  }

  /** Move by an amount. */
  pan(by) {
    this.set(this.first + by, this.last + by);
  }

  /** Show everything. */
  fit() {
    this.set(this.limits.first, this.limits.last);
  }

  /** Move as little as possible so that an interval is visible, with a margin around it. */
  show(first, last) {
    const margin = this.length * 0.05;
    if (last - first + 2 * margin > this.length) {
      const extra = Math.max((last - first) * 0.25, this.smallest / 2);
      this.set(first - extra, last + extra);
    } else if (first - margin < this.first) {
      this.pan(first - margin - this.first);
    } else if (last + margin > this.last) {
      this.pan(last + margin - this.last);
    }
  }

  /**
   * Change the limits. An interval that shows everything goes on to do so; one that ends at the old
   * limit follows it; any other stays where it is.
   */
  setLimits(first, last) {
    const old = this.limits;
    const limits = { first, last: Math.max(last, first + this.smallest) };
    if (limits.first === old.first && limits.last === old.last) return;
    const fits = this.fits;
    const follows = this.last >= old.last;
    const length = this.length;
    this.limits = limits;
    if (fits) this.place(limits.first, limits.last);
    else if (follows) this.place(limits.last - length, limits.last);
    else this.place(this.first, this.last);
    this.changed();
  }

  /**
   * Call a function after each change.
   *
   * @param {function(Interval): void} listener
   * @returns {function(): void} ends the subscription.
   */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed() {
    for (const listener of [...this.listeners]) listener(this);
  }
}

/** The visible time, simulated seconds. `limits` are `{first, last}`. */
export class Viewport extends Interval {
  constructor(startS = 0, endS = 1) {
    super(startS, endS, 0.1);
  }

  get startS() {
    return this.first;
  }

  get endS() {
    return this.last;
  }
}
