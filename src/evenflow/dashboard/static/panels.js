// The parts of the page that are words and tables.

import { bar, fillTable, keep, make, mark, say } from "./dom.js";
import { bytes, clock, count, known, ms, percent, plural, ratio, seconds, times } from "./format.js";

const SIGNS = { good: "✓", fair: "△", bad: "▲", quiet: "○" };
const get = (id) => document.getElementById(id);

export function showHeadline(headline) {
  const create = () => make("div", { class: "says" }, make("span", { class: "sign", "aria-hidden": "true" }), make("strong"), make("span"));
  keep(get("headline"), headline.map((said, place) => ({ ...said, place })), (said) => said.place, create, (element, said) => {
    mark(element, "data-tone", said.tone);
    const [sign, title, text] = element.children;
    say(sign, SIGNS[said.tone] ?? "○");
    say(title, said.title);
    say(text, said.text);
  });
}

export function showFigures(figures) {
  const shown = [
    ["rows", "Throughput", count(figures.rows_s), "rows/s"],
    ["p50", "Latency, median", ms(figures.p50), ""],
    ["p99", "Latency, 99 %", ms(figures.p99), ""],
    ["imbalance", "Imbalance", ratio(figures.imbalance), ""],
    ["workers", "Workers live", `${figures.live}`, `of ${figures.workers}`],
    ["moved", "Units moved", count(figures.moved), figures.undone ? `${figures.undone} undone` : ""],
    ["refused", "Moves refused", count(figures.refused), ""],
    ["lost", "Workers lost", count(figures.lost), figures.restarts ? plural(figures.restarts, "restart") : ""],
  ].map(([id, name, value, unit]) => ({ id, name, value, unit }));
  const create = (item) => make("div", {}, make("dt", {}, item.name), make("dd", { id: `figure-${item.id}` }, make("span"), make("small")));
  keep(get("figures"), shown, (item) => item.id, create, (element, item) => {
    say(element.lastChild.firstChild, item.value);
    say(element.lastChild.lastChild, item.unit);
  });
}

const WORKER_COLUMNS = [
  { head: "Worker", text: (w) => `${w.id}` },
  { head: "State", text: (w) => w.state + (w.restarts ? `, ${plural(w.restarts, "restart")}` : "") },
  { head: "Executor", text: (w) => (w.executor ? `${w.executor} · ${w.host}` : w.host || "–") },
  { head: "Busy", about: "share of its time that is service time", cell: (cell, w) => bar(cell, w.utilisation, percent(w.utilisation), w.tone) },
  { head: "Rows/s", number: true, text: (w) => count(w.rows_s) },
  { head: "Queue", number: true, about: "rows that wait for it: sent and not answered, or, of a graph, not taken by an operator yet", text: (w) => count(w.queue) },
  { head: "Speed", number: true, about: "against the usual worker", text: (w) => times(w.speed) },
  { head: "In memory", number: true, about: "state in memory", text: (w) => (w.memory ? `${bytes(w.resident || 0, "0")} of ${bytes(w.memory)}` : bytes(w.resident)) },
  { head: "Spilled", number: true, about: "state on disk", text: (w) => bytes(w.spilled) },
  { head: "Waiting", number: true, about: "rows that wait for state on disk", text: (w) => bytes(w.pending) },
];

export function showWorkers(workers) {
  fillTable(get("workers"), WORKER_COLUMNS, workers, (w) => w.id, "No worker has joined yet.");
}

/** What was done, such as "12 units of spending moved", and where, such as "w3 → w5". */
function deed(action) {
  const routes = action.routes.map(([from, to, units]) => `w${from} → w${to}${action.routes.length > 1 ? ` (${units})` : ""}`);
  if (action.more_routes) routes.push(`and ${action.more_routes} more`);
  const where = routes.join(", ");
  const changes = action.changes.map(([worker, before, after]) => `w${worker} ${short(before)} → ${short(after)}`).join(", ");
  switch (action.kind) {
    case "move":
      return [`${plural(action.units, "unit")} of ${action.region} ${action.done < action.units ? "on the way" : "moved"}`, where];
    case "weights":
      return [`Weights of ${action.region} changed`, changes];
    case "refused":
      return [`Refused${action.units ? ` to move ${plural(action.units, "unit")}` : " weights"} of ${action.region}`, where];
    case "undone":
      return [`${plural(action.units, "unit")} of ${action.region} went back`, where];
    default:
      return [`Target of ${action.region}`, ""];
  }
}

