/** The box with text beside the pointer. */

import { CHART_COLOURS } from "./palettes.js";

const DISTANCE = 14;

/**
 * Add a tooltip to a container.
 *
 * @param {HTMLElement} container a positioned element.
 * @returns {{show: function(string[], number, number, string): void, hide: function(): void}}
 *   `show(lines, x, y, theme)` takes a position in the container, CSS pixels.
 */
export function createTooltip(container) {
  const element = document.createElement("div");
  element.className = "gantt-tooltip";
  element.setAttribute("aria-hidden", "true");
  Object.assign(element.style, {
    position: "absolute", left: "0", top: "0", display: "none", pointerEvents: "none",
    maxWidth: "min(32em, 90%)", padding: "6px 9px", borderRadius: "5px", zIndex: "2",
    font: "12px/1.45 system-ui, sans-serif", overflowWrap: "anywhere",
    boxShadow: "0 2px 8px rgba(0, 0, 0, 0.25)", borderStyle: "solid", borderWidth: "1px",
  });
  container.append(element);
  return {
    show(lines, x, y, theme) {
      const colours = CHART_COLOURS[theme];
      element.replaceChildren(...lines.map((line, at) => tooltipLine(line, at === 0)));
      Object.assign(element.style, {
        display: "block", color: colours.text, background: colours.background,
        borderColor: colours.border,
      });
      const { offsetWidth: wide, offsetHeight: high } = element;
      const left = x + DISTANCE + wide > container.clientWidth ? x - DISTANCE - wide : x + DISTANCE;
      const top = Math.min(y + DISTANCE, container.clientHeight - high);
      element.style.transform = `translate(${Math.max(left, 0)}px, ${Math.max(top, 0)}px)`;
    },
    hide() {
      element.style.display = "none";
    },
  };
}

function tooltipLine(text, strong) {
  const line = document.createElement("div");
  line.textContent = text;
  line.dir = "auto";
  if (strong) line.style.fontWeight = "600";
  return line;
}
