// Labels of times and durations.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  durationText,
  timeText,
  timeTicks,
} from "../../scenarios/hpcosim_view/web/time_axis.js";
import { energyText, numberText } from "../../scenarios/hpcosim_view/web/units.js";

test("ticks are round times within the interval, at most as many as asked for", () => {
  for (const span of [0.5, 7, 100, 4000, 9e4, 2e6, 3e8, 1e12]) {
    for (const start of [0, 12.3, 1e6]) {
      const ticks = timeTicks(start, start + span, 8);
      assert.ok(ticks.length <= 9 && ticks.length >= 1, `${span}: ${ticks.length}`);
      assert.ok(ticks.every(({ timeS }) => Math.abs(timeS - start - span / 2) <= span * 0.5000001));
    }
  }
});

test("labels show the hour within a day and the number of the day at its begin", () => {
  const labels = timeTicks(0.8 * 86400, 1.3 * 86400, 6).map(({ label }) => label);
  assert.deepEqual(labels, ["20:00", "22:00", "day 1", "02:00", "04:00", "06:00"]);
  assert.deepEqual(timeTicks(0, 0.2, 2).map(({ label }) => label),
    ["00:00:00.0", "00:00:00.1", "00:00:00.2"]);
});

test("times and durations have readable units", () => {
  assert.equal(timeText(2 * 86400 + 3 * 3600 + 4 * 60 + 5), "day 2, 03:04:05");
  assert.equal(timeText(59.96), "00:01:00");
  assert.equal(timeText(NaN), "–");
  assert.deepEqual([0, 12.34, 60, 3661, 86400 * 3 + 7200].map(durationText),
    ["0 s", "12.3 s", "1 min", "1 h 1 min", "3 d 2 h"]);
  assert.deepEqual([87031, 88198, 86399, 3599.7, 61.2, -90].map(durationText),
    ["1 d 11 min", "1 d 30 min", "1 d", "1 h", "1 min 1 s", "−1 min 30 s"]);
});

test("all negative numbers have the same minus sign", () => {
  assert.deepEqual([durationText(-90), numberText(-1.5), numberText(-2e-7, 3), numberText(-3e15, 2)],
    ["−1 min 30 s", "−1.5", "−2.00e−7", "−3.0e+15"]);
  assert.equal(energyText(-7200), "−2 Wh");
});
