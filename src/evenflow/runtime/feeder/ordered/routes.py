"""Routes: which worker gets the next frame, or whether the splitter must wait. One class for each way of splitting."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from evenflow.model.routing import Splitting
from evenflow.runtime.feeder.link import DEPTH, Link
from evenflow.runtime.feeder.ordered.turns import Turns

WINDOW = 2
"""Frames that a worker has at most under weights; a slow worker can hoard no more before it is noticed."""


class Blocking:
    """Weighted round-robin that elects to wait for a full connection, and so measures it (ordered-regions §3.1).

    One frame at a time: until the connection in turn has room, nobody gets the next, and the wait is charged to that
    connection alone (`blocker`); so drafting (§4.2) is as in the paper. A connection is full when the kernel takes no
    more, or when WINDOW frames are unanswered: kernel buffers hold thousands of rows whatever these cost, a frame is a
    known amount of work, so only the second keeps a slow worker from hoarding minutes of it.
    """

    by_worker = False
    """Whether a frame is sized for the worker it goes to."""

    def __init__(self, links: Mapping[int, Link]) -> None:
        self.rerouted = 0
        """Frames that did not go to the worker whose turn it was."""
        self.blocker: Link | None = None
        """The connection because of which `next` gave none; None if it gave one, or if any of several will do."""
        self._links = links
        self._turns = Turns()
        self._turn: Link | None = None

    def set_weights(self, weights: Mapping[int, int]) -> None:
        """Take new weights from the controller."""
        self._turns.set({worker: weight for worker, weight in weights.items() if worker in self._links})

    def opened(self, link: Link, known: bool) -> None:
        """A link can be used; `known`: the worker's cost of a row is known."""

    def answered(self, link: Link) -> None:
        """A worker has answered a frame that it got in its turn."""

    def dropped(self, link: Link) -> None:
        """The link is gone."""
        self._turns.drop(link.worker)
        if self._turn is link:
            self._turn = None

    def next(self) -> Link | None:
        """The link for the next frame; None to wait."""
        self.blocker = None
        if not len(self._turns) or not all(link.open for link in self._links.values()):
            return None
        if self._turn is None:
            self._turn = self._links[self._turns.pick()]
        link = self._turn
        if full(link):
            self.blocker = link
            return None
        self._turn = None
        return link


class Rerouting(Blocking):
    """Weighted round-robin that tries the others when the connection in turn is full (§4.4); waits if all are."""

    def next(self) -> Link | None:
        if not len(self._turns):
            return None
        links = [link for link in self._links.values() if link.open]
        if all(full(link) for link in links):
            return None
        turn = self._links[self._turns.pick()]
        if turn.channel.open and not full(turn):
            return turn
        self.rerouted += 1
        free = [link for link in links if not full(link)]
        return min(free, key=lambda link: (link.worker - turn.worker) % (1 << 32))


def full(link: Link) -> bool:
    """Whether a connection can take no further frame now."""
    return link.unsent > 0 or len(link.under_way) >= WINDOW


class CreditRouting:
    """The worker that has had room longest gets the next frame; none has more than DEPTH unanswered.

    Credits are spent in the order in which they were earned. Since frames take the same time on every worker, a slow
    one gets little at a time but is never starved, and holds the in-order merge back for DEPTH frames at most. A worker
    of unknown speed gets one credit until it has answered.
    """

    by_worker = True
    blocker = None
    """It waits for no connection in particular: any that answers will do."""

    def __init__(self, links: Mapping[int, Link]) -> None:
        self.rerouted = 0
        self._depth: dict[Link, int] = {}
        self._earned: deque[Link] = deque()

    def set_weights(self, weights: Mapping[int, int]) -> None:
        pass

    def opened(self, link: Link, known: bool) -> None:
        self._depth[link] = DEPTH if known else 1
        self._earned.extend([link] * self._depth[link])

    def answered(self, link: Link) -> None:
        self._earned.extend([link] * (1 + DEPTH - self._depth[link]))
        self._depth[link] = DEPTH

    def dropped(self, link: Link) -> None:
        self._depth.pop(link, None)
        self._earned = deque(other for other in self._earned if other is not link)

    def next(self) -> Link | None:
        return self._earned.popleft() if self._earned else None


Route = Blocking | CreditRouting
ROUTES: dict[Splitting, type[Blocking] | type[CreditRouting]] = {
    "block": Blocking,
    "reroute": Rerouting,
    "credits": CreditRouting,
}
