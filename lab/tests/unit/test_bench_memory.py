"""Memory that workers lack for a while in `evenflow bench keyed`: when it is given and taken, and what is shown."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.support.keyed_model import snapshot

from evenflow_lab.bench import keyed, views
from evenflow_lab.bench.memory import Squeeze, back_after, most_on_disk

SETTING = keyed.KeyedSetting(workers=3, keys=100, memory=1 << 20, short=2)


class Given:
    """A cluster that notes what it is given."""

    def __init__(self):
        self.memory = []

    def set_memory(self, memory):
        self.memory.append(memory)


def seen(time, spilled=0):
    """Two workers; the second has so much on disk."""
    about = {"memory": [1000, 1000], "spilled": [0, spilled], "unit_bytes": np.full(4, 500)}
    return snapshot(time, [0, 0, 1, 1], [0, 0, 0, 0], **about)


@pytest.mark.parametrize(
    ("since", "until", "changes"),
    [
        (0, 0, {0: "short"}),
        (0, 10, {0: "short", 10: "ample"}),
        (3, 0, {3: "short"}),
        (3, 10, {3: "short", 10: "ample"}),
    ],
)
def test_memory_is_taken_and_given_when_it_is_due(since, until, changes):
    pressure = replace(SETTING, memory_since=since, memory_until=until).pressure()
    cluster = Given()
    squeeze = Squeeze(pressure, cluster)
    found = {0: cluster.memory[0]} if cluster.memory else {}
    squeeze.follow(replace(seen(90.0), feeders=0))  # nobody feeds it yet: time has not begun
    for second in range(15):
        before = len(cluster.memory)
        squeeze.follow(seen(100.0 + second))
        if len(cluster.memory) > before:
            found[second] = cluster.memory[-1]
            assert squeeze.changed == 100.0 + second
    bytes_of = {"short": 1 << 20, "ample": pressure.ample}
    assert found == {second: dict.fromkeys((0, 1), bytes_of[what]) for second, what in changes.items()}


def test_without_memory_there_is_no_budget():
    assert keyed.KeyedSetting().pressure() is None


def test_how_much_was_on_disk_and_until_when():
    course = [seen(1.0), seen(2.0, 300), seen(3.0, 700), seen(4.5, 10), seen(5.0), seen(6.0)]
    assert most_on_disk(course) == 700
    assert back_after(course, 2.5) == 2.0
    assert back_after(course, 6.0) == 0.0
    assert back_after(course[:4], 2.5) is None
    assert back_after(course[:1], 0.0) == 0.0


def test_the_table_has_what_was_on_disk():
    outcome = keyed.KeyedResult("flux-hybrid", 1000.0, True, 1.0, most_on_disk=3 << 20, back_s=2.5)
    written = io.StringIO()
    Console(file=written, width=200).print(views.keyed(replace(SETTING, memory_until=10.0), [outcome]))
    said = " ".join(written.getvalue().split())
    assert "1 MB for state on 2 of them until second 10" in said
    assert "3.0 MB" in said
    assert "2.5 s" in said
