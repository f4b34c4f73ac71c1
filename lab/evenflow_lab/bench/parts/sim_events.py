"""Events a second of the simulator's heap on one core: the next is taken out, another put in at a random time."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from evenflow.model.compiled import compiled
from evenflow.sim.draws import draw, random_state
from evenflow.sim.heap import event_heap, pop, push


@compiled
def _hold(heap: Any, state: Any, events: Any) -> Any:
    now = 0.0
    for _ in range(events):
        now, what = pop(heap)
        push(heap, now + draw(state), 0, what)
    return now


def main(events: Annotated[int, typer.Option(help="Events of each run.")] = 20_000_000) -> None:
    """Print events a second by how many wait at once."""
    for waiting in (16, 64, 256, 1024, 4096, 65536):
        heap, state = event_heap(waiting + 1), random_state(1)
        for number in range(waiting):
            push(heap, draw(state), 0, number)
        _hold(heap, state, 1_000)
        began = time.perf_counter()
        _hold(heap, state, events)
        print(f"{waiting:6d} waiting: {events / (time.perf_counter() - began) / 1e6:6.2f} million events/s")
