"""Re-routing at the transport: a full connection's frame goes to the next that has room (ordered-regions §4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model.routing import Splitting
from evenflow.policy.ordered.balance import EvenSplit


@dataclass
class Reroute(EvenSplit):
    """An even split; the splitter tries the other connections before it waits.

    A baseline. The in-order merge cannot go on before a slow worker has worked off what was sent to it, so re-routing
    is as late as the buffers are deep, and learns nothing from it. With our window of two frames that is not very late;
    with kernel buffers alone, as in the paper, it is.
    """

    name: ClassVar[str] = "reroute"
    splitting: ClassVar[Splitting] = "reroute"
