/** A picture of rectangles whose colours are mixed by the area that they cover of each pixel. */

// A rectangle with this many pixels in a direction begins and ends at whole pixels.
const SNAP_PX = 4;

/**
 * Rectangles must not overlap. A pixel that one rectangle covers has its colour. A pixel that
 * several cover partly gets the mean of their colours and of the background, weighted by area:
 * rectangles smaller than a pixel are merged, and none is lost. The cost of a rectangle is that of
 * its pixels.
 */
export class Raster {
  /**
   * @param {number} width pixels.
   * @param {number} height pixels.
   */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.bytes = new Uint8ClampedArray(width * height * 4);
    this.pixels = new Uint32Array(this.bytes.buffer);
    // Red, green, blue and area of the pixels that are covered partly.
    this.mixed = new Float32Array(width * height * 4);
    this.touched = new Uint32Array(width * height);
    this.touchedCount = 0;
  }

  /** Fill with a packed colour. */
  clear(background) {
    this.pixels.fill(background);
  }

  /**
   * Draw a rectangle with darker left and top edges where it is large enough for them.
   *
   * @param {number} x0 left edge, pixels; parts outside the picture are cut off.
   * @param {number} y0 top edge.
   * @param {number} x1 right edge.
   * @param {number} y1 bottom edge.
   * @param {number} colour packed colour of the area.
   * @param {number} edge packed colour of the edges.
   * @param {number} thick thickness of the edges, pixels.
   */
  box(x0, y0, x1, y1, colour, edge, thick) {
    if (x1 - x0 >= SNAP_PX) {
      x0 = Math.round(x0);
      x1 = Math.round(x1);
      this.fill(x0, y0, x0 + thick, y1, edge);
      x0 += thick;
    }
    if (y1 - y0 >= SNAP_PX) {
      y0 = Math.round(y0);
      y1 = Math.round(y1);
      this.fill(x0, y0, x1, y0 + thick, edge);
      y0 += thick;
    }
    this.fill(x0, y0, x1, y1, colour);
  }

  /** Draw a rectangle of one colour. */
  fill(x0, y0, x1, y1, colour) {
    if (x0 < 0) x0 = 0;
    if (y0 < 0) y0 = 0;
    if (x1 > this.width) x1 = this.width;
    if (y1 > this.height) y1 = this.height;
    if (!(x0 < x1 && y0 < y1)) return;
    const bottom = Math.ceil(y1);
    for (let y = Math.floor(y0); y < bottom; y++) {
      const share = Math.min(y + 1, y1) - Math.max(y, y0);
      this.fillRow(y * this.width, x0, x1, share, colour);
    }
  }

  /** Draw the part of a rectangle in one row of pixels, of which it covers a share. */
  fillRow(row, x0, x1, share, colour) {
    let left = Math.floor(x0);
    const right = Math.floor(x1);
    if (left === right) {
      this.mix(row + left, (x1 - x0) * share, colour);
      return;
    }
    if (left < x0) {
      this.mix(row + left, (left + 1 - x0) * share, colour);
      left++;
    }
    if (right < x1) this.mix(row + right, (x1 - right) * share, colour);
    if (share >= 1) {
      for (let pixel = row + left; pixel < row + right; pixel++) this.pixels[pixel] = colour;
    } else {
      for (let pixel = row + left; pixel < row + right; pixel++) this.mix(pixel, share, colour);
    }
  }

  mix(pixel, area, colour) {
    const { mixed } = this;
    const at = pixel * 4;
    if (mixed[at + 3] === 0) this.touched[this.touchedCount++] = pixel;
    mixed[at] += (colour & 255) * area;
    mixed[at + 1] += ((colour >>> 8) & 255) * area;
    mixed[at + 2] += ((colour >>> 16) & 255) * area;
    mixed[at + 3] += area;
  }

  /** Draw a rectangle with diagonal stripes; the lower bits of `slope` choose their direction. */
  hatch(x0, y0, x1, y1, colour, stripe, { period, slope }) {
    if (x1 - x0 < SNAP_PX || y1 - y0 < SNAP_PX) {
      this.fill(x0, y0, x1, y1, colour);
      return;
    }
    const left = Math.max(Math.round(x0), 0);
    const right = Math.min(Math.round(x1), this.width);
    const bottom = Math.min(Math.round(y1), this.height);
    for (let y = Math.max(Math.round(y0), 0); y < bottom; y++) {
      const shift = slope * y + period * this.height;
      const row = y * this.width;
      for (let x = left; x < right; x++) {
        this.pixels[row + x] = (x + shift) % period < period / 4 ? stripe : colour;
      }
    }
  }

  /** Mix the pixels that are covered partly; call once, after all rectangles. */
  finish() {
    const { mixed, bytes } = this;
    for (let i = 0; i < this.touchedCount; i++) {
      const at = this.touched[i] * 4;
      const area = mixed[at + 3];
      const scale = area > 1 ? 1 / area : 1;
      const rest = area > 1 ? 0 : 1 - area;
      for (let part = 0; part < 3; part++) {
        bytes[at + part] = mixed[at + part] * scale + bytes[at + part] * rest;
      }
      mixed.fill(0, at, at + 4);
    }
    this.touchedCount = 0;
  }
}

/** Return a colour as a pixel of a picture: red in the lowest byte, opaque. */
export function packedColour([red, green, blue]) {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}
