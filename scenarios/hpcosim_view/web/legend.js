/** The legend of a colouring. */

import { COLOURINGS } from "./colours.js";
import { make, makeSwatch } from "./dom.js";
import { counted } from "./units.js";

/**
 * Fill a legend with the classes of a colouring that occur.
 *
 * @param {HTMLElement} container
 * @param {RunModel} model
 * @param {string} name a key of `COLOURINGS`.
 * @param {string} theme
 */
export function showLegend(container, model, name, theme) {
  const items = COLOURINGS[name].legend(model, theme).map(({ label, colour, jobs }) =>
    make("span", { class: "key-item", title: counted(jobs, "job"), dir: "auto" },
      makeSwatch(colour), label));
  const title = make("span", { class: "muted" }, `${COLOURINGS[name].label}:`);
  container.replaceChildren(title, ...items);
}
