/** Colours of the page, safe for colour blindness, for a light and a dark theme. */

/** Colours of charts by theme. */
export const CHART_COLOURS = {
  light: {
    background: "#ffffff", plot: "#fafafa", text: "#1f2328", faint: "#59636e", grid: "#d9dee3",
    border: "#8c959f", focus: "#0550ae", selected: "#000000", selectedHalo: "#ffffff",
    edge: ["#000000", 0.3], window: "rgba(5, 80, 174, 0.14)", veil: "rgba(255, 255, 255, 0.62)",
    closed: { plot: "#f0f1f3", border: "#cdd2d8" },
  },
  dark: {
    background: "#0d1117", plot: "#151b23", text: "#f0f6fc", faint: "#9198a1", grid: "#2b323b",
    border: "#6e7681", focus: "#79c0ff", selected: "#ffffff", selectedHalo: "#000000",
    edge: ["#0d1117", 0.62], window: "rgba(121, 192, 255, 0.2)", veil: "rgba(13, 17, 23, 0.66)",
    closed: { plot: "#1b222b", border: "#323a45" },
  },
};

/** Colours of nodes by `NODE_STATES`. */
export const NODE_STATE_COLOURS = {
  light: ["#0077bb", "#bbbbbb", "#c8d3e6", "#ee7733", "#ccbb44", "#882255"],
  dark: ["#4aa8e0", "#6e7681", "#33415c", "#ee8866", "#bbaa33", "#cc6688"],
};

// P. Tol, "Colour Schemes", SRON/EPS/TN/09-002: the schemes muted (light) and light (dark).
const CATEGORIES = {
  light: ["#44aa99", "#cc6677", "#ddcc77", "#332288", "#88ccee", "#117733", "#aa4499", "#999933",
    "#882255"],
  dark: ["#44bb99", "#ee8866", "#eedd88", "#77aadd", "#ffaabb", "#aaaa00", "#99ddff", "#bbcc33",
    "#8a63d2"],
};
const NEUTRAL = { light: "#b0b6bd", dark: "#767d86" };

// Viridis by S. van der Walt and N. Smith. Large values differ most from the background.
const SEQUENCE = {
  light: ["#bddf26", "#7ad151", "#40bd72", "#21a585", "#228c8d", "#2f6c8e", "#3e4a89", "#471365"],
  dark: ["#443a83", "#375a8c", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"],
};

// By `JOB_STATES`, from the same schemes.
const STATE_PALETTE = {
  light: ["#dddddd", "#88ccee", "#44aa99", "#ddcc77", "#332288", "#882255", "#666666",
    "#dd7722", "#8899ff", "#7755ff", "#5555aa"],
  dark: ["#555555", "#99ddff", "#77aadd", "#eedd88", "#ffaabb", "#ee8866", "#999999",
    "#9955ff", "#776688", "#6633aa", "#665522"],
};

/** Return the colours of categories by theme; the last one is that of all others. */
export const categoryPalette = (theme) => [...CATEGORIES[theme], NEUTRAL[theme]];
/** Return the colours of classes of a quantity, from small to large, and that of unknown ones. */
export const sequencePalette = (theme) => [...SEQUENCE[theme], NEUTRAL[theme]];
/** Return the colours of `JOB_STATES`. */
export const statePalette = (theme) => STATE_PALETTE[theme];

/** Return the red, green and blue of `#rrggbb`, from 0 to 255. */
export function rgbOf(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Return the red, green and blue of a colour with a share of another one. */
export function mixedColour(colour, other, share) {
  const rest = rgbOf(other);
  return rgbOf(colour).map((part, at) => part * (1 - share) + rest[at] * share);
}

/** Return the relative luminance of `#rrggbb`, from 0 to 1 (WCAG 2.2). */
export function luminance(colour) {
  const [red, green, blue] = rgbOf(colour).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Return black or white, whichever is easier to read on a colour. */
export function textColourOn(colour) {
  return luminance(colour) > 0.179 ? "#000000" : "#ffffff";
}
