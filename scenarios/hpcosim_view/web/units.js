/** Numbers with units, as people read them. */

import { durationText } from "./time_axis.js";

const METRIC_UNITS = { s: "s", w: "W", j: "J", js: "J s", kwh: "kWh", kg: "kg" };
const METRIC_WORDS = { co2: "CO2", edp: "EDP", max: "maximum" };
const NUMBER_FORMATS = [];
export const UNKNOWN_TEXT = "–";

/**
 * Return a number with at most `digits` significant digits and thousands separators.
 * @param {number} value
 * @param {number} digits
 */
export function numberText(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN_TEXT;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) {
    return value.toExponential(digits - 1).replaceAll("-", "−");
  }
  const decimals = size >= 1 ? Math.max(0, digits - 1 - Math.floor(Math.log10(size))) : digits;
  return formatOf(Math.min(decimals, 20)).format(value).replace("-", "−");
}

/** Return the format with this number of decimals at most; making one takes long. */
function formatOf(decimals) {
  NUMBER_FORMATS[decimals] ??= new Intl.NumberFormat("en-US", { maximumFractionDigits: decimals });
  return NUMBER_FORMATS[decimals];
}

/**
 * Return a count with thousands separators.
 * @param {number} count
 */
export function countText(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * Return a count with its noun, `1 job`, `2,000 jobs`.
 * @param {number} count
 * @param {string} noun in singular
 */
export function counted(count, noun) {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Return a difference of durations with its sign.
 * @param {number} differenceS
 */
export function differenceText(differenceS) {
  const sign = differenceS > 0 ? "+" : differenceS < 0 ? "−" : "";
  return `${sign}${durationText(Math.abs(differenceS))}`;
}

/**
 * Return the unit in which values up to `greatest` read well.
 * @param {number} greatest in the base unit
 * @param {Array<[string, number]>} units name and factor, ascending
 * @returns {[string, number]}
 */
export function unitFor(greatest, units) {
  return [...units].reverse().find(([, factor]) => greatest >= factor) ?? units[0];
}

export const POWER_UNITS = [["W", 1], ["kW", 1e3], ["MW", 1e6], ["GW", 1e9]];
const ENERGY_UNITS = [
  ["J", 1], ["Wh", 3.6e3], ["kWh", 3.6e6], ["MWh", 3.6e9], ["GWh", 3.6e12],
];

/**
 * Return a power with a chosen unit.
 * @param {number} powerW
 */
export function powerText(powerW) {
  const [name, factor] = unitFor(Math.abs(powerW), POWER_UNITS);
  return `${numberText(powerW / factor)} ${name}`;
}

/**
 * Return an energy with a chosen unit.
 * @param {number} energyJ
 */
export function energyText(energyJ) {
  if (Number.isNaN(energyJ)) return UNKNOWN_TEXT;
  const [name, factor] = unitFor(Math.abs(energyJ), ENERGY_UNITS);
  return `${numberText(energyJ / factor)} ${name}`;
}

/**
 * Return the unit of a metric from the end of its name; empty: none.
 * @param {string} name such as `mean_wait_s`
 */
export function unitOfMetric(name) {
  return METRIC_UNITS[name.split("_").at(-1)] ?? "";
}

/**
 * Return a metric's name as people read it, without its unit: `mean wait`, `95th-percentile wait`.
 * @param {string} name such as `mean_wait_s`
 */
export function titleOfMetric(name) {
  const words = name.split("_");
  if (words.length > 1 && words.at(-1) in METRIC_UNITS) words.pop();
  return words.map(metricWord).join(" ");
}

function metricWord(word) {
  const percentile = /^p(\d+)$/.exec(word);
  if (percentile) return `${percentile[1]}th-percentile`;
  return METRIC_WORDS[word] ?? word;
}

/**
 * Return round values between two numbers, about `count` of them.
 * @param {number} least
 * @param {number} greatest
 * @param {number} count
 * @returns {number[]} ascending
 */
export function roundSteps(least, greatest, count) {
  const rough = Math.max(greatest - least, 1e-12) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const found = [];
  for (let value = Math.ceil(least / step) * step; value <= greatest + step * 1e-9; value += step) {
    found.push(value);
  }
  return found;
}
