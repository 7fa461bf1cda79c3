// Colourings: classes, legends and palettes.
import assert from "node:assert/strict";
import { test } from "node:test";

import { COLOURINGS, defaultColouring, shareColours } from "../../scenarios/hpcosim_view/web/colours.js";
import {
  categoryPalette, luminance, rgbOf, sequencePalette, statePalette, textColourOn,
} from "../../scenarios/hpcosim_view/web/palettes.js";
import { RunModel } from "../../scenarios/hpcosim_view/web/model.js";
import { modelOf } from "./encoded_frames.mjs";
import { randomFrame, randomNumbers, randomRun } from "./random_run.mjs";

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

/** Return a run with jobs of these sizes. */
function runOfSizes(...sizes) {
  const frame = randomFrame(sizes.length, randomNumbers(5));
  frame.columns["job.cores"] = Int32Array.from(sizes);
  const model = new RunModel();
  model.append(frame);
  return model;
}

test("few classes of a quantity have colours that differ much from each other and the page", () => {
  for (const [theme, page] of [["light", "#ffffff"], ["dark", "#0d1117"]]) {
    for (const sizes of [[1], [1, 3], [1, 3, 9], [3, 9, 30, 99]]) {
      const entries = COLOURINGS.size.legend(runOfSizes(...sizes), theme);
      const colours = entries.map(({ colour }) => colour);
      assert.equal(new Set(colours).size, sizes.length);
      colours.forEach((colour) => assert.ok(contrast(colour, page) > 1.8, colour));
      colours.slice(1).forEach((colour, at) =>
        assert.ok(contrast(colour, colours[at]) > 1.6, `${theme} ${colours[at]} ${colour}`));
    }
  }
});

test("compared runs share the colours of classes", () => {
  const models = [runOfSizes(1, 3), runOfSizes(3, 9, 30)];
  shareColours(models);
  const colours = models.map((model) => new Map(COLOURINGS.size.legend(model)
    .map(({ label, colour }) => [label, colour])));
  assert.equal(colours[0].get("2–4"), colours[1].get("2–4"));
  assert.equal(new Set([...colours[0].values(), ...colours[1].values()]).size, 4);
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

// G. M. Machado et al. (2009), dichromats: matrices of linear RGB.
const DEFICIENCIES = {
  none: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881]],
};

/** Return a colour as it is seen, in Oklab (B. Ottosson, 2020). */
function seen(colour, matrix) {
  const linear = rgbOf(colour).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const times = (rows, vector) => rows.map((row) =>
    row.reduce((sum, factor, at) => sum + factor * vector[at], 0));
  const cones = times([[0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]],
  times(matrix, linear).map((part) => Math.min(Math.max(part, 0), 1)));
  return times([[0.2104542553, 0.793617785, -0.0040720468],
    [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]],
  cones.map(Math.cbrt));
}

test("colours of a palette differ for colour-blind people", () => {
  for (const theme of ["light", "dark"]) {
    const palettes = [categoryPalette(theme), sequencePalette(theme).slice(0, -1),
      statePalette(theme).slice(1)];
    for (const palette of palettes) {
      for (const [name, matrix] of Object.entries(DEFICIENCIES)) {
        const places = palette.map((colour) => seen(colour, matrix));
        places.forEach((a, at) => places.slice(at + 1).forEach((b, next) => {
          const distance = Math.hypot(...a.map((part, axis) => part - b[axis]));
          assert.ok(distance > 0.045,
            `${theme} ${name} ${palette[at]} ${palette[at + 1 + next]} ${distance}`);
        }));
      }
    }
  }
});
