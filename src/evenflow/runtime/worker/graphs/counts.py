"""Counters of one graph on one worker between two reports: rows and time by unit, rows sent to other workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from evenflow.graph.nodes.filters import Filters
from evenflow.model.messages import FilterOrder, FlowReport, SentCounts
from evenflow.operators.keyed import Units

ORDERS_S = 1.0
"""Seconds between reports of the order of filters: similar filters may change places all the time."""


class FlowCounts:
    """Counters since the last report."""

    def __init__(self, units: int, now: float) -> None:
        self._in = np.zeros(units, np.int64)
        self._out = np.zeros(units)
        self._seconds = np.zeros(units)
        self._calls = np.zeros(units, np.int64)
        self._bytes = np.zeros(units)
        self._seen = np.zeros(units, np.bool_)
        """Units that have had rows here."""
        self._sent: dict[int, tuple[int, int, int]] = {}
        self._orders: dict[str, tuple[str, ...]] = {}
        """By operator, the order of its filters as it was last reported."""
        self._compared = now
        self.reported = now
        """When the last report was sent."""
        self.busy_s = 0.0
        """Seconds spent on rows since the graph came here, not only since the last report."""

    def add(self, units: Units, given: int, size: int, seconds: float) -> None:
        """A node took rows of these units, one each, gave `given` rows of `size` bytes, and worked for `seconds`.

        If the rows are of several units, each unit has its share by its rows. The first call of a unit here is left
        out: it may import and compile things, and would pass for what rows cost.
        """
        if not len(units):
            return
        if units[0] == units[-1] and (units == units[0]).all():
            unit = units[0]
            if not self._seen[unit]:
                self._seen[unit] = True
                return
            self._in[unit] += len(units)
            self._out[unit] += given
            self._seconds[unit] += seconds
            self._calls[unit] += 1
            self._bytes[unit] += size
            return
        counts = np.bincount(units, minlength=len(self._in))
        self._seen |= counts > 0
        self._in += counts
        self._out += counts * (given / len(units))
        self._seconds += counts * (seconds / len(units))
        self._calls += counts > 0
        self._bytes += counts * (size / len(units))

    def add_sent(self, worker: int, rows: int, size: int) -> None:
        """A frame went to another worker."""
        frames, before, bytes_before = self._sent.get(worker, (0, 0, 0))
        self._sent[worker] = frames + 1, before + rows, bytes_before + size

    @property
    def any(self) -> bool:
        """Whether there is anything to report."""
        return bool(self._in.any() or self._sent)

    def news(
        self,
        region: str,
        now: float,
        queued: int,
        standard_us: float,
        round_trips: dict[int, float],
        bandwidths: dict[int, float],
        filters: Mapping[str, Filters],
    ) -> FlowReport:
        """The report since the last one; resets the counters."""
        units = np.flatnonzero(self._in).astype(np.int32)
        out, micros = np.rint(self._out[units]), np.rint(self._seconds[units] * 1e6)
        news = FlowReport(
            region=region,
            seconds=now - self.reported,
            units=units,
            rows_in=self._in[units],
            rows_out=out.astype(np.int64),
            micros=micros.astype(np.int64),
            calls=self._calls[units],
            bytes_out=np.rint(self._bytes[units]).astype(np.int64),
            sent={
                worker: SentCounts(frames=frames, rows=rows, bytes=size)
                for worker, (frames, rows, size) in self._sent.items()
            },
            queued=queued,
            standard_us=standard_us,
            round_trips=round_trips,
            bandwidths=bandwidths,
            orders=tuple(self._new_orders(now, filters)),
        )
        for counter in (self._in, self._out, self._seconds, self._calls, self._bytes):
            counter[:] = 0
        self._sent, self.reported = {}, now
        return news

    def _new_orders(self, now: float, filters: Mapping[str, Filters]) -> Iterator[FilterOrder]:
        if now - self._compared < ORDERS_S:
            return
        self._compared = now
        for operator, applied in filters.items():
            found = applied.measured()
            names = tuple(name for name, _ in found)
            if self._orders.get(operator) != names:
                self._orders[operator] = names
                costs = tuple(round(1e6 * each.cost, 4) for _, each in found)
                yield FilterOrder(operator, names, costs, tuple(round(each.selectivity, 4) for _, each in found))
