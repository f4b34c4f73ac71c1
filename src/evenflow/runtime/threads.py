"""Background threads: none of them ends unheard, and each is waited for when its owner is closed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from evenflow.errors import EvenflowError, described

Told = TypeVar("Told")


class Handle(Protocol):
    """Handle of a started thread."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most `timeout` seconds."""

    def is_alive(self) -> bool:
        """Whether it still runs."""


class BackgroundThread:
    """A thread that runs `run` to its end; what ends it before its time is told in `failure` and given to `failed`.

    `failed` is called on that thread. `start` makes a thread of it: where there are to be no threads, something else.
    """

    failure = ""
    """Why the thread has ended, if it should not have."""

    def __init__(
        self,
        owner: str,
        run: Callable[[], None],
        failed: Callable[[BaseException], None],
        start: Start | None = None,
    ) -> None:
        self.owner = owner
        self.name = f"evenflow-{owner.replace(' ', '-')}"
        self.closing = threading.Event()
        self._loop = run
        self._failed_loop = failed
        self._start = start or start_thread
        self._thread: Handle | None = None

    def begin(self) -> None:
        """Start the thread."""
        self._thread = self._start(self)

    def run(self) -> None:
        """What the thread does from its beginning to its end."""
        try:
            self._loop()
        except BaseException as error:  # none is worse than an end that goes unnoticed
            self.failure = described(error)
            self._failed_loop(error)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether it ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.alive

    def end(self, seconds: float, cause: str = "") -> None:
        """Have the thread end, and wait for that; after `seconds` raise an error with a likely `cause`."""
        self.closing.set()
        self.rouse()
        if not self.join(seconds):
            hint = f": {cause}" if cause else ""
            raise EvenflowError(f"the {self.owner}'s thread did not end within {seconds:g} s{hint}")

    def rouse(self) -> None:
        """Make the thread look at `closing`, if it waits for something else."""


Start = Callable[[BackgroundThread], Handle]


def start_thread(thread: BackgroundThread) -> Handle:
    """Run it on a thread of its own, that does not keep the process from ending."""
    made = threading.Thread(target=thread.run, name=thread.name, daemon=True)
    made.start()
    return made


class Inbox(queue.SimpleQueue[Told]):
    """News of a thread for the loop of its owner, which is woken."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def put(self, item: Told, block: bool = True, timeout: float | None = None) -> None:
        """Add to it, and wake the owner."""
        super().put(item, block, timeout)
        self._wake()


class JobThread(BackgroundThread):
    """Does jobs one after the other, in the order they were given; starts with the first one, unless begun before.

    Jobs that have not begun when it is ended are left undone.
    """

    def __init__(
        self,
        owner: str,
        failed: Callable[[BaseException], None],
        start: Start | None = None,
    ) -> None:
        super().__init__(owner, self._work, failed, start)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, job: Callable[[], None]) -> None:
        """Have something done."""
        self._jobs.put(job)
        if self._thread is None:
            self.begin()

    def step(self) -> bool:
        """Do the next job, as soon as there is one; whether there may be another."""
        job = self._jobs.get()
        if job is None or self.closing.is_set():
            return False
        job()
        return True

    def rouse(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while self.step():
            pass
