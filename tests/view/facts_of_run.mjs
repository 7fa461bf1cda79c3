// Prints what the page computes from the encoded frames named as arguments, as JSON.
import { readFileSync } from "node:fs";

import { waitDifferences, differenceClasses } from "../../scenarios/hpcosim_view/web/compare.js";
import { decodeFrame } from "../../scenarios/hpcosim_view/web/frame.js";
import { RunModel } from "../../scenarios/hpcosim_view/web/model.js";
import { searchJobs } from "../../scenarios/hpcosim_view/web/search.js";
import { energyOfRun, seriesOf } from "../../scenarios/hpcosim_view/web/series.js";
import { MEASURES, bySize, byUser } from "../../scenarios/hpcosim_view/web/statistics.js";
import { longestWaits, waitFacts } from "../../scenarios/hpcosim_view/web/waits.js";

const models = [];
for (const file of process.argv.slice(2)) {
  const model = new RunModel();
  model.append(await decodeFrame(new Uint8Array(readFileSync(file))));
  models.push(model);
}
const [model] = models;
const { queue, held } = seriesOf(model);
const [startS, endS] = [model.beginS, model.nowS];
const differences = models.length > 1 ? waitDifferences(...models) : [];
process.stdout.write(JSON.stringify({
  waits: Array.from(model.id, (_, row) => waitFacts(model, row)),
  longest: longestWaits(model, 7),
  energyJ: energyOfRun(model),
  meanQueue: queue.mean(startS, endS),
  greatestQueue: queue.greatest,
  meanHeld: held.mean(startS, endS),
  rangeHeld: held.range(startS + (endS - startS) / 3, endS - (endS - startS) / 4),
  bySize: bySize(models, MEASURES.wait.of),
  byUser: byUser(models, MEASURES.slowdown.of),
  differences,
  classes: differenceClasses(differences.map(({ differenceS }) => differenceS)),
  found: ["1", "12", "User Two", "completed", "nobody", "Job 12", "job3"].map((text) => searchJobs(model, text, 5)),
}));
