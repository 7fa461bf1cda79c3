/** Labels and positions of simulated times. All charts of a page share them. */

/** Space left and right of the plot of every chart with a time axis, CSS pixels. */
export const PLOT_LEFT = 84;
export const PLOT_RIGHT = 14;

const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86400;
const TICK_STEPS_S = [
  ...[0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_S),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_S),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * DAY_S),
];

/**
 * Return the ticks of a time axis.
 *
 * @param {number} startS
 * @param {number} endS
 * @param {number} most largest number of ticks.
 * @returns {{timeS: number, label: string, major: boolean}[]} major ticks begin a day.
 */
export function timeTicks(startS, endS, most) {
  const shortest = (endS - startS) / Math.max(most, 1);
  let step = TICK_STEPS_S.find((candidate) => candidate >= shortest);
  step ??= 10 ** Math.ceil(Math.log10(shortest / DAY_S)) * DAY_S;
  const ticks = [];
  for (let i = Math.ceil(startS / step - 1e-9); i * step <= endS; i++) {
    const timeS = Number((i * step).toFixed(3));
    const major = timeS % DAY_S === 0;
    ticks.push({ timeS, major, label: tickLabel(timeS, step, major) });
  }
  return ticks;
}

function tickLabel(timeS, step, major) {
  const day = Math.floor(timeS / DAY_S);
  if (step >= DAY_S || (major && timeS !== 0)) return `day ${day}`;
  return clockText(timeS - day * DAY_S, step < MINUTE_S, step < 1);
}

function clockText(timeS, withSeconds, withTenths) {
  const two = (value) => String(value).padStart(2, "0");
  const text = `${two(Math.floor(timeS / HOUR_S))}:${two(Math.floor(timeS / MINUTE_S) % 60)}`;
  if (!withSeconds) return text;
  const seconds = withTenths ? (timeS % 60).toFixed(1).padStart(4, "0") : two(timeS % 60);
  return `${text}:${seconds}`;
}

/** Return a simulated time as text: `day 2, 03:04:05`; day 0 is left out. */
export function timeText(timeS) {
  if (!Number.isFinite(timeS)) return "–";
  const tenths = Math.round(timeS * 10) / 10;
  const day = Math.floor(tenths / DAY_S);
  const time = clockText(tenths - day * DAY_S, true, !Number.isInteger(tenths));
  return day === 0 ? time : `day ${day}, ${time}`;
}

/** Return a duration as text with two units at most: `3 d 4 h`, `12.5 s`. */
export function durationText(durationS) {
  if (!Number.isFinite(durationS)) return "–";
  if (durationS < 0) return `−${durationText(-durationS)}`;
  if (durationS < MINUTE_S) return `${Number(durationS.toFixed(1))} s`;
  const units = [["d", DAY_S], ["h", HOUR_S], ["min", MINUTE_S], ["s", 1]];
  const at = units.findIndex(([, size]) => durationS >= size);
  const [name, size] = units[at];
  const [smaller, smallerSize] = units[at + 1];
  const parts = Math.round(durationS / smallerSize);
  const ratio = size / smallerSize;
  const rest = parts % ratio;
  return `${Math.floor(parts / ratio)} ${name}${rest ? ` ${rest} ${smaller}` : ""}`;
}