const short = (value) => `${+value.toPrecision(3)}`;

function result(action) {
  const [before, after] = action.imbalance;
  const parts = [];
  if (known(action.gain)) parts.push(`${action.gain > 0 ? "+" : ""}${Math.round(100 * action.gain)} % rows/s`);
  if (known(before) && known(after) && before - after > 0.05) parts.push(`imbalance ${ratio(before)} → ${ratio(after)}`);
  return parts.join(", ");
}

/** A list of entries of what was done or went wrong. */
function fill(list, items, key, nothing, write) {
  if (!list.note) {
    list.note = make("p", { class: "empty" }, nothing);
    list.after(list.note);
  }
  list.note.hidden = items.length > 0;
  const create = () =>
    make("li", {}, make("span", { class: "what" }), make("time"), make("span", { class: "why" }), make("span", { class: "gain" }));
  keep(list, items, key, create, (element, item) => {
    const [what, time, why, gain] = element.children;
    const words = write(item);
    say(what, words.what);
    say(time, words.time);
    say(why, words.why);
    say(gain, words.gain ?? "");
    why.hidden = !words.why;
    gain.hidden = !words.gain;
    mark(gain, "data-tone", words.gain?.startsWith("+") ? "good" : "");
    mark(element, "data-tone", words.tone ?? "");
  });
}

export function showActions(actions, kind) {
  const nothing = "Nothing was moved yet. Evenflow moves work when that is worth more than it costs.";
  fill(get("actions"), actions, (a) => `${a.time} ${a.kind} ${a.region}`, nothing, (action) => {
    const took = action.seconds ? `, ${seconds(action.seconds)} at most` : "";
    const size = action.bytes ? `${bytes(action.bytes)}${took}` : "";
    const [what, where] = deed(action);
    return {
      what,
      time: clock(action.time, kind),
      why: [where, action.why, size].filter(Boolean).join(" · "),
      gain: result(action),
      tone: action.kind === "refused" || action.kind === "undone" ? "bad" : "",
    };
  });
}

export function showTroubles(troubles, kind) {
  const key = (t) => `${t.time} ${t.event} ${t.worker ?? ""} ${t.region ?? ""}`;
  fill(get("troubles"), troubles, key, "None. Tasks that fail, and workers that are lost or started again, appear here.", (trouble) => {
    const who = trouble.region ?? (known(trouble.worker) ? `Worker ${trouble.worker}` : "Cluster");
    const more = known(trouble.count) ? ` (${trouble.count})` : known(trouble.epoch) ? ` (batch ${trouble.epoch})` : "";
    return {
      what: `${who}: ${trouble.what}${more}`,
      time: clock(trouble.time, kind),
      why: trouble.why,
      tone: trouble.what === "restarted" ? "" : "bad",
    };
  });
}

const EPOCH_COLUMNS = [
  { head: "Batch", text: (e) => `${e.region} ${e.epoch}`, wrap: true },
  { head: "Took", cell: (cell, e) => bar(cell, e.seconds / e.longest, seconds(e.seconds) + (e.running ? " so far" : ""), "") },
  { head: "Tasks", number: true, text: (e) => `${e.tasks}${e.attempts > 1 ? ` · try ${e.attempts}` : ""}` },
  { head: "Durable", number: true, about: "until it was durable, at the end", text: durable },
];

function durable(epoch) {
  if (epoch.failed) return "given up";
  if (epoch.durable) return `after ${seconds(epoch.durable_s)}`;
  return epoch.running ? "…" : "–";
}

export function showEpochs(epochs) {
  const longest = Math.max(1e-9, ...epochs.map((epoch) => epoch.seconds));
  const key = (e) => `${e.region} ${e.query} ${e.epoch} ${e.began}`;
  fillTable(get("epochs"), EPOCH_COLUMNS, epochs.map((e) => ({ ...e, longest })), key, "No batch of a streaming query yet.");
}
