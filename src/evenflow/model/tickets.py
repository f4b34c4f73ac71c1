"""Tickets: what lets the units of a movement in at their target.

Every worker draws a key when it starts and tells it to the controller, and to nobody else. The controller announces a
movement by giving its source a ticket: the target's key over all that the movement is about. So the target takes state
from that worker, in that movement, of those units and evaluations, in this life of its own; and reads nothing else.
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
