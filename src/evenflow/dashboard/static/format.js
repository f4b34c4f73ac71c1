// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const NONE = "–"; // what is not known

export const known = (value) => value !== null && value !== undefined;

/** A count: 950, 12,345, 1.24 M. */
export function count(value) {
  if (!known(value)) return NONE;
  if (Math.abs(value) >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  return value > 0 && value < 10 && value % 1 ? value.toFixed(1) : whole.format(value);
}

/** Short, for axes: 12 k. */
export function short(value) {
  if (!known(value)) return "";
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e3) return `${+(value / 1e3).toPrecision(3)} k`;
  return `${+value.toPrecision(3)}`;
}

export const percent = (value) => (known(value) ? `${Math.round(100 * value)} %` : NONE);
export const ratio = (value) => (known(value) ? value.toFixed(2) : NONE);
export const times = (value) => (known(value) ? `${value >= 10 ? Math.round(value) : value.toFixed(2)}×` : NONE);

/** Milliseconds, in the unit that fits. */
export function ms(value) {
  if (!known(value)) return NONE;
  if (value >= 60_000) return `${(value / 60_000).toFixed(1)} min`;
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  if (value >= 100) return `${Math.round(value)} ms`;
  return `${value >= 1 ? value.toFixed(1) : value.toFixed(2)} ms`;
}

export const seconds = (value) => (known(value) ? ms(1000 * value) : NONE);

export function bytes(value, nothing = NONE) {
  if (!value) return nothing;
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** power;
  return `${scaled >= 100 || power === 0 ? Math.round(scaled) : scaled.toFixed(1)} ${units[power]}`;
}

const wallClock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** A time of the log: by the wall clock, or for a simulation as minutes and seconds. */
export function clock(time, kind) {
  if (!known(time)) return "";
  if (kind === "wall") return wallClock.format(new Date(1000 * time));
  const total = Math.max(0, Math.floor(time));
  const rest = `${String(Math.floor(total / 60) % 60).padStart(2, "0")}:${String(total % 60).padStart(2, "0")}`;
  return total >= 3600 ? `${Math.floor(total / 3600)}:${rest}` : rest;
}

export const plural = (number, noun) => `${whole.format(number)} ${noun}${number === 1 ? "" : "s"}`;
