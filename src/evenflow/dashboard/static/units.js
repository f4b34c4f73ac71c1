// The map of units: a block for each worker, a square for each of its units. A unit that moves is seen to fly.

import { inView, make, watch } from "./dom.js";
import { colour } from "./theme.js";

const FLIGHT_MS = 600;
const FRAME_MS = 40;
const HEAT_MS = 5000;
const MOST_FLIGHTS = 300;
const HEAD = 16;
const GAP = 8;
const dense = () => window.devicePixelRatio || 1;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Owners by unit, from two bytes each in base 64; 65535 is nobody. */
export function decode(text) {
  const raw = atob(text);
  const owners = new Uint16Array(raw.length / 2);
  for (let unit = 0; unit < owners.length; unit += 1) {
    owners[unit] = raw.charCodeAt(2 * unit) | (raw.charCodeAt(2 * unit + 1) << 8);
  }
  return owners;
}

export class UnitMap {
  constructor(parent) {
    this.parent = parent;
    this.canvas = make("canvas", { role: "img" });
    this.ground = document.createElement("canvas");
    parent.append(this.canvas);
    this.flights = [];
    this.marked = 0;
    this.observer = new ResizeObserver(() => this.owners && this.arrange(true));
    this.observer.observe(parent);
    watch(parent, () => this.owners && this.arrange(false));
  }

  drop() {
    this.observer.disconnect();
    this.flights = [];
  }

  /** Show where units are; while nothing moves, and it is `calm`, the hottest are marked anew every few seconds. */
  show(region, workers, calm) {
    const heat = new Map(region.hottest.map(({ unit, rows_s }) => [unit, rows_s]));
    const moving = new Map(region.moving);
    const places = region.owners + workers.length + JSON.stringify([...moving]);
    const hot = String([...heat.keys()].sort());
    const rests = hot === this.hot || (calm && performance.now() - this.marked < HEAT_MS);
    if (places === this.places && rests) return;
    Object.assign(this, { places, hot, marked: performance.now() });
    const owners = decode(region.owners);
    const before = this.owners?.length === owners.length ? this.owners : null;
    Object.assign(this, { heat, moving, owners, hottest: Math.max(1, ...heat.values()) });
    const names = workers.map((worker) => worker.id);
    const moved = before ? [...owners.keys()].filter((unit) => before[unit] !== owners[unit]) : [];
    const jump = !before || moved.length > MOST_FLIGHTS || String(names) !== String(this.names);
    this.names = names;
    if (jump) this.place();
    else moved.forEach((unit) => this.change(unit, before[unit]));
    this.arrange(jump);
    const counts = names.map((name) => `worker ${name} ${this.slots.get(name)?.filter((u) => u !== null).length ?? 0}`);
    this.canvas.setAttribute("aria-label", `Units by worker: ${counts.join(", ")}`);
    this.canvas.dataset.moved = Number(this.canvas.dataset.moved ?? 0) + moved.length;
  }

  /** Every unit gets a place in the block of its owner. */
  place() {
    this.slots = new Map(this.names.map((name) => [name, []]));
    this.at = new Map();
    this.flights = [];
    this.owners.forEach((owner, unit) => this.add(unit, owner));
  }

  add(unit, owner) {
    const slots = this.slots.get(owner);
    if (!slots) return;
    let free = slots.indexOf(null);
    if (free < 0) free = slots.length;
    slots[free] = unit;
    this.at.set(unit, [owner, free]);
  }

  /** A unit has another owner: it leaves its place for one there, on a flight. */
  change(unit, before) {
    const from = this.at.get(unit);
    if (from) this.slots.get(before)[from[1]] = null;
    this.at.delete(unit);
    this.add(unit, this.owners[unit]);
    const to = this.at.get(unit);
    if (from && to && !still.matches) this.flights.push({ unit, from, to, began: performance.now() });
  }

