/** When nodes take no jobs, or only some: windows of reservations, and drains. */

const MOST_WINDOWS = 2000;

/**
 * Return the windows of a run up to now, drains last.
 *
 * @param {RunModel} model
 * @returns {{label: string, first: number, last: number, startS: number, endS: number}[]} first and
 *   last node; `endS` is at most now.
 */
export function closuresOf(model) {
  const found = [];
  for (const [name, ranges, startS, endS, repeatS] of model.about.node_reservations ?? []) {
    for (let shiftS = 0; startS + shiftS < model.nowS; shiftS += repeatS) {
      for (const [first, last] of ranges) {
        if (found.length === MOST_WINDOWS) return found;
        found.push({ label: `reserved: ${name}`, first, last, startS: startS + shiftS,
                     endS: Math.min(endS + shiftS, model.nowS) });
      }
      if (!(repeatS > 0)) break;
    }
  }
  return found.concat(drainsOf(model));
}

/** Return the windows in which nodes were drained. */
function drainsOf({ drains, nowS }) {
  const found = [];
  const lasting = new Map();
  for (let i = 0; i < drains.count && found.length < MOST_WINDOWS; i++) {
    const node = drains.node[i];
    if (lasting.has(node)) lasting.get(node).endS = drains.timeS[i];
    lasting.delete(node);
    if (!drains.drained[i]) continue;
    const span = { label: "drained", first: node, last: node, startS: drains.timeS[i], endS: nowS };
    lasting.set(node, span);
    found.push(span);
  }
  return found;
}

/** Return what closes a node at a time, as a text; empty: nothing. */
export function closureAt(model, node, timeS) {
  return closuresOf(model)
    .filter(({ first, last, startS, endS }) => (
      node >= first && node <= last && timeS >= startS && timeS < endS))
    .map(({ label }) => label)
    .join(", ");
}
