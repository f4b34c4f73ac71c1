// One region in detail: connections of an ordered one, units of a keyed one, operators of a graph.

import { LineChart, lineColour } from "./charts.js";
import { bar, fillTable, keep, make, mark, say } from "./dom.js";
import { bytes, count, ms, percent, plural, ratio } from "./format.js";
import { drawGraph } from "./graph.js";
import { HeatMap } from "./heat.js";
import { colour } from "./theme.js";
import { UnitMap } from "./units.js";

const MOST_LINES = 16;

function heading(title, about) {
  return make("h3", {}, title, make("small", {}, about));
}

function facts(parent, pairs) {
  const create = () => make("span", {}, make("span"), make("b"));
  keep(parent, pairs.filter(([, value]) => value), ([name]) => name, create, (element, [name, value]) => {
    say(element.firstChild, `${name} `);
    say(element.lastChild, value);
  });
}

const common = (r) => [
  [r.kind === "graph" ? "placement" : "balance", r.balance],
  ["rows/s", count(r.rows_s)],
  ["rows", count(r.rows)],
  ["p50", r.p50 === null ? "" : ms(r.p50)],
  ["p99", r.p99 === null ? "" : ms(r.p99)],
  ["feeders", `${r.feeders}`],
  ["shed", r.shed ? count(r.shed) : ""],
];

/** Figures by connection over time: lines if there are few, else a picture. */
class Connections {
  constructor(parent, prefix, name, write, label) {
    Object.assign(this, { parent, prefix, name, write, label, numbers: "" });
  }

  drop() {
    this.chart?.drop();
  }

  show(past, kind, shown) {
    const numbers = past.numbered(this.prefix, `:${this.name}`);
    if (String(numbers) !== this.numbers) this.build(numbers);
    const columns = numbers.map((number) => past.column(`${this.prefix}${number}:${this.name}`));
    if (this.chart) this.chart.set([past.times, ...columns]);
    else if (this.heat) {
      const most = Math.max(1e-9, ...columns.flat().filter((figure) => figure !== null));
      this.heat.draw(past.times, numbers.map((number, place) => ({ number, figures: columns[place] })), most, kind, shown);
    }
  }

  build(numbers) {
    this.numbers = String(numbers);
    this.chart?.drop();
    this.chart = this.heat = null;
    this.parent.replaceChildren();
    this.parent.classList.toggle("chart", numbers.length <= MOST_LINES);
    if (!numbers.length) return;
    if (numbers.length > MOST_LINES) this.heat = new HeatMap(this.parent, this.label, this.write);
    else {
      const lines = numbers.map((number, index) => ({ label: `w${number}`, stroke: lineColour(index) }));
      this.chart = new LineChart(this.parent, lines, { value: this.write, min: 0 });
    }
  }
}

class Ordered {
  constructor(parent, name) {
    this.facts = make("p", { class: "facts" });
    const [weights, blocked] = [make("div"), make("div")];
    const left = make("div", {}, heading("Weights", "share of frames by connection, in thousandths"), weights);
    const right = make("div", {}, heading("Blocking rates", "seconds blocked in a second of feeding"), blocked);
    parent.append(this.facts, make("div", { class: "grid two" }, left, right));
    this.parts = [
      new Connections(weights, "weight:", name, (v) => (v === null ? "–" : `${Math.round(v)}`), "Weights by worker and time"),
      new Connections(blocked, "blocked:", name, percent, "Blocking rates by worker and time"),
    ];
  }

  show(region, _workers, past, kind, shown) {
    facts(this.facts, [...common(region), ["splitting", region.splitting]]);
    for (const part of this.parts) part.show(past, kind, shown);
  }

  drop() {
    for (const part of this.parts) part.drop();
  }
}

const HOT_COLUMNS = (most) => [
  { head: "Unit", wrap: true, text: (u) => `${u.unit}${u.key === undefined ? "" : ` · ${u.key}`}` },
  { head: "Worker", text: (u) => (u.worker === null ? "–" : `w${u.worker}`) },
  { head: "Rows/s", cell: (cell, u) => bar(cell, u.rows_s / most(), count(u.rows_s), "bad") },
];

class Keyed {
  constructor(parent) {
    this.facts = make("p", { class: "facts" });
    this.holder = make("div", { class: "units" });
    this.many = make("p", { class: "empty", hidden: "" });
    this.hot = make("table");
    this.most = 1;
    this.columns = HOT_COLUMNS(() => this.most);
    const left = make("div", {}, heading("Units by worker", "a square is a unit, orange the hottest; one that moves flies"), this.holder, this.many);
    const right = make("div", {}, heading("Hottest units", "keys fall on units by their hash"), this.hot);
    parent.append(this.facts, make("div", { class: "grid wide-narrow" }, left, right));
    this.map = new UnitMap(this.holder);
  }

