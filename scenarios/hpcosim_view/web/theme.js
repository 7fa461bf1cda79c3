/** Light and dark: as the system asks for, or as chosen. */

import { systemTheme } from "./system_theme.js";

/**
 * Return the theme of the page, an observable of "light" or "dark" with the function `toggle`. The
 * page is light in print.
 */
export function createTheme() {
  const theme = systemTheme();
  const show = (name) => { document.documentElement.dataset.theme = name; };
  show(theme.get());
  theme.subscribe(show);
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = theme.get();
    theme.set("light");
  });
  window.addEventListener("afterprint", () => { if (before) theme.set(before); });
  return { ...theme, toggle: () => theme.set(theme.get() === "dark" ? "light" : "dark") };
}
