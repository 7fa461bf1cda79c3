/** A picture of rectangles whose colours are mixed by the area that they cover of each pixel. */

// A rectangle with this many pixels in a direction begins and ends at whole pixels.
const SNAP_PX = 4;
// A rectangle of this height has a left edge.
const EDGE_PX = 1.5;
// Areas are integers, so that sums are exact: this one is a whole pixel. 255 times the area of four
// rectangles fits into 32 bits.
const WHOLE = 2 ** 21;
const NEARLY_WHOLE = WHOLE - 2 ** 10;

/**
 * Rectangles must not overlap. A pixel that one rectangle covers has its colour. A pixel that
 * several cover partly gets the mean of their colours and of the background, weighted by area:
 * rectangles smaller than a pixel are merged, and none is lost.
 *
 * A row of pixels that a rectangle covers partly costs the same for any width: `changes` has the
 * differences of red, green, blue (each times area) and area to the pixel on the left, and `finish`
 * adds them up.
 */
export class Raster {
  /**
   * @param {number} width pixels.
   * @param {number} height pixels.
   */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.pixels = new Uint32Array(width * height);
    /** The picture as bytes of red, green, blue and opacity. */
    this.bytes = new Uint8ClampedArray(this.pixels.buffer);
    // Two pixels beyond each row take the ends of rectangles.
    this.changes = new Int32Array((width + 2) * height * 4);
  }

  /** Begin a picture: fill with a packed colour. */
  clear(background) {
    this.pixels.fill(background);
    this.changes.fill(0);
  }

  /**
   * Draw a rectangle with left and top edges where it is large enough for them.
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
    const leftEdge = x1 - x0 >= SNAP_PX && y1 - y0 >= EDGE_PX;
    const topEdge = y1 - y0 >= SNAP_PX;
    if (topEdge) {
      y0 = Math.round(y0);
      y1 = Math.round(y1);
    }
    if (leftEdge) {
      x0 = Math.round(x0);
      x1 = Math.round(x1);
      this.fill(x0, y0, x0 + thick, y1, edge);
      x0 += thick;
    }
    if (topEdge) {
      this.fill(x0, y0, x1, y0 + thick, edge);
      y0 += thick;
    }
    this.fill(x0, y0, x1, y1, colour);
  }

  /** Draw a rectangle of one colour. */
  fill(x0, y0, x1, y1, colour) {
    const { width, pixels } = this;
    if (x0 < 0) x0 = 0;
    if (y0 < 0) y0 = 0;
    if (x1 > width) x1 = width;
    if (y1 > this.height) y1 = this.height;
    if (!(x0 < x1 && y0 < y1)) return;
    const whole = Math.ceil(x0);
    const wholeEnd = Math.floor(x1);
    for (let y = Math.floor(y0); y < y1; y++) {
      const share = (y + 1 < y1 ? y + 1 : y1) - (y > y0 ? y : y0);
      if (share < 1) {
        this.mix(y, x0, x1, share, colour);
        continue;
      }
      if (whole > wholeEnd) {
        this.mix(y, x0, x1, share, colour);
        continue;
      }
      const end = y * width + wholeEnd;
      for (let pixel = y * width + whole; pixel < end; pixel++) pixels[pixel] = colour;
      if (x0 < whole) this.mix(y, x0, whole, share, colour);
      if (wholeEnd < x1) this.mix(y, wholeEnd, x1, share, colour);
    }
  }

  /** Draw the part of a rectangle in one row of pixels, of which it covers a share. */
  mix(y, x0, x1, share, colour) {
    const left = Math.floor(x0);
    const right = Math.floor(x1);
    const at = (y * (this.width + 2) + left) * 4;
    const area = share * WHOLE;
    const [red, green, blue] = [colour & 255, (colour >>> 8) & 255, (colour >>> 16) & 255];
    if (left === right) {
      const only = Math.round((x1 - x0) * area);
      this.change(at, only, red, green, blue);
      this.change(at + 4, -only, red, green, blue);
      return;
    }
    const first = Math.round((left + 1 - x0) * area);
    const inner = Math.round(area);
    const last = Math.round((x1 - right) * area);
    const end = at + (right - left) * 4;
    this.change(at, first, red, green, blue);
    if (first !== inner) this.change(at + 4, inner - first, red, green, blue);
    this.change(end, last - inner, red, green, blue);
    if (last) this.change(end + 4, -last, red, green, blue);
  }

  change(at, area, red, green, blue) {
    const { changes } = this;
    changes[at] += red * area;
    changes[at + 1] += green * area;
    changes[at + 2] += blue * area;
    changes[at + 3] += area;
  }

  /**
   * Draw a rectangle with stripes of a period in pixels. A slope of 1 or -1 makes them diagonal, 0
   * vertical.
   */
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

  /** Mix the pixels that are covered partly, after all rectangles, once for each row. */
  finish(firstRow = 0, lastRow = this.height) {
    const { width, pixels, changes } = this;
    let pixel = firstRow * width;
    let at = firstRow * (width + 2) * 4;
    for (let y = firstRow; y < lastRow; y++, at += 8) {
      let [red, green, blue, area] = [0, 0, 0, 0];
      for (let x = 0; x < width; x++, at += 4, pixel++) {
        const change = changes[at + 3];
        if (change === 0 && area === 0) continue;
        area += change;
        red += changes[at];
        green += changes[at + 1];
        blue += changes[at + 2];
        if (area > 0) pixels[pixel] = mixedPixel(red, green, blue, area, pixels[pixel]);
      }
    }
  }
}

/** Return the pixel of colours times area on a background. */
function mixedPixel(red, green, blue, area, background) {
  if (area >= NEARLY_WHOLE) {
    const scale = 1 / area;
    return (255 << 24) | ((blue * scale + 0.5) << 16) | ((green * scale + 0.5) << 8) |
      (red * scale + 0.5);
  }
  const rest = 1 - area / WHOLE;
  const mixed = (part, shift) => part / WHOLE + ((background >>> shift) & 255) * rest + 0.5;
  return (255 << 24) | (mixed(blue, 16) << 16) | (mixed(green, 8) << 8) | mixed(red, 0);
}

/** Return a colour as a pixel of a picture: red in the lowest byte, opaque. */
export function packedColour([red, green, blue]) {
  const rest = (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red);
  return ((255 << 24) | rest) >>> 0;
}
