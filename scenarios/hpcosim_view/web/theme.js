// Light and dark: as the system wants it, or as chosen.

import { observable } from "./observable.js";

const DARK_SYSTEM = "(prefers-color-scheme: dark)";

/**
 * Return the theme of the page, `light` or `dark`, as an observable that follows the system until a
 * theme is set, and shows the light one in print.
 */
export function createTheme() {
  const system = window.matchMedia(DARK_SYSTEM);
  const theme = observable(system.matches ? "dark" : "light");
  const show = (name) => { document.documentElement.dataset.theme = name; };
  let chosen = false;
  show(theme.get());
  theme.subscribe(show);
  system.addEventListener("change", () => {
    if (!chosen) theme.set(system.matches ? "dark" : "light");
  });
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = theme.get();
    theme.set("light");
  });
  window.addEventListener("afterprint", () => { if (before) theme.set(before); });
  const toggle = () => {
    chosen = true;
    theme.set(theme.get() === "dark" ? "light" : "dark");
  };
  return { ...theme, toggle };
}