  show(region, workers, _past, _kind, shown) {
    facts(this.facts, [
      ...common(region),
      ["units", count(region.units)],
      ["moved", region.moved ? `${plural(region.moved, "unit")}, ${bytes(region.bytes_moved)}` : "none"],
      ["state", bytes(region.state_bytes)],
      ...Object.entries(region.counts).map(([name, value]) => [name, count(value)]),
    ]);
    this.holder.hidden = !region.owners;
    this.many.hidden = Boolean(region.owners);
    const here = workers.filter((worker) => worker.state === "live" || worker.state === "stopped");
    if (region.owners) this.map.show(region, here, shown === null);
    else say(this.many, region.per_worker.length ? region.per_worker.map(([w, units]) => `w${w} ${count(units)}`).join(" · ") : "No rows yet.");
    this.most = Math.max(1, ...region.hottest.map((unit) => unit.rows_s));
    fillTable(this.hot, this.columns, region.hottest, (u) => u.unit, "No rows yet.");
  }

  drop() {
    this.map.drop();
  }
}

class GraphPanel {
  constructor(parent, name) {
    this.name = name;
    this.facts = make("p", { class: "facts" });
    this.picture = make("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "Operators" });
    const chart = make("div", { class: "chart" });
    this.hosts = make("table");
    const energy = make("div", {}, heading("Energy of the placement", "lower is better"), chart);
    const hosts = make("div", {}, heading("Load of workers", "as the placement sees it; beyond 100 % rows wait"), this.hosts);
    parent.append(this.facts, this.picture, make("div", { class: "grid two" }, energy, hosts));
    this.chart = new LineChart(chart, [{ label: "energy", stroke: "accent" }], { value: (v) => (v === null ? "–" : `${+v.toPrecision(4)}`), min: 0 });
  }

  show(region, _workers, past) {
    facts(this.facts, [
      ...common(region),
      ["results", count(region.results)],
      ["energy", region.energy === null ? "" : `${+region.energy.toPrecision(4)}`],
      ["spread of loads", region.load_std === null ? "" : ratio(region.load_std)],
      ["units moved", `${region.moved}`],
      ["decided", region.why],
    ]);
    drawGraph(this.picture, region, { ink: colour("ink"), muted: colour("muted"), fill: colour("block") });
    this.chart.set([past.times, past.column(`energy:${this.name}`)]);
    const columns = [
      { head: "Worker", text: (h) => `w${h.worker}` },
      { head: "Load", cell: (cell, h) => bar(cell, h.load, percent(h.load), h.load > 1 ? "bad" : "") },
      { head: "A row takes", number: true, text: (h) => `${ratio(h.coefficient)} of the usual` },
    ];
    fillTable(this.hosts, columns, region.hosts, (h) => h.worker, "Nothing was measured yet.");
  }

  drop() {
    this.chart.drop();
  }
}

const KINDS = { ordered: Ordered, keyed: Keyed, graph: GraphPanel };

/** The tabs of all regions, and the panel of the one that was chosen; the latest, as long as nobody chose. */
export class RegionPanel {
  constructor(tabs, parent, more) {
    Object.assign(this, { tabs, parent, more, chosen: null, name: null, panel: null });
  }

  show(frame, past, shown) {
    const { regions } = frame;
    say(this.more, `and ${plural(frame.more_regions, "more region")}, whose last rows are older`);
    this.more.hidden = !frame.more_regions;
    if (!regions.length) {
      this.tabs.replaceChildren();
      this.tabs.kept = null;
      this.clear();
      this.parent.replaceChildren(make("p", { class: "empty" }, "No region yet: ordered_map, keyed, join, detect or run opens one."));
      return;
    }
    this.last = [frame, past, shown];
    const region = regions.find((each) => each.name === this.chosen) ?? regions[0];
    const listed = [...regions].sort((one, other) => (one.name < other.name ? -1 : 1));
    const create = (item) => {
      const button = make("button", { type: "button", role: "tab" });
      button.addEventListener("click", () => {
        this.chosen = item.name;
        this.show(...this.last);
      });
      return button;
    };
    keep(this.tabs, listed, (item) => item.name, create, (button, item) => {
      say(button, `${item.name} · ${item.kind}`);
      mark(button, "aria-selected", String(item === region));
    });
    const id = `${region.kind} ${region.name}`;
    if (id !== this.name) {
      this.clear();
      this.name = id;
      this.panel = new KINDS[region.kind](this.parent, region.name);
    }
    this.panel.show(region, frame.workers, past, frame.clock, shown);
  }

  clear() {
    this.panel?.drop();
    this.panel = this.name = null;
    this.parent.replaceChildren();
  }
}
