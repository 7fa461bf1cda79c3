// Colourings: classes, legends and palettes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { COLOURINGS, defaultColouring } from "../../scenarios/hpcosim_view/web/colours.js";
import {
  categoryPalette, luminance, sequencePalette, textColourOn,
} from "../../scenarios/hpcosim_view/web/palettes.js";
import { modelOf } from "./encoded_frames.mjs";
import { randomRun } from "./random_run.mjs";

const contrast = (a, b) => {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
};

test("a legend has the colour and the number of jobs of each class that occurs", () => {
  const model = randomRun(500, 3);
  for (const [name, { colourOf, legend }] of Object.entries(COLOURINGS)) {
    for (const theme of ["light", "dark"]) {
      const jobs = new Map();
      for (let row = 0; row < model.jobs; row++) {
        const colour = colourOf(model, row, theme);
        jobs.set(colour, (jobs.get(colour) ?? 0) + 1);
      }
      const entries = legend(model, theme);
      assert.deepEqual(new Map(entries.map((entry) => [entry.colour, entry.jobs])),
        jobs.size === entries.length ? new Map(entries.map(({ colour }) =>
          [colour, jobs.get(colour)])) : null, name);
      assert.ok(entries.every(({ label }) => label.length > 0));
    }
  }
});

test("frequent users have a colour of their own, the others share one", () => {
  const model = randomRun(280, 3);
  const labels = COLOURINGS.user.legend(model).map(({ label }) => label);
  assert.equal(labels.length, 10);
  assert.deepEqual(labels.slice(-1), ["others"]);
  assert.equal(new Set(labels).size, 10);
});

test("classes of size, wait and energy have bounds that belong to the lower class", async () => {
  const model = await modelOf("whole");
  const labelOf = (name, row) => {
    const colour = COLOURINGS[name].colourOf(model, row);
    return COLOURINGS[name].legend(model).find((entry) => entry.colour === colour).label;
  };
  assert.deepEqual([0, 1, 2].map((row) => labelOf("size", row)), ["5–16", "5–16", "1 core"]);
  assert.deepEqual([0, 1].map((row) => labelOf("wait", row)), ["no wait", "up to 1 min"]);
  assert.deepEqual([0, 1].map((row) => labelOf("energy", row)), ["up to 1 Wh", "unknown"]);
  assert.deepEqual([0, 1, 2].map((row) => labelOf("state", row)),
    ["completed", "running", "rejected"]);
  assert.deepEqual([0, 1].map((row) => labelOf("partition", row)), ["unknown", "p"]);
});

test("the default colouring is by user if there are several", async () => {
  assert.equal(defaultColouring(await modelOf("whole")), "user");
  assert.equal(defaultColouring(await modelOf("empty")), "size");
});

test("text on every colour has a contrast of 4.5 at least", () => {
  for (const theme of ["light", "dark"]) {
    for (const colour of [...categoryPalette(theme), ...sequencePalette(theme)]) {
      assert.ok(contrast(colour, textColourOn(colour)) >= 4.5, colour);
    }
  }
});