  /** Sizes of blocks and squares, so that all fit the width. */
  arrange(anew) {
    const width = this.parent.clientWidth;
    if (!width || !this.names.length) return;
    const most = Math.max(1, ...[...this.slots.values()].map((slots) => slots.length));
    if (anew || !this.layout || most > this.layout.room || width !== this.layout.width) {
      const room = Math.ceil(most * 1.15) + 2;
      let best = null;
      for (let columns = 1; columns <= Math.min(16, this.names.length); columns += 1) {
        const block = Math.floor((width - GAP * (columns - 1)) / columns);
        for (let size = 16; size >= 3; size -= 1) {
          const across = Math.floor((block - 8) / size);
          if (across < 1) continue;
          const deep = Math.ceil(room / across);
          const lines = Math.ceil(this.names.length / columns);
          const height = lines * (HEAD + deep * size + 10 + GAP);
          if (height > 430 && size > 3) continue;
          if (!best || size > best.size || (size === best.size && height < best.height)) {
            best = { columns, block, size, across, deep, height, room, width };
          }
          break;
        }
      }
      if (!best) return;
      this.layout = best;
      this.canvas.width = Math.round(width * dense());
      this.canvas.height = Math.round(best.height * dense());
      this.canvas.style.height = `${best.height}px`;
    }
    this.draw();
  }

  corner(name) {
    const { columns, block, deep, size } = this.layout;
    const place = this.names.indexOf(name);
    return [(place % columns) * (block + GAP), Math.floor(place / columns) * (HEAD + deep * size + 10 + GAP)];
  }

  spot([name, slot]) {
    const [x, y] = this.corner(name);
    const { across, size } = this.layout;
    return [x + 4 + (slot % across) * size, y + HEAD + 4 + Math.floor(slot / across) * size];
  }

  draw() {
    this.stale = true;
    if (inView(this.parent)) this.next();
    else this.flights = [];
  }

  next() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame((now) => {
      this.waiting = false;
      this.paint(now);
      if (this.flights.length) setTimeout(() => this.next(), FRAME_MS);
    });
  }

  /** What stands still is drawn once, and copied while units fly over it. */
  paint(now) {
    const { canvas, ground } = this;
    const landed = this.flights.filter((flight) => now - flight.began >= FLIGHT_MS);
    if (landed.length) {
      this.flights = this.flights.filter((flight) => !landed.includes(flight));
      this.stale = true;
    }
    if (this.stale) {
      this.stale = false;
      ground.width = canvas.width;
      ground.height = canvas.height;
      this.paintGround(ground.getContext("2d"));
    }
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(ground, 0, 0);
    context.scale(dense(), dense());
    for (const { unit, from, to, began } of this.flights) {
      const part = Math.max(0, Math.min(1, (now - began) / FLIGHT_MS));
      const eased = part < 0.5 ? 2 * part * part : 1 - (2 - 2 * part) ** 2 / 2;
      const [[fromX, fromY], [toX, toY]] = [this.spot(from), this.spot(to)];
      this.square(context, unit, fromX + eased * (toX - fromX), fromY + eased * (toY - fromY), 2);
    }
  }

  paintGround(context) {
    const { block, deep, size } = this.layout;
    context.scale(dense(), dense());
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    for (const name of this.names) {
      const [x, y] = this.corner(name);
      context.fillStyle = colour("block");
      context.fillRect(x, y + HEAD, block, deep * size + 8);
      context.fillStyle = colour("muted");
      const owned = this.slots.get(name).filter((unit) => unit !== null).length;
      context.fillText(block > 74 ? `w${name} · ${owned}` : `w${name}`, x, y + 2);
    }
    const flying = new Set(this.flights.map((flight) => flight.unit));
    const special = new Set([...this.heat.keys(), ...this.moving.keys()]);
    const edge = this.edge();
    context.fillStyle = colour("unit");
    for (const [unit, spot] of this.at) {
      if (flying.has(unit) || special.has(unit)) continue;
      const [x, y] = this.spot(spot);
      context.fillRect(x, y, edge, edge);
    }
    for (const unit of special) {
      const spot = this.at.get(unit);
      if (spot && !flying.has(unit)) this.square(context, unit, ...this.spot(spot), 0);
    }
  }

  edge() {
    const { size } = this.layout;
    return Math.max(2, size - (size > 5 ? 2 : 1));
  }

  /** A unit that is hot, under way or flying. */
  square(context, unit, x, y, grown) {
    const [heat, edge] = [this.heat.get(unit), this.edge()];
    context.fillStyle = colour(heat !== undefined ? "second" : grown ? "accent" : "unit");
    context.globalAlpha = heat === undefined ? 1 : 0.45 + 0.55 * (heat / this.hottest);
    context.fillRect(x - grown, y - grown, edge + 2 * grown, edge + 2 * grown);
    context.globalAlpha = 1;
    if (!this.moving.has(unit)) return;
    context.strokeStyle = colour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(x - 0.5, y - 0.5, edge + 1, edge + 1);
  }
}
