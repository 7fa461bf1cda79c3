/** Names of nodes from a host list such as `c[01-12],g[1-4]`. */

/**
 * Return the names in a host list, in its order.
 *
 * @param {string} text
 * @param {number} most number of names at most; more are left out.
 * @returns {string[]} empty: the text is no host list.
 */
export function expandHosts(text, most) {
  const found = [];
  for (const item of text.match(/(?:\[[^\]]*\]|[^,[\]])+/g) ?? []) {
    for (const name of namesOfItem(item, most - found.length)) found.push(name);
  }
  return found;
}

/** Return the names of one item: each bracket multiplies them. */
function namesOfItem(item, most) {
  let names = [""];
  for (const [, plain, inside] of item.matchAll(/([^[\]]+)|\[([^\]]*)\]/g)) {
    const endings = plain === undefined ? numbersIn(inside, most) : [plain];
    const longer = [];
    for (const name of names) {
      for (const ending of endings.slice(0, Math.max(most - longer.length, 0))) longer.push(name + ending);
    }
    names = longer;
  }
  return names.slice(0, Math.max(most, 0));
}

/** Return the numbers in a bracket such as `01-12,15`, as long as its first ones. */
function numbersIn(text, most) {
  const found = [];
  for (const part of text.split(",")) {
    const [first, last = first] = part.split("-");
    const end = Number(last);
    for (let number = Number(first); number <= end && found.length < most; number++) {
      found.push(String(number).padStart(first.length, "0"));
    }
  }
  return found;
}
