/** The theme that the system asks for. */

import { observable } from "./observable.js";

/** Return an observable of "light" or "dark" that follows `prefers-color-scheme`. */
export function systemTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = observable(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => theme.set(dark.matches ? "dark" : "light"));
  return theme;
}
