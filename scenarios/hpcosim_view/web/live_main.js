/** The live page: follows the sessions of a server. */

import { createStepCharts } from "./charts.js";
import { COLOURINGS, defaultColouring } from "./colours.js";
import { showDetails } from "./details.js";
import { make, makeChoice } from "./dom.js";
import { createGantt } from "./gantt.js";
import { showLegend } from "./legend.js";
import { createPace } from "./live_pace.js";
import { createLivePanels, liveFigures } from "./live_panels.js";
import { fetchSessions, followSession } from "./live_stream.js";
import { createMinimap } from "./minimap.js";
import { RunModel } from "./model.js";
import { observable } from "./observable.js";
import { createTheme } from "./theme.js";
import { createToolbar } from "./toolbar.js";
import { Viewport } from "./viewport.js";

const POLL_MS = 1000;
const MAX_POLL_MS = 30000; // while the server does not answer
const STATES = {
  waiting: "waiting for a scheduler",
  running: "running",
  paused: "paused",
  lost: "connection lost, trying again",
  ended: "ended",
  gone: "the server has ended",
};
const liveElement = (id) => document.getElementById(id);
const liveTheme = createTheme();

/** The head of the page: the session, its state and its figures. */
function createLiveHead(choose) {
  const title = make("h1", { dir: "auto" }, "hpcosim live");
  const status = make("span", { class: "status", role: "status" }, "waiting for a scheduler");
  const sessions = make("div", { class: "sessions" });
  const facts = make("dl", { class: "header-facts" });
  let known = "";
  const notice = make("p", { class: "notice", role: "alert", dir: "auto", hidden: true });
  liveElement("live-header").replaceChildren(
    make("div", { class: "titles" }, title, status), sessions, facts, notice);
  return {
    showSessions(list, label) {
      const text = JSON.stringify([label, list.map((each) => [each.label, each.ended_because])]);
      if (text === known) return; // keep a list that is open
      known = text;
      const choices = list.map((each) => [each.label,
        `${each.scenario}, ${each.scheduler} (${each.label})${each.ended_because ? ", ended" : ""}`]);
      sessions.replaceChildren(...(list.length > 1 ? [makeChoice("Session", choices, label, choose)] : []));
    },
    showState(state, why = "") {
      status.dataset.state = state;
      status.textContent = STATES[state];
      notice.hidden = why === "";
      notice.textContent = why;
    },
    showFigures(model) {
      title.textContent = `${model.about.scenario}, scheduled by ${model.about.scheduler}`;
      document.title = `${title.textContent} – hpcosim live`;
      facts.replaceChildren(...liveFigures(model).map(([name, text]) =>
        make("div", {}, make("dt", {}, name), make("dd", {}, text))));
    },
  };
}

/** Choose a job and show its wait and its run time. */
function jumpToLiveJob(page, model, row) {
  page.selection.set(model.idOf(row));
  const fromS = model.submitS[row];
  const toS = Number.isNaN(model.endS[row]) ? model.nowS : model.endS[row];
  const marginS = Math.max((toS - fromS) * 0.15, 1);
  page.viewport.set(fromS - marginS, toS + marginS);
}

/** Draw a run that has its first frame; return what draws it again, and what removes it. */
function createLiveView(model) {
  const page = {
    viewport: new Viewport(model.beginS, model.nowS),
    selection: observable(null),
    colouring: observable(defaultColouring(model)),
    theme: liveTheme,
    crosshair: observable(null),
  };
  const runs = [{ model, name: String(model.about.scheduler ?? "") }];
  const jump = (row) => jumpToLiveJob(page, model, row);
  const legend = make("div", { class: "legend" });
  const box = make("div", { class: "gantt" });
  liveElement("runs").replaceChildren(
    make("section", { class: "run", "aria-label": "Schedule" },
      make("div", { class: "run-head" }, make("h2", {}, "Schedule"), legend), box));
  const gantt = createGantt(box, model, page.viewport, page);
  const minimap = createMinimap(liveElement("minimap"), model, page.viewport, page);
  const charts = createStepCharts(liveElement("charts"), runs, page.viewport, page);
  const panels = createLivePanels(liveElement("panels"), liveElement("details"), model, jump);
  const toolbar = createToolbar(liveElement("toolbar"), runs, { ...page, colourings: COLOURINGS, jump });
  const drawLegend = () => showLegend(legend, model, page.colouring.get(), liveTheme.get());
  const drawDetails = () => {
    const details = liveElement("details-body");
    panels.place(page.selection.get() !== null);
    if (!details.contains(document.activeElement)) showDetails(details, runs, page.selection.get(), jump);
  };
  const watched = [page.selection.subscribe(drawDetails), page.colouring.subscribe(drawLegend),
    liveTheme.subscribe(drawLegend)];
  return { page, gantt,
    redraw() {
      page.viewport.setLimits(model.beginS, model.nowS);
      for (const part of [gantt, minimap, charts, panels]) part.redraw();
      drawLegend();
      drawDetails();
    },
    destroy() {
      for (const stop of watched) stop();
      for (const part of [gantt, minimap, charts, toolbar]) part.destroy();
      panels.destroy();
    },
  };
}

/** Follow one session until another is chosen. */
function showSession(label, head) {
  let [model, view, pending, state] = [new RunModel(), null, 0, "running"];
  const pace = createPace(liveElement("pace"), label, (live) => {
    model.about.live = live;
    settle(live.paused ? "paused" : "running");
  });
  const settle = (next, why) => {
    state = next;
    head.showState(next, why);
  };
  const draw = () => {
    pending = 0;
    view ??= createLiveView(model);
    view.redraw();
    head.showFigures(model);
    window.hpcosim = { runs: [{ model, gantt: view.gantt }], label, ...view.page };
    performance.mark("hpcosim-painted");
  };
  const finish = (next, why) => {
    pace.disable();
    settle(next, why);
  };
  const unfollow = followSession(label, {
    frame(frame) {
      model.append(frame);
      const { live } = model.about;
      pace.show(live);
      settle(live.paused ? "paused" : "running");
      pending ||= requestAnimationFrame(draw);
    },
    restart() {
      view?.destroy();
      [model, view] = [new RunModel(), null];
    },
    end: (reason) => finish("ended", model.about.complete ? "" : `The session ended: ${reason}`),
    closing: () => finish("gone", "The server has ended. The page keeps what it has received."),
    connection(connected) {
      if (!connected) settle("lost");
      else if (state === "lost") settle(model.about.live?.paused ? "paused" : "running");
    },
    fault: (error) => finish("gone", `A frame cannot be read: ${error.message}. Reload the page.`),
  });
  return () => {
    cancelAnimationFrame(pending);
    unfollow();
    pace.destroy();
    view?.destroy();
  };
}

/** Show the newest session, or the one that is chosen; list the sessions every second. */
function followServer() {
  let [shown, leave, pollMs] = ["", () => {}, POLL_MS];
  const choose = (label) => {
    if (label === shown) return;
    leave();
    shown = label;
    leave = showSession(label, head);
  };
  const head = createLiveHead(choose);
  const poll = async () => {
    const list = await fetchSessions();
    pollMs = list === null ? Math.min(2 * pollMs, MAX_POLL_MS) : POLL_MS;
    if (list?.length) {
      if (!shown) choose(list.at(-1).label);
      head.showSessions(list, shown);
    }
    if (!shown) head.showState(list === null ? "lost" : "waiting");
    setTimeout(poll, pollMs);
  };
  poll();
}

followServer();
