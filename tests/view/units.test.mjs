// Metrics have names that people read, without the unit, which has its own column.
import assert from "node:assert/strict";
import { test } from "node:test";

import { titleOfMetric, unitOfMetric } from "../../scenarios/hpcosim_view/web/units.js";

test("names of metrics are words without their unit", () => {
  const expected = {
    mean_wait_s: ["mean wait", "s"],
    p95_wait_s: ["95th-percentile wait", "s"],
    max_wait_s: ["maximum wait", "s"],
    energy_kwh: ["energy", "kWh"],
    co2_kg: ["CO2", "kg"],
    edp_js: ["EDP", "J s"],
    jobs_completed: ["jobs completed", ""],
    jobs: ["jobs", ""],
  };
  for (const [name, [title, unit]] of Object.entries(expected)) {
    assert.deepEqual([titleOfMetric(name), unitOfMetric(name)], [title, unit], name);
  }
});
