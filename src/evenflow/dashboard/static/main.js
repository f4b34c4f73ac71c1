// The page: takes frames and history from the server, and shows them.

import { LineChart, retheme, setShared } from "./charts.js";
import { mark, say } from "./dom.js";
import { clock, count, known, ms, percent, ratio } from "./format.js";
import { HeatMap } from "./heat.js";
import { showActions, showEpochs, showFigures, showHeadline, showTroubles, showWorkers } from "./panels.js";
import { RegionPanel } from "./region.js";
import { Replay } from "./replay.js";
import { connect, Past } from "./stream.js";
import { setUpTheme } from "./theme.js";

const get = (id) => document.getElementById(id);
const past = new Past();
const [MANY, CALM_MS] = [30, 1900]; // charts of many steps, and all but the headline of many workers, every other second
let latest = null;
let away = false;

const charts = [
  [new LineChart(get("chart-rows"), [{ label: "rows/s", stroke: "accent", fill: true }], { value: count, min: 0 }), ["rows"]],
  [new LineChart(get("chart-latency"), [{ label: "median", stroke: "accent" }, { label: "99 %", stroke: "second" }], { value: ms, log: true }), ["p50", "p99"]],
  [new LineChart(get("chart-imbalance"), [{ label: "imbalance", stroke: "third", fill: true }], { value: ratio, min: 1 }), ["imbalance"]],
];
const loads = new HeatMap(get("heat-load"), "Load of each worker over time", (share) => `${Math.round(100 * share)} % busy`);
const regions = new RegionPanel(get("tabs"), get("region"), get("more-regions"));
const replay = new Replay({
  slider: get("slider"), shown: get("shown"), live: get("live"), play: get("play"), pace: get("pace"),
  show: (frame, time) => showFrame(frame, time),
  follow: () => latest && showFrame(latest, null),
});

const STATES = {
  live: ["good", "live"],
  quiet: ["fair", "quiet"],
  stopped: ["quiet", "stopped"],
  empty: ["quiet", "waiting for entries"],
};

function showState(frame, time) {
  let [tone, text] = STATES[frame.state] ?? STATES.empty;
  if (frame.state === "live" && frame.clock === "virtual") [tone, text] = ["quiet", "simulated"];
  if (known(frame.reading)) [tone, text] = ["fair", `reading the log, ${percent(frame.reading)}`];
  if (time !== null) [tone, text] = ["fair", "replay"];
  if (away) [tone, text] = ["bad", "no connection"];
  mark(get("state"), "data-tone", tone);
  say(get("state"), text);
  say(get("clock"), clock(frame.time, frame.clock));
  say(get("title"), frame.title ?? "");
  say(get("note"), frame.note ?? "");
  get("note").hidden = !frame.note;
  document.title = `${frame.headline[0].title} · Evenflow`;
}

function showHistory(frame, time) {
  const marks = frame.actions.filter((action) => action.kind === "move" || action.kind === "weights").map((action) => action.time);
  setShared(frame.clock, marks, time);
  const version = `${past.generation} ${past.version} ${time}`;
  const waits = time === null && past.times.length > MANY && performance.now() - showHistory.drawn < CALM_MS;
  if (version === showHistory.version || waits) return;
  showHistory.drawn = performance.now();
  showHistory.version = version;
  for (const [chart, names] of charts) chart.set([past.times, ...names.map((name) => past.column(name))]);
  const numbers = past.numbered("load:");
  loads.draw(past.times, numbers.map((number) => ({ number, figures: past.column(`load:${number}`) })), 1, frame.clock, time);
}

showFrame.listed = showHistory.drawn = -CALM_MS;

/** Show a frame; `time` is that of a replay, null for what is new. */
function showFrame(frame, time) {
  showState(frame, time);
  showHeadline(frame.headline);
  showFigures(frame.figures);
  if (time === null && frame.workers.length >= MANY && performance.now() - showFrame.listed < CALM_MS) return;
  showFrame.listed = performance.now();
  showWorkers(frame.workers);
  regions.show(frame, past, time);
  showActions(frame.actions, frame.clock);
  showEpochs(frame.epochs);
  showTroubles(frame.troubles, frame.clock);
  showHistory(frame, time);
}

setUpTheme(get("theme"), () => {
  retheme();
  regions.clear();
  if (latest) replay.active ? replay.go(replay.time) : showFrame(latest, null);
});

connect({
  history: (news) => past.take(news),
  frame: (frame) => {
    latest = frame;
    replay.extend(frame, past);
    if (!replay.active && !document.hidden) showFrame(frame, null);
  },
  away: () => {
    away = true;
    const since = latest ? `; this is how it was at ${clock(latest.time, latest.clock)}` : "";
    say(get("banner"), `No connection to the server${since}. Trying again.`);
    get("banner").hidden = false;
    if (latest) showState(latest, replay.time);
  },
  here: () => {
    if (!away) return;
    away = false;
    get("banner").hidden = true;
  },
});
document.addEventListener("visibilitychange", () => !document.hidden && latest && !replay.active && showFrame(latest, null));
