"""Between a machine that decides and an executor that acts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

Event = TypeVar("Event")
Instruction = TypeVar("Instruction")


def drive(
    decide: Callable[[Event], Iterable[Instruction]],
    carry_out: Callable[[Instruction], Event | None],
    event: Event,
) -> None:
    """Let a machine decide about an event, carry that out, and tell it what came of it, until nothing is left to do."""
    happened = deque([event])
    while happened:
        for instruction in decide(happened.popleft()):
            news = carry_out(instruction)
            if news is not None:
                happened.append(news)
