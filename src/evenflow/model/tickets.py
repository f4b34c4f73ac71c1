"""Tickets: the proof with which a target accepts the units of a movement.

Every worker draws a key when it starts and tells it to the controller only. The controller announces a movement by
giving its source a ticket: an HMAC, with the target's key, of everything that describes the movement. So the target
accepts state only from that worker, in that movement, of those units and evaluations, and only in its present
incarnation; it reads nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable


def ticket(key: str, move: int, region: str, source: int, units: Iterable[int], evaluations: Iterable[str]) -> str:
    """The ticket for one movement to the worker with this key."""
    about = json.dumps([int(move), region, int(source), sorted(map(int, units)), sorted(evaluations)])
    return hmac.new(key.encode(), about.encode(), hashlib.sha256).hexdigest()
