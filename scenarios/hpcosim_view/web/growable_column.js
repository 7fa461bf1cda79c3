/** A typed array that grows. */

export class GrowableColumn {
  /** @param {Function} Type a typed array class. */
  constructor(Type) {
    this.buffer = new Type(0);
    /** The elements. Growing replaces it. */
    this.view = this.buffer;
  }

  get length() {
    return this.view.length;
  }

  /** Append elements. The first ones are kept without a copy: do not change them afterwards. */
  push(elements) {
    const length = this.length;
    if (this.buffer.length === 0 && elements instanceof this.buffer.constructor) {
      this.buffer = elements;
      this.view = elements;
      return;
    }
    this.resize(length + elements.length);
    this.buffer.set(elements, length);
  }

  /** Append `count` elements of one value. */
  extend(count, value) {
    const length = this.length;
    this.resize(length + count);
    this.buffer.fill(value, length, length + count);
  }

  resize(length) {
    if (length > this.buffer.length) {
      // The first frame of a results folder has all elements: room for more costs memory.
      const room = this.buffer.length ? Math.max(length, this.buffer.length * 2) : length;
      const larger = new this.buffer.constructor(room);
      larger.set(this.view);
      this.buffer = larger;
    }
    this.view = this.buffer.subarray(0, length);
  }
}
