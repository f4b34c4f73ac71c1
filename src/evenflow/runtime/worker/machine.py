"""Drives a state machine: it decides, an executor acts, and the results are its next events."""

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
    """Give the machine an event, carry out its instructions, and give it each result, until there are none."""
    happened = deque([event])
    while happened:
        for instruction in decide(happened.popleft()):
            news = carry_out(instruction)
            if news is not None:
                happened.append(news)
