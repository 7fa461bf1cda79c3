/** The controls of the pace: speed, pause, single step, from buttons and keys. */

import { make, makeButton } from "./dom.js";
import { sendPace } from "./live_stream.js";
import { durationText } from "./time_axis.js";
import { numberText } from "./units.js";

const LEAST_SPEED = 1e-3;
const GREATEST_SPEED = 1e9;
const SPEED_FACTOR = 2;
const SLOWEST_START = 3600;

/**
 * Create the controls of a session.
 *
 * @param {HTMLElement} container
 * @param {string} label of the session.
 * @param {function(object): void} changed receives the new state: `{speed, paused, ...}`.
 * @returns {{show: function(object): void, disable: function(): void, destroy: function(): void}}
 */
export function createPace(container, label, changed) {
  let live = { speed: null, paused: false };
  let isOver = false;
  const problem = make("span", { class: "problem", role: "alert", hidden: true });
  const speed = make("b", { role: "status" });
  const send = async (change) => {
    if (isOver) return;
    const answer = await sendPace(label, change);
    problem.hidden = answer.problem === "";
    problem.textContent = answer.problem;
    if (answer.live) {
      show(answer.live);
      changed(answer.live);
    }
  };
  const acts = {
    pause: () => send({ paused: !live.paused }),
    step: () => send({ step: 1 }),
    slower: () => send({ speed: slowerSpeed(live.speed) }),
    faster: () => send({ speed: fasterSpeed(live.speed) }),
    greatest: () => send({ speed: null }),
  };
  const buttons = paceButtons(acts);
  const show = (next) => {
    live = next;
    buttons.pause.textContent = live.paused ? "Resume" : "Pause";
    buttons.greatest.setAttribute("aria-pressed", String(live.speed === null));
    speed.textContent = speedText(live.speed);
  };
  const disable = () => {
    isOver = true;
    for (const button of Object.values(buttons)) button.disabled = true;
  };
  const press = (event) => pressPaceKey(event, acts);
  document.addEventListener("keydown", press);
  container.replaceChildren(...Object.values(buttons), speed, problem);
  show(live);
  const destroy = () => {
    document.removeEventListener("keydown", press);
    container.replaceChildren();
  };
  return { show, disable, destroy };
}

function paceButtons(acts) {
  const button = (text, act, keys, title) =>
    makeButton(text, act, { title: `${title} (${keys})`, "aria-keyshortcuts": keys });
  return {
    pause: button("Pause", acts.pause, "Space", "Pause or resume"),
    step: button("Step", acts.step, "n", "Run to the next decision of the scheduler, and pause"),
    slower: button("Slower", acts.slower, "-", "Half the speed"),
    faster: button("Faster", acts.faster, "+", "Twice the speed"),
    greatest: button("Maximum", acts.greatest, "m", "As fast as possible"),
  };
}

function pressPaceKey(event, acts) {
  const target = event.target.tagName ?? "";
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target) || event.target.closest?.("dialog")) return;
  if (event.key === " " && /^(BUTTON|SUMMARY|A)$/.test(target)) return; // it presses that one
  const name = { " ": "pause", "n": "step", ".": "step", "+": "faster", "=": "faster",
    "-": "slower", "m": "greatest" }[event.key];
  if (name === undefined || (event.repeat && name !== "step")) return;
  event.preventDefault();
  acts[name]();
}

/** Return half a speed; half of the greatest is an hour a second. */
function slowerSpeed(speed) {
  return speed === null ? SLOWEST_START : Math.max(LEAST_SPEED, speed / SPEED_FACTOR);
}

/** Return twice a speed; null: as fast as possible. */
function fasterSpeed(speed) {
  const next = speed === null ? null : speed * SPEED_FACTOR;
  return next === null || next > GREATEST_SPEED ? null : next;
}

/** Return a speed as text, such as `1 h a second`. */
function speedText(speed) {
  if (speed === null || speed === undefined) return "as fast as possible";
  return `${speed >= 1 ? durationText(speed) : `${numberText(speed)} s`} a second`;
}
