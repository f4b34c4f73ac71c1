// The time slider: at its right end the page shows what is new, elsewhere what was.

import { clock } from "./format.js";
import { frameAt } from "./stream.js";

const STEP_MS = 500;
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

export class Replay {
  constructor({ slider, shown, live, play, pace, show, follow }) {
    Object.assign(this, { slider, shown, live, play, pace, show, follow, time: null, times: [], first: 0, latest: 0, kind: "virtual" });
    slider.addEventListener("input", () => this.go(Number(slider.value)));
    slider.addEventListener("keydown", (event) => {
      const way = STEPS[event.key];
      if (!way) return;
      event.preventDefault();
      this.step(way);
    });
    live.addEventListener("click", () => this.end());
    play.addEventListener("click", () => (this.timer ? this.pause() : this.start()));
  }

  get active() {
    return this.time !== null;
  }

  /** A new frame has come: the slider grows. */
  extend(frame, past) {
    if (frame.first === null) return;
    this.first = past.times[0] ?? frame.first;
    this.latest = Math.max(frame.heard, past.times.at(-1) ?? 0);
    this.kind = frame.clock;
    this.times = past.times;
    this.slider.min = this.first;
    this.slider.max = this.latest;
    if (!this.active) this.slider.value = this.latest;
    this.label();
  }

  label() {
    const time = this.time ?? this.latest;
    const text = clock(time, this.kind);
    if (this.shown.value !== text) this.shown.value = text;
    this.slider.setAttribute("aria-valuetext", this.active ? text : `${text}, the latest`);
    this.live.disabled = !this.active;
  }

  /** One step of the history back or forth; after the last one comes what is new. */
  step(way) {
    const now = this.time ?? this.latest;
    const next = way > 0 ? this.times.find((time) => time > now) : this.times.findLast((time) => time < now);
    if (next === undefined) return way > 0 ? this.end() : undefined;
    this.slider.value = next;
    return this.go(next);
  }

  async go(time) {
    this.time = time;
    this.label();
    if (this.asking) return; // the answer is followed by the next question
    this.asking = true;
    let asked = null;
    while (this.active && asked !== this.time) {
      asked = this.time;
      const frame = await frameAt(asked);
      if (frame && this.active) this.show(frame, asked);
    }
    this.asking = false;
  }

  end() {
    this.pause();
    this.time = null;
    this.slider.value = this.latest;
    this.label();
    this.follow();
  }

  start() {
    if (!this.active || this.time >= this.latest) this.time = this.first;
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => {
      const next = this.time + (STEP_MS / 1000) * Number(this.pace.value);
      if (next >= this.latest) return this.end();
      this.slider.value = next;
      return this.go(next);
    }, STEP_MS);
    this.go(this.time);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", "Play from here");
  }
}
