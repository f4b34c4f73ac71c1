// The connection to the server: it comes back by itself, and says when it is away.

const AGAIN_MS = 2000;

export function connect({ frame, history, away, here }) {
  let source = null;
  const open = () => {
    source = new EventSource("/api/stream");
    source.addEventListener("frame", (event) => {
      here();
      frame(JSON.parse(event.data));
    });
    source.addEventListener("history", (event) => history(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      away();
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    });
  };
  open();
}

/** The frame of a time in the past; null if the server is away. */
export async function frameAt(time) {
  try {
    const answer = await fetch(`/api/frame?at=${time}`);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

/** The history as the server has it: columns of figures over times. */
export class Past {
  times = [];
  columns = new Map();
  generation = -1;
  version = 0;

  take(news) {
    if (news.generation !== this.generation || news.from !== this.times.length) {
      if (news.from !== 0) return false;
      this.times = [];
      this.columns = new Map();
      this.generation = news.generation;
    }
    const before = this.times.length;
    this.times.push(...news.times);
    for (const name of Object.keys(news.columns)) {
      if (!this.columns.has(name)) this.columns.set(name, new Array(before).fill(null));
    }
    for (const [name, column] of this.columns) {
      column.push(...(news.columns[name] ?? new Array(news.times.length).fill(null)));
    }
    this.version += 1;
    return true;
  }

  column(name) {
    return this.columns.get(name) ?? new Array(this.times.length).fill(null);
  }

  /** Names of columns with a prefix, by the number behind it: "load:3" with "load:" is 3. */
  numbered(prefix, suffix = "") {
    const found = [];
    for (const name of this.columns.keys()) {
      if (!name.startsWith(prefix) || !name.endsWith(suffix)) continue;
      const number = name.slice(prefix.length, name.length - suffix.length);
      if (/^\d+$/.test(number)) found.push(Number(number));
    }
    return found.sort((one, other) => one - other);
  }
}
