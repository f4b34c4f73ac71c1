"""Event logs for tests of the live page, entry by entry, as the controller writes them."""

import json

START = 1_800_000_000.0
"""The wall clock when the cluster started."""


def entry(time, event, **fields):
    return {"time": time, "at": round(START + time, 3), "event": event, **fields}


def joined(worker, time=0.0, incarnation=1):
    host = f"host-{worker % 3}"
    return entry(time, "worker-joined", worker=worker, incarnation=incarnation, host=host, pid=100 + worker)


def opened(region="orders", units=12, time=0.0):
    return entry(time, "region-opened", region=region, balance="auto", units=units)


def consumer(worker, seconds, busy, row_us=100.0, units=1, **fields):
    """A worker that was busy for a share of the time since it joined."""
    rows = round(seconds * busy * 1e6 / row_us)
    known = {"worker": worker, "units": units, "rows": rows, "bytes": 80 * rows, "seconds": seconds}
    known |= {"busy_s": round(seconds * busy, 6), "idle_s": round(seconds * (1 - busy), 6)}
    return known | {"memory": 0, "resident": 0, "spilled": 0, "pending": 0} | fields


def keyed_sample(time, consumers, region="orders", hottest=(), **fields):
    known = {"feeders": 1, "version": 1, "moving": 0, "moved": 0, "bytes_moved": 0, "state_bytes": 4_000_000}
    listed = {"hottest": [[unit, int(rows)] for unit, rows in hottest], "counts": {}, "consumers": consumers}
    return entry(time, "keyed-sample", region=region, **known | listed | fields)


def performance(time, rows, region="orders", bucket=80, workers=()):
    """Rows that all took about a millisecond (bucket 80), and how many came from each worker."""
    told = [{"worker": w, "rows": n, "rows_per_s": float(n), "latency_ms": {"mean": 1.0}} for w, n in workers]
    return entry(
        time, "performance", region=region, seconds=1.0, rows_in=rows, shed=0, total_s=rows * 1e-3,
        buckets={str(bucket): rows} if rows else {}, feeders=[], workers=told,
    )  # fmt: skip


def connection(worker, weight, seconds, busy, blocked=0.0, row_us=100.0):
    rows = round(seconds * busy * 1e6 / row_us)
    return {
        "worker": worker, "weight": weight, "blocked_s": round(seconds * blocked, 6), "rows_sent": rows + 10,
        "rows_done": rows, "busy_s": round(seconds * busy, 6), "under_way_s": 0.0,
    }  # fmt: skip


def sample(time, connections, region="score"):
    rows = sum(each["rows_done"] for each in connections)
    known = {"feeders": 1, "feeding_s": time, "rows_out": rows, "resent": 0, "rerouted": 0}
    return entry(time, "sample", region=region, **known, connections=connections)


def move(time, number, units, source, target, why="worker 0 is busy", region="orders"):
    return entry(time, "move", region=region, move=number, units=units, source=source, target=target, why=why)


def moved(time, number, units, source, target, region="orders"):
    fields = {"move": number, "units": units, "source": source, "target": target}
    return entry(time, "moved", region=region, **fields, bytes=20_000, seconds=0.05, version=number + 1)


def keyed_run(workers=3, units=12, seconds=10, until_move=5, first=0):
    """Worker 0 has too much to do until two of its units move to worker 1; one sample a second."""
    log = [joined(worker) for worker in range(workers)] if not first else []
    if not first:
        log += [opened(units=units), entry(0.2, "unit-owners", region="orders", version=1, even=list(range(workers)))]
        log.append(entry(0.3, "feeder-joined", region="orders", partition=0, attempt=0, query="", epoch=0))
    for second in range(first + 1, first + seconds + 1):
        late = second > until_move
        loads = [0.95] + [0.4] * (workers - 1) if not late else [0.6] * workers
        before = min(second, until_move)
        busy = [(before * (0.95 if w == 0 else 0.4) + (second - before) * 0.6) / second for w in range(workers)]
        consumers = [consumer(w, float(second), share, units=units // workers) for w, share in enumerate(busy)]
        hottest = [(0, 2000 * second), (3, 900 * second)]
        log.append(keyed_sample(float(second), consumers, hottest=hottest))
        log.append(
            performance(
                second + 0.1, int(1e4 * sum(loads)), workers=[(w, round(1e4 * load)) for w, load in enumerate(loads)]
            )
        )
        if second == until_move:
            log.append(move(second + 0.2, 1, [0, 3], 0, 1))
            log.append(moved(second + 0.4, 1, [0, 3], 0, 1))
    return log


def write(path, log):
    """Append entries to a log."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in log)
    return path
