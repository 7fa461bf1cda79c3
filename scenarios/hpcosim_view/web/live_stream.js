/** The stream of a live session: server-sent events with frames. */

import { bytesOfBase64, decodeFrame } from "./frame.js";

/**
 * Follow a session. The browser connects again by itself after a lost connection, and the server
 * then sends only what is new.
 *
 * @param {string} label of the session.
 * @param {object} listeners `frame(frame)`: called in order; `restart()`: the frames begin again;
 *   `end(reason)`: the session is over and complete; `closing()`: the server ends before the
 *   session; `connection(connected)`; `fault(error)`: a frame cannot be read.
 * @returns {function(): void} ends the stream.
 */
export function followSession(label, listeners) {
  const source = new EventSource(`/api/sessions/${encodeURIComponent(label)}/frames`);
  let work = Promise.resolve();
  let isOver = false;
  const then = (act) => {
    work = work.then(() => (isOver ? undefined : act())).catch((error) => {
      stop();
      listeners.fault(error);
    });
  };
  const stop = () => {
    isOver = true;
    source.close();
  };
  const finish = (act) => {
    source.close();
    then(() => {
      stop();
      act();
    });
  };
  source.addEventListener("open", () => listeners.connection(true));
  source.addEventListener("error", () => listeners.connection(false));
  source.addEventListener("message", ({ data }) => {
    then(async () => listeners.frame(await decodeFrame(bytesOfBase64(data))));
  });
  source.addEventListener("restart", () => then(listeners.restart));
  source.addEventListener("end", ({ data }) =>
    finish(() => listeners.end(String(JSON.parse(data)))));
  source.addEventListener("closing", () => finish(listeners.closing));
  return stop;
}

/** Return the sessions of the server, the oldest first; null: the server does not answer. */
export async function fetchSessions() {
  try {
    const reply = await fetch("/api/sessions", { cache: "no-store" });
    return reply.ok ? (await reply.json()).sessions : null;
  } catch {
    return null;
  }
}

/**
 * Change the pace of a session.
 *
 * @param {string} label of the session.
 * @param {object} change `{speed}`, `{paused}` or `{step}`.
 * @returns {Promise<{live: object|null, problem: string}>} the new state, or what went wrong.
 */
export async function sendPace(label, change) {
  try {
    const reply = await fetch(`/api/sessions/${encodeURIComponent(label)}/pace`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(change),
    });
    const answer = await reply.json();
    return reply.ok ? { live: answer, problem: "" } : { live: null, problem: String(answer.error) };
  } catch {
    return { live: null, problem: "the server does not answer" };
  }
}
