"""Waiting and backlogs of hosts over the periods of a load series, compiled: the search for a placement lives in it."""

from __future__ import annotations

import numpy as np

from evenflow.model.compiled import compiled

STEEP = 0.95
"""Above this load, waiting grows along the tangent: 1 / (1 - load) itself has no value at 1."""


@compiled
def waiting(load, residual):  # type: ignore[no-untyped-def]
    """By host, the mean over its periods t of residual_t / (1 - load_t), ms; both are of hosts by periods."""
    found = np.zeros(len(load))
    steep = 1 / (1 - STEEP)
    for host in range(load.shape[0]):
        for period in range(load.shape[1]):
            now = load[host, period]
            slowed = 1 / (1 - min(now, STEEP)) + steep * steep * max(now - STEEP, 0.0)
            found[host] += residual[host, period] * slowed
    return found / load.shape[1]


@compiled
def backlog(load):  # type: ignore[no-untyped-def]
    """By host, periods of work that lie there in the mean: b_t = max(0, b_{t-1} + load_t - 1), (b_{t-1} + b_t) / 2.

    b_0 is what the periods leave if they start from nothing.
    """
    found = np.zeros(len(load))
    for host in range(load.shape[0]):
        left = 0.0
        for period in range(load.shape[1]):
            left = max(0.0, left + load[host, period] - 1)
        for period in range(load.shape[1]):
            before, left = left, max(0.0, left + load[host, period] - 1)
            found[host] += (before + left) / 2
    return found / load.shape[1]
