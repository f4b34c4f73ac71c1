"""The run of one key through its pattern: handles the rows that its atoms take, and its timers, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from evenflow.errors import EvenflowError
from evenflow.rules.patterns.parts import PatternPart
from evenflow.rules.patterns.states import Env, Frozen, Hold, Leaf, OwningRun, PatternClock, State, Timer, Wait
from evenflow.rules.patterns.waiting import EARLIEST, LATEST, PatternFrame, WaitingAtoms


class TooManyWaiting(EvenflowError):
    """A key has more matches under way than allowed."""


@dataclass
class PatternSetting:
    """What all runs through a pattern share."""

    title: str
    root: PatternPart
    begin: Env
    waiting: WaitingAtoms
    most: int
    lateness: int
    matches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """The matches in the current frame: the place of the row that completed it, and the numbers of its rows."""
    timely: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)
    """The matches that time has completed without a row: when, unit, key, and the numbers of their rows."""


class Run(State):
    """The run of a key through its pattern, and the root of its states. `child` is None when the pattern has ended.

    In a frame, the key's rows are at the places up to `end`, and those before `seen` are done. `events` are the next
    rows of waiting atoms, as far as known. `new` are atoms that have not looked at the frame yet, with the place where
    they start; `open` are atoms that must look further before an event beyond what they have seen may be handled.

    `alarm` is the time at which the run is woken if no row comes; LATEST for never. `deadlines` is a heap of (time,
    rank, age, clock).
    """

    __slots__ = (
        "ages", "alarm", "child", "deadlines", "done", "due", "end", "events", "frame", "key", "latest", "leaves",
        "new", "now", "open", "row", "seen", "setting", "stored", "taken", "unit", "weight",
    )  # fmt: skip
    child: State | None
    frame: PatternFrame | None

    def __init__(self, setting: PatternSetting, unit: int, key: int) -> None:
        super().__init__(None, None, LATEST)
        self.setting, self.unit, self.key = setting, unit, key
        self.child, self.now, self.stored, self.ages, self.weight = None, EARLIEST, 0, 0, 0
        self.leaves: dict[int, Leaf] = {}
        self.deadlines: list[tuple[int, int, int, PatternClock]] = []
        self.done, self.alarm = 0, LATEST  # done: timers in `deadlines` that are not needed any more
        self.frame, self.seen, self.end, self.latest, self.due = None, 0, 0, EARLIEST, (0, 0)
        self.row = 0  # in the frame's batch, the row that is being handled
        self.events: list[tuple[int, int, int, int]] = []
        self.new: dict[int, int] = {}
        self.open: set[int] = set()
        self.taken: list[int] = []

    def enter(self, frame: PatternFrame, first: int, end: int, latest: int) -> None:
        """Begin a frame that has the key's rows at the places from `first` to `end`; `latest` is their latest time."""
        self.frame, self.seen, self.end, self.latest, self.due = frame, first, end, latest, (0, 0)

    def start(self) -> None:
        """Begin the pattern at the first row of the frame."""
        assert self.frame is not None
        self.now = int(self.frame.times[self.seen])
        self.child = self.setting.root.start(self, self, self.setting.begin, self.now, LATEST)

    def exit(self) -> None:
        """End the frame."""
        self.frame = None
        self.events.clear()
        self.taken.clear()

    def step(self) -> bool:
        """Handle events up to the first that is not certain; returns whether some atoms must look further."""
        while self.child is not None and not self.new:
            place = min(self._next(), self._due())
            if self.open and self._ahead() <= place:
                return True
            if place == self.end:
                return False
            self._happen(place)
        return self.child is not None

    def lapse(self, now: int) -> tuple[bool, int]:
        """Time has reached `now` without a row: let timers end that would end before the next row is looked at.

        Returns whether the run is as it began, so that it can be forgotten; and the time of the next deadline. If an
        operator begins again because a timer fails, and depends on the time when it begins, the timer must wait for the
        next row, and so must all timers inside that operator. If the operator is the whole pattern, the run can be
        forgotten, too: it begins again with that row.
        """
        kept, stopped = [], set[State]()
        while (entry := self._take(now)) is not None:
            clock = entry[-1]
            again = clock.above.delays(clock) if isinstance(clock, Timer) else None
            if again is not None and again is self.child:
                return True, LATEST
            if again is not None:
                stopped.add(again)
            if stopped and any(each in stopped for each in clock.ancestors()):
                kept.append(entry)
            else:
                clock.expire(self)
        following = self.deadline()
        for entry in kept:
            heappush(self.deadlines, entry)
        return self.fresh(), following

    def deadline(self) -> int:
        """The time at which the next clock expires; LATEST if there is none."""
        while self.deadlines and self.deadlines[0][-1].over:
            heappop(self.deadlines)
            self.done -= 1
        return self.deadlines[0][0] if self.deadlines else LATEST

    def _take(self, now: int) -> tuple[int, int, int, PatternClock] | None:
        """Take the next deadline out, if it has come by `now`."""
        return heappop(self.deadlines) if self.deadline() <= min(now, LATEST - 1) else None

    def _happen(self, place: int) -> None:
        frame = self.frame
        assert frame is not None
        now, self.row = int(frame.times[place]), int(frame.rows[place])
        self.seen, expired = place, False
        while (entry := self._take(now)) is not None:
            self.now, expired = now, True
            entry[-1].expire(self)
        self.now = now
        if expired:
            return  # atoms that begin to wait because of this may take the same row
        self.seen = place + 1
        number = self.setting.waiting.kept.base + self.row
        hits = []
        while self.events and self.events[0][0] == place:
            hits.append(heappop(self.events))
        for _, _, age, handle in hits:
            leaf = self.leaves.get(handle)
            if leaf is not None and leaf.age == age:
                self.taken.append(number)
                leaf.hit(self, number, now)

    def _next(self) -> int:
        """The place of the next row that an atom takes; `end` if none."""
        while self.events:
            place, _, age, handle = self.events[0]
            leaf = self.leaves.get(handle)
            if leaf is not None and leaf.age == age:
                return place
            heappop(self.events)
        return self.end

    def _due(self) -> int:
        """The place of the row at which the next timer ends; `end` if none."""
        first = self.deadline()
        if first == LATEST:
            return self.end
        if self.latest < first or self.seen == self.end:
            return self.end
        if self.due[0] != first or self.due[1] < self.seen:
            assert self.frame is not None
            over = self.frame.times[self.seen : self.end] >= first
            at = int(over.argmax())
            self.due = first, self.seen + at if over[at] else self.end
        return self.due[1]

    def _ahead(self) -> int:
        """The first place that an open atom has not looked at."""
        handles = np.fromiter(self.open, np.int64, len(self.open))
        return int(self.setting.waiting.ahead[handles].min())

    # The methods that states call (`OwningRun`)

    def wait(self, leaf: Leaf) -> None:
        self._check_room()
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

    def remind(self, timer: PatternClock) -> None:
        if timer.age < 0:
            timer.age, self.ages = self.ages, self.ages + 1
        when = timer.deadline + self.setting.lateness
        if isinstance(timer, Wait):
            self._check_room()
            when = timer.deadline if timer.deadline < timer.until else LATEST  # then the timer around it ends first
        heappush(self.deadlines, (when, timer.rank, timer.age, timer))

    def _check_room(self) -> None:
        """Refuse a match under way beyond the number that is allowed."""
        if len(self.leaves) + self.stored >= self.setting.most:
            raise TooManyWaiting(
                f"{self.setting.title}: the key with hash {self.key} has {self.setting.most} matches of the pattern "
                "under way: end them with timer:within(...), or let fewer rows begin one by a stricter filter"
            )

    def forget(self, timer: PatternClock) -> None:
        self.done += 1
        if self.done > 16 + len(self.deadlines) // 2:
            self.deadlines = [entry for entry in self.deadlines if not entry[-1].over]
            heapify(self.deadlines)
            self.done = 0

    # The root of the states

    def true(self, key: OwningRun, child: State, env: Env, ended: bool) -> None:
        if self.frame is None:
            self.setting.timely.append((self.now, self.unit, self.key, env[0]))
        else:
            self.setting.matches.append((self.row, env[0]))
        if ended:
            self.child = None

    def false(self, key: OwningRun, child: State) -> None:
        self.child = None

    def delays(self, child: State) -> State | None:
        return None  # it makes no difference when the whole pattern fails

    def quit(self, key: OwningRun) -> None:
        if self.child is not None:
            self.child.quit(self)

    def fresh(self) -> bool:
        return self.child is not None and self.child.fresh()

    def freeze(self, hold: Hold) -> Frozen:
        return None if self.child is None else (self.ages, self.now, self.child.freeze(hold))

    def thaw(self, frozen: Frozen, hold: Hold) -> None:
        """Continue a frozen run."""
        self.ages, self.now, child = frozen
        self.child = self.setting.root.thaw(self, self, child, hold, LATEST)
