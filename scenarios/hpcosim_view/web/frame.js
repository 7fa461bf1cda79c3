/** Decoding of frames. `hpcosim_view/run/frame.py` defines the format. */

const FRAME_FORMAT = 1;
const FRAME_MAGIC = "HPCF";
const FRAME_TYPES = {
  "<i8": BigInt64Array,
  "<f8": Float64Array,
  "<i4": Int32Array,
  "<u4": Uint32Array,
  "<u2": Uint16Array,
  "<u1": Uint8Array,
};

/** The bytes are no frame, are damaged, or have another format. */
export class FrameError extends Error {}

/**
 * Decode a frame.
 *
 * @param {Uint8Array} bytes an encoded frame.
 * @returns {Promise<{about: object, columns: Object<string, ArrayLike>}>} the facts, and a typed
 *   array for each column.
 * @throws {FrameError} the bytes are no frame, are damaged, or have another format.
 */
export async function decodeFrame(bytes) {
  const magic = String.fromCharCode(...bytes.subarray(0, 4));
  if (magic !== FRAME_MAGIC) {
    throw new FrameError(`expected a frame, which begins with ${FRAME_MAGIC}`);
  }
  const body = await inflateFrame(bytes.subarray(4));
  const { header, first } = frameHeader(body);
  if (header.format !== FRAME_FORMAT) {
    throw new FrameError(`the frame has format ${header.format}; expected ${FRAME_FORMAT}`);
  }
  const columns = {};
  let offset = first;
  for (const [name, kind, rows] of header.columns) {
    const Type = FRAME_TYPES[kind];
    if (!Type || !Number.isSafeInteger(rows) || rows < 0) {
      throw new FrameError(`the frame is damaged: it has a column ${name} of type ${kind}`);
    }
    const size = Type.BYTES_PER_ELEMENT * rows;
    if (offset + size > body.length) {
      throw new FrameError(`the frame is damaged: column ${name} is cut off`);
    }
    columns[name] = frameColumn(body.subarray(offset, offset + size), Type, rows);
    offset += size;
  }
  return { about: header.about, columns };
}

/** Return the bytes in a base64 text. */
export function bytesOfBase64(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Return the bytes that zlib compressed. */
async function inflateFrame(bytes) {
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch (error) {
    throw new FrameError(`the frame is damaged: ${error.message}`);
  }
}

/** Return the header and the offset of the first column. */
function frameHeader(body) {
  try {
    const length = new DataView(body.buffer).getUint32(0, true);
    const text = new TextDecoder().decode(body.subarray(4, 4 + length));
    return { header: JSON.parse(text), first: 4 + length };
  } catch (error) {
    throw new FrameError(`the frame is damaged: ${error.message}`);
  }
}

/**
 * Return a column from its bytes ordered by significance, each combined by exclusive or with that
 * of the element before it. Every engine of JavaScript in use is little-endian.
 */
function frameColumn(planes, Type, rows) {
  const size = Type.BYTES_PER_ELEMENT;
  const column = new Type(rows);
  const plane = (at) => planes.subarray(at * rows, (at + 1) * rows);
  if (size < 4) {
    const bytes = new Uint8Array(column.buffer);
    for (let at = 0; at < size; at++) joinPlane(bytes, size, at, plane(at));
    return column;
  }
  const words = new Uint32Array(column.buffer);
  for (let at = 0; at < size; at += 4) {
    joinPlanes(words, size / 4, at / 4, [0, 1, 2, 3].map((byte) => plane(at + byte)));
  }
  return column;
}

function joinPlane(bytes, step, to, plane) {
  let value = 0;
  for (let row = 0; row < plane.length; row++, to += step) bytes[to] = value ^= plane[row];
}

/** The same for four bytes at once. */
function joinPlanes(words, step, to, [lowest, second, third, highest]) {
  let value = 0;
  for (let row = 0; row < lowest.length; row++, to += step) {
    value ^= lowest[row] | (second[row] << 8) | (third[row] << 16) | (highest[row] << 24);
    words[to] = value;
  }
}
