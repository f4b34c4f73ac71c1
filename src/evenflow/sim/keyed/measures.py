"""What is measured of a simulated keyed operator: rows and latencies over time, and the reports of feeders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model.latency import Latencies
from evenflow.model.messages import ConnectionCounts, FeederReport
from evenflow.sim.keyed.arrays import PlaneArrays


class Measures:
    """Rows served and mean latency, in intervals of `sample_s` seconds."""

    def __init__(self, arrays: PlaneArrays, sample_s: float) -> None:
        self._total, self.sample_s = arrays.total, sample_s
        self.times: list[float] = []
        """The ends of the intervals."""
        self._served: list[int] = [0]
        self._latency_s: list[float] = [0.0]

    def sample(self, time: float) -> None:
        """An interval has ended."""
        self.times.append(time)
        self._served.append(int(self._total["served"][0]))
        self._latency_s.append(float(self._total["latency_s"][0]))

    @property
    def throughput(self) -> npt.NDArray[np.float64]:
        """Rows a second that were served, by interval."""
        rates: npt.NDArray[np.float64] = np.diff(self._served) / np.diff(self.times, prepend=0.0)
        return rates

    @property
    def latency_ms(self) -> npt.NDArray[np.float64]:
        """By interval, milliseconds from when a row came to its worker until it was served (flux §6.3), on average."""
        rows = np.diff(self._served)
        mean: npt.NDArray[np.float64] = np.diff(self._latency_s) * 1e3 / np.maximum(rows, 1)
        return mean

    def mean(self, since: float, until: float) -> tuple[float, float]:
        """Rows a second and mean latency in ms between two times that end intervals."""
        ends = [0.0, *self.times]
        first, last = (min(range(len(ends)), key=lambda at: abs(ends[at] - time)) for time in (since, until))
        rows = self._served[last] - self._served[first]
        waited = self._latency_s[last] - self._latency_s[first]
        return rows / (ends[last] - ends[first]), waited * 1e3 / max(rows, 1)


def feeder_report(arrays: PlaneArrays, feeder: int, seconds: float) -> FeederReport:
    """What a feeder did since its last report; counting begins anew."""
    lines, about = arrays.lines[:, feeder], arrays.feeders[feeder]
    by_worker, latencies = arrays.line_latencies[:, feeder], arrays.feeder_latencies[feeder]
    connections = {
        worker: ConnectionCounts(
            rows_done=int(lines["rows"][worker]),
            frames_done=int(lines["frames"][worker]),
            rows_sent=int(lines["rows"][worker]),
            frames_sent=int(lines["frames"][worker]),
            busy_s=float(lines["busy"][worker]),
            latencies=_latencies(by_worker[worker], float(lines["latency_s"][worker])),
        )
        for worker in np.flatnonzero(lines["rows"]).tolist()
    }
    out, told = int(latencies.sum()), _latencies(latencies, float(about["latency_s"]))
    came = int(about["made"] - about["told"])
    about["told"], about["latency_s"] = about["made"], 0.0
    for name in ("rows", "frames", "busy", "latency_s"):
        lines[name] = 0
    by_worker[:] = 0
    latencies[:] = 0
    return FeederReport(seconds, out, connections, rows_in=came, latencies=told)


def _latencies(histogram: npt.NDArray[np.int64], total_s: float) -> Latencies:
    buckets = np.flatnonzero(histogram)
    return Latencies(dict(zip(buckets.tolist(), histogram[buckets].tolist(), strict=True)), max(0.0, total_s))


def places_of_rows(arrays: PlaneArrays) -> dict[str, int]:
    """Where all rows are that were ever made."""
    packets = arrays.packets.shape[2]
    lines = arrays.lines[..., None]
    here = (np.arange(packets) - lines["first"]) % packets < lines["used"]
    return {
        "made": int(arrays.feeders["made"].sum()),
        "buffered": int(arrays.queues["count"].sum()),
        "under_way": int(arrays.packets["count"][here].sum()),
        "in_service": int(arrays.workers["count"].sum()),
        "pending": int(arrays.units["waiting"].sum()),
        "served": int(arrays.total["served"][0]),
    }


def waits(arrays: PlaneArrays) -> str:
    """Which rows wait for whom, in words."""
    counts, workers = arrays.queues["count"], len(arrays.workers)
    said = [
        f"{counts[feeder, queue]} rows of feeder {feeder} wait for "
        + (f"worker {queue}" if queue < workers else f"units that leave worker {queue - workers}")
        for feeder, queue in np.argwhere(counts > 0).tolist()
    ]
    used = arrays.lines["used"] > 0
    said += [
        f"packets of {int(used[worker].sum())} feeders wait for worker {worker}"
        for worker in np.flatnonzero(used.any(axis=1)).tolist()
    ]
    waiting = arrays.units["waiting"]
    if waiting.any():
        said.append(f"{int(waiting.sum())} rows wait for {int((waiting > 0).sum())} units on disk")
    return "; ".join(said)
