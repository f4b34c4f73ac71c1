// A picture of one figure by worker and time: a row a worker, a column a step, darker is more.

import { clock } from "./format.js";
import { colour } from "./theme.js";
import { inView, make, say, watch } from "./dom.js";

const ROW = 16;
const MOST = 300;
const LABEL = 30;
const EDGE = 4;

function rgb(text) {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export class HeatMap {
  constructor(parent, label, write) {
    this.canvas = make("canvas", { role: "img", "aria-label": label });
    this.left = make("span");
    this.most = make("span");
    this.middle = make("span", {}, "0", make("i", { class: "ramp", "aria-hidden": "true" }), this.most);
    this.right = make("span");
    parent.replaceChildren(this.canvas, make("div", { class: "scale" }, this.left, this.middle, this.right));
    Object.assign(this, { parent, label, write, image: document.createElement("canvas"), last: null });
    const again = () => this.last && this.draw(...this.last);
    new ResizeObserver(again).observe(parent);
    watch(parent, again);
  }

  /** `rows` are {number, figures}; figures go from 0 to `most`. */
  draw(times, rows, most, kind, shown) {
    this.last = [times, rows, most, kind, shown];
    const width = this.parent.clientWidth;
    if (!width || !times.length || !rows.length || !inView(this.parent)) return;
    const row = Math.max(3, Math.min(ROW, Math.floor(MOST / rows.length)));
    const height = row * rows.length + 2 * EDGE;
    const dense = window.devicePixelRatio || 1;
    const { canvas } = this;
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
      canvas.width = Math.round(width * dense);
      canvas.height = Math.round(height * dense);
      canvas.style.height = `${height}px`;
    }
    this.paint(times, rows, most);
    const context = canvas.getContext("2d");
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, LABEL, EDGE, width - LABEL, height - 2 * EDGE);
    context.fillStyle = colour("muted");
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    const every = Math.ceil(12 / row);
    rows.forEach(({ number }, place) => place % every === 0 && context.fillText(`w${number}`, 0, EDGE + row * (place + 0.5)));
    if (shown !== null) {
      const x = LABEL + ((shown - times[0]) / Math.max(1e-9, times.at(-1) - times[0])) * (width - LABEL);
      context.fillStyle = colour("ink");
      context.fillRect(x, EDGE, 1.5, height - 2 * EDGE);
    }
    say(this.left, clock(times[0], kind));
    say(this.most, this.write(most));
    say(this.right, clock(times.at(-1), kind));
  }

  paint(times, rows, most) {
    const { image } = this;
    image.width = times.length;
    image.height = rows.length;
    const context = image.getContext("2d");
    const pixels = context.createImageData(times.length, rows.length);
    const [low, high] = [rgb(colour("fill")), rgb(colour("accent"))];
    rows.forEach(({ figures }, line) => {
      for (let step = 0; step < times.length; step += 1) {
        const figure = figures[step];
        if (figure === null || figure === undefined) continue;
        const share = Math.max(0, Math.min(1, figure / (most || 1)));
        const at = 4 * (line * times.length + step);
        for (let part = 0; part < 3; part += 1) pixels.data[at + part] = low[part] + share * (high[part] - low[part]);
        pixels.data[at + 3] = 255;
      }
    });
    context.putImageData(pixels, 0, 0);
  }
}
