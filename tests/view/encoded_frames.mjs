// Frames that `test_viewer_modules.py` wrote.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { decodeFrame } from "../../scenarios/hpcosim_view/web/frame.js";
import { RunModel } from "../../scenarios/hpcosim_view/web/model.js";

/** Return the bytes of an encoded frame. */
export function encoded(name) {
  return new Uint8Array(readFileSync(join(process.env.HPCOSIM_FRAMES, `${name}.hpcf`)));
}

/** Return the model of frames. */
export async function modelOf(...names) {
  const model = new RunModel();
  for (const name of names) model.append(await decodeFrame(encoded(name)));
  return model;
}
