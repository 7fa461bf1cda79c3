// Search for jobs over the runs of a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { JOB_STATES } from "../../scenarios/hpcosim_view/web/model.js";
import { searchJobs, searchRuns } from "../../scenarios/hpcosim_view/web/search.js";
import { randomRun } from "./random_run.mjs";

const model = (jobs) => {
  const run = randomRun(jobs, 7);
  run.names.users.length = 0;
  return run;
};

test("a search covers all runs, which take turns", () => {
  const runs = [{ model: model(30), name: "easy" }, { model: model(12), name: "fcfs" }];
  const { jobs, total } = searchRuns(runs, "1");
  assert.deepEqual(jobs.slice(0, 4).map(({ run, row }) => `${run.name} ${run.model.id[row]}`),
    ["easy 1", "fcfs 1", "easy 10", "fcfs 10"]);
  assert.equal(total, 11 + 4);
  assert.deepEqual(searchRuns(runs, "25").jobs.map(({ run }) => run.name), ["easy"]);
});

test("killed finds jobs that were killed at their requested time, too", () => {
  const run = model(9);
  run.state[3] = JOB_STATES.indexOf("timeout");
  run.state[5] = JOB_STATES.indexOf("killed");
  assert.deepEqual(searchJobs(run, "killed").rows, [3, 5]);
  assert.deepEqual(searchJobs(run, "timeout").rows, [3]);
});
