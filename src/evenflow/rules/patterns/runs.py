"""The pattern of one key: what it waits for, and the events of a frame that it lets happen, in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.rules.patterns.parts import PatternPart
from evenflow.rules.patterns.states import Again, Env, Hold, Leaf, State, Timer
from evenflow.rules.patterns.waiting import EARLIEST, LATEST, PatternFrame, WaitingAtoms


class TooManyWaiting(EvenflowError):
    """The pattern of a key has more matches under way than it may."""


@dataclass
class Setting:
    """What the runs of a pattern have in common."""

    title: str
    root: PatternPart
    begin: Env
    waiting: WaitingAtoms
    most: int
    lateness: int
    matches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """What was found in a frame: the row that completed it, and the rows it is made of."""


class Run(State):
    """The pattern of a key, the root of its states. `child` is None when it has ended.

    In a frame, the key's rows are at the places up to `end`, and those before `seen` are done. `events` are the next
    rows of the atoms that wait, as far as known; `new` the atoms that have seen nothing yet of the frame, from the
    given place on, `open` those that must look further before events beyond what they have seen may happen.

    `alarm` is the time at which somebody is going to look at the run again if no row comes; LATEST if nobody is.
    """

    __slots__ = (
        "ages", "alarm", "child", "deadlines", "done", "due", "end", "events", "frame", "key", "latest", "leaves",
        "new", "now", "open", "seen", "setting", "stored", "taken", "unit", "weight",
    )  # fmt: skip
    child: State | None
    frame: PatternFrame | None

    def __init__(self, setting: Setting, unit: int, key: int) -> None:
        super().__init__(None, None, LATEST)
        self.setting, self.unit, self.key = setting, unit, key
        self.child, self.now, self.stored, self.ages, self.weight = None, EARLIEST, 0, 0, 0
        self.leaves: dict[int, Leaf] = {}
        self.deadlines: list[tuple[int, int, Timer]] = []
        self.done, self.alarm = 0, LATEST  # timers among them that are not needed any more
        self.frame, self.seen, self.end, self.latest, self.due = None, 0, 0, EARLIEST, (0, 0)
        self.events: list[tuple[int, int, int, int]] = []
        self.new: dict[int, int] = {}
        self.open: set[int] = set()
        self.taken: list[int] = []

    def enter(self, frame: PatternFrame, first: int, end: int, latest: int) -> None:
        """A frame has come, with the key's rows at these places; the latest of their times."""
        self.frame, self.seen, self.end, self.latest, self.due = frame, first, end, latest, (0, 0)

    def start(self) -> None:
        """Begin with the first row of the frame."""
        assert self.frame is not None
        self.now = int(self.frame.times[self.seen])
        self.child = self.setting.root.start(self, self, self.setting.begin, self.now, LATEST)

    def exit(self) -> None:
        """The frame is done."""
        self.frame = None
        self.events.clear()
        self.taken.clear()

    def step(self) -> bool:
        """Let all happen whose turn is known to have come; whether some atoms must look further first."""
        while self.child is not None and not self.new:
            place = min(self._next(), self._due())
            if self.open and self._ahead() <= place:
                return True
            if place == self.end:
                return False
            self._happen(place)
        return self.child is not None

    def lapse(self, now: int) -> bool:
        """Time has reached `now` without a row: let timers fail as the next row would; whether nothing is left of it.

        Where a failing timer makes something begin anew that counts time from then, it has to wait for that row, and
        all timers after it. If that is the whole pattern, it may as well begin with that row.
        """
        root = self.child
        if isinstance(root, Again) and isinstance(root.child, Timer) and root.child.deadline <= now:
            return True
        while self.deadline() <= now:
            timer = self.deadlines[0][2]
            if timer.above.delays(timer):
                break
            heappop(self.deadlines)
            timer.expire(self)
        return self.fresh()

    def deadline(self) -> int:
        """The time at which the next timer ends."""
        while self.deadlines and self.deadlines[0][2].child is None:
            heappop(self.deadlines)
            self.done -= 1
        return self.deadlines[0][0] if self.deadlines else LATEST

    def _happen(self, place: int) -> None:
        frame, late = self.frame, self.setting.lateness
        assert frame is not None
        self.now = now = int(frame.times[place])
        self.seen, expired = place, False
        while self.deadlines and self.deadlines[0][0] + late <= now:
            timer = heappop(self.deadlines)[2]
            self.done -= timer.child is None
            expired |= timer.child is not None
            timer.expire(self)
        if expired:
            return  # what has begun by that may take the same row
        self.seen = place + 1
        row = int(frame.rows[place])
        number = self.setting.waiting.kept.base + row
        hits = []
        while self.events and self.events[0][0] == place:
            hits.append(heappop(self.events))
        for _, _, age, handle in hits:
            leaf = self.leaves.get(handle)
            if leaf is not None and leaf.age == age:
                self.taken.append(number)
                leaf.hit(self, number, now)

    def _next(self) -> int:
        """The place of the next row that an atom takes."""
        while self.events:
            place, _, age, handle = self.events[0]
            leaf = self.leaves.get(handle)
            if leaf is not None and leaf.age == age:
                return place
            heappop(self.events)
        return self.end

    def _due(self) -> int:
        """The place of the row at which the next timer ends."""
        first = self.deadline()
        if first == LATEST:
            return self.end
        limit = first + self.setting.lateness
        if self.latest < limit or self.seen == self.end:
            return self.end
        if self.due[0] != limit or self.due[1] < self.seen:
            assert self.frame is not None
            over = self.frame.times[self.seen : self.end] >= limit
            at = int(over.argmax())
            self.due = limit, self.seen + at if over[at] else self.end
        return self.due[1]

    def _ahead(self) -> int:
        """The first place that an atom has not been compared with."""
        handles = np.fromiter(self.open, np.int64, len(self.open))
        return int(self.setting.waiting.ahead[handles].min())

    # What states ask for

    def wait(self, leaf: Leaf) -> None:
        if len(self.leaves) + self.stored >= self.setting.most:
            raise TooManyWaiting(
                f"{self.setting.title}: the key with hash {self.key} has {self.setting.most} matches of the pattern "
                "under way: end them with timer:within(...), or let fewer rows begin one by a stricter filter"
            )
        if leaf.age < 0:
            leaf.age, self.ages = self.ages, self.ages + 1
        self.setting.waiting.add(self, leaf)
        self.leaves[leaf.handle] = leaf
        if self.frame is not None and not self.setting.waiting.settled(self.frame, self, leaf):
            self.new[leaf.handle] = self.seen

    def leave(self, leaf: Leaf) -> None:
        del self.leaves[leaf.handle]
        self.new.pop(leaf.handle, None)
        self.open.discard(leaf.handle)
        self.setting.waiting.remove(leaf)

    def remind(self, timer: Timer) -> None:
        if timer.age < 0:
            timer.age, self.ages = self.ages, self.ages + 1
        heappush(self.deadlines, (timer.deadline, timer.age, timer))

    def forget(self, timer: Timer) -> None:
        self.done += 1
        if self.done > 16 + len(self.deadlines) // 2:
            self.deadlines = [entry for entry in self.deadlines if entry[2].child is not None]
            heapify(self.deadlines)
            self.done = 0

    # The root of the states

    def true(self, key: Any, child: State, env: Env, ended: bool) -> None:
        assert self.frame is not None
        self.setting.matches.append((int(self.frame.rows[self.seen - 1]), env[0]))
        if ended:
            self.child = None

    def false(self, key: Any, child: State) -> None:
        self.child = None

    def delays(self, child: State) -> bool:
        return False  # it is over, now or later

    def quit(self, key: Any) -> None:
        if self.child is not None:
            self.child.quit(self)

    def fresh(self) -> bool:
        return self.child is not None and self.child.fresh()

    def freeze(self, hold: Hold) -> Any:
        return None if self.child is None else (self.ages, self.now, self.child.freeze(hold))

    def thaw(self, frozen: Any, hold: Hold) -> None:
        """Go on as the run that was frozen."""
        self.ages, self.now, child = frozen
        self.child = self.setting.root.thaw(self, self, child, hold, LATEST)
