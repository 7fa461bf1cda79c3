// Decoding of frames that Python encoded.
import assert from "node:assert/strict";
import { test } from "node:test";

import { FrameError, bytesOfBase64, decodeFrame } from "../../scenarios/hpcosim_view/web/frame.js";
import { encoded } from "./encoded_frames.mjs";

test("decoded columns have the elements that Python encoded", async () => {
  const { columns } = await decodeFrame(encoded("noise"));
  for (let row = 0; row < 1000; row++) {
    assert.equal(columns["watts.time_s"][row], ((row * 7919) % 1000) / 7);
    assert.equal(columns["watts.state"][row], (row * 31) % 256);
    assert.equal(columns["watts.power_w"][row], -(2 ** (row % 60)));
    assert.equal(columns["explain.job"][row], row * 7919 * 271 - 2 ** 30);
    assert.equal(columns["explain.reason"][row], (row * 7919) % 65536);
    assert.equal(columns["box.first"][row], 2 ** 32 - 1 - row * 7919);
  }
});

test("integers of 64 bits, NaN and names keep their values", async () => {
  const { about, columns } = await decodeFrame(encoded("first"));
  assert.deepEqual([...columns["job.id"]], [3n, 2n ** 62n]);
  assert.deepEqual([...columns["job.requested_s"]], [100, NaN]);
  assert.deepEqual(about.users, ["<b>ann</b>", "böb"]);
});

test("columns without rows are empty", async () => {
  const { columns } = await decodeFrame(encoded("empty"));
  assert.equal(columns["job.id"].length, 0);
  assert.equal(columns["explain.reason"].length, 0);
});

test("base64 is decoded with and without the function of new browsers", () => {
  const { fromBase64 } = Uint8Array;
  const decoders = [(text) => new Uint8Array(Buffer.from(text, "base64")), undefined];
  for (const decode of decoders) {
    Uint8Array.fromBase64 = decode;
    assert.deepEqual([...bytesOfBase64("AAF//w==")], [0, 1, 127, 255]);
  }
  if (fromBase64) Uint8Array.fromBase64 = fromBase64;
  else delete Uint8Array.fromBase64;
});

test("foreign and damaged bytes give an error that says so", async () => {
  const whole = encoded("whole");
  const damaged = whole.slice();
  damaged[damaged.length - 1] ^= 255;
  const cases = [new Uint8Array(), new TextEncoder().encode("<html>"), whole.subarray(0, 4),
    whole.subarray(0, whole.length - 9), damaged];
  for (const bytes of cases) await assert.rejects(decodeFrame(bytes), FrameError);
});
