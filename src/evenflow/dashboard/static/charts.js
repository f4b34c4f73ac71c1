// Lines over time, drawn by uPlot. All charts share the cursor, the marks of actions, and the time that is shown.

import { inView, make, watch } from "./dom.js";
import { clock, short } from "./format.js";
import { colour } from "./theme.js";

// Okabe and Ito's colours, which people of all kinds of sight tell apart; further lines are dashed.
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#8c564b", "#7f7f7f"];
export const lineColour = (index) => PALETTE[index % PALETTE.length];
const dash = (index) => (index < PALETTE.length ? undefined : [6, 3]);

const charts = new Set();
const shared = { kind: "virtual", marks: [], shown: null };

/** What all charts show beside their lines: the kind of clock, times of actions, and the time shown in a replay. */
export function setShared(kind, marks, shown) {
  const same = shared.kind === kind && shared.shown === shown && shared.marks.join() === marks.join();
  Object.assign(shared, { kind, marks, shown });
  if (!same) for (const chart of charts) chart.redraw();
}

export function retheme() {
  for (const chart of charts) chart.rebuild();
}

function drawMarks(plot) {
  const { ctx, bbox } = plot;
  const line = (time, style, pattern, width) => {
    const x = plot.valToPos(time, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) return;
    ctx.strokeStyle = style;
    ctx.lineWidth = width;
    ctx.setLineDash(pattern);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  };
  ctx.save();
  for (const time of shared.marks) line(time, colour("second"), [3, 4], 1.2);
  if (shared.shown !== null) line(shared.shown, colour("ink"), [], 1.5);
  ctx.restore();
}

export class LineChart {
  /** `lines` are {label, stroke (a name of the theme's colours, or a colour), fill}; `value` writes a figure. */
  constructor(parent, lines, { value, log = false, min = null, nothing = "Nothing was measured yet." }) {
    this.note = make("p", { class: "empty" }, nothing);
    parent.append(this.note);
    Object.assign(this, { parent, lines, value, log, min, plot: null, data: null });
    charts.add(this);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(parent);
    watch(parent, () => this.data && this.set(this.data));
  }

  drop() {
    charts.delete(this);
    this.observer.disconnect();
    this.note.remove();
    this.plot?.destroy();
  }

  size() {
    return { width: Math.max(120, this.parent.clientWidth), height: 164 };
  }

  resize() {
    if (this.plot && Math.abs(this.plot.width - this.size().width) > 1) this.plot.setSize(this.size());
  }

  redraw() {
    if (inView(this.parent)) this.plot?.redraw(false);
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (this.data) this.set(this.data);
  }

  set(data) {
    this.data = data;
    this.note.hidden = data.slice(1).some((column) => column.some((figure) => figure !== null));
    if (data[0].length < 2 || !inView(this.parent)) return;
    if (this.plot) this.plot.setData(data);
    else this.plot = new uPlot(this.options(), data, this.parent);
  }

  options() {
    const paint = (name) => (name.startsWith("#") ? name : colour(name));
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const when = (_plot, times) => times.map((time) => clock(time, shared.kind));
    const floor = this.min;
    const range = (_plot, least, most) => {
      if (least === null || most === null) return [floor ?? 0, (floor ?? 0) + 1];
      const top = most + 0.08 * (most - (floor ?? least)) || most + 1;
      return [floor ?? least, Math.max(top, (floor ?? 0) + 1e-6)];
    };
    return {
      ...this.size(),
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      scales: { x: { time: false }, y: this.log ? { distr: 3 } : { range } },
      axes: [
        { ...axis, values: when, space: 70, size: 26 },
        { ...axis, values: (_plot, values) => values.map((v) => (v === null ? "" : short(v))), size: 46, space: 34 },
      ],
      series: [
        { label: "time", value: (_plot, time) => clock(time, shared.kind) || "–" },
        ...this.lines.map((line, index) => ({
          label: line.label,
          stroke: paint(line.stroke),
          fill: line.fill ? `${paint(line.stroke)}1f` : undefined,
          width: 1.8,
          dash: dash(index),
          points: { show: false },
          value: (_plot, value) => this.value(value),
        })),
      ],
      hooks: { draw: [drawMarks] },
    };
  }
}
