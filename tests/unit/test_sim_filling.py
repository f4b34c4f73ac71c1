"""Tables of a scenario file become values; whatever does not fit is named, with its place and the remedy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from evenflow.errors import InvalidArgument
from evenflow.sim.filling import filled


@dataclass(frozen=True)
class Step:
    at: float
    factor: float = 1.0

    def __post_init__(self):
        if self.factor <= 0:
            raise InvalidArgument(f"factor is {self.factor:g}: it must be above 0")


@dataclass(frozen=True)
class Machine:
    cores: int
    name: str = "any"
    kind: Literal["fast", "slow"] = "fast"
    steps: tuple[Step, ...] = ()
    link: tuple[float, int] | None = None
    quotas: Mapping[int, float] = field(default_factory=dict)
    shared: bool = False


def test_a_table_becomes_a_value():
    table = {
        "cores": 2,
        "kind": "slow",
        "steps": [{"at": 1, "factor": 2.5}],
        "link": [3, 4],
        "quotas": {"7": 1},
        "shared": True,
    }
    made = filled(Machine, table, "[machine]")
    assert made == Machine(2, "any", "slow", (Step(1.0, 2.5),), (3.0, 4), {7: 1.0}, True)
    assert isinstance(made.steps[0].at, float)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, r"\[machine\] lacks the field 'cores'"),
        ({"cors": 2}, r"\[machine\] has no field 'cors'; did you mean 'cores'\?"),
        ({"cores": 2.5}, r"cores in \[machine\] is 2.5: it must be a whole number"),
        ({"cores": True}, r"cores in \[machine\] is True: it must be a whole number"),
        ({"cores": 1, "shared": 1}, r"shared in \[machine\] is 1: it must be true or false"),
        ({"cores": 1, "name": 3}, r"name in \[machine\] is 3: it must be a text"),
        ({"cores": 1, "kind": "quick"}, r"kind in \[machine\] is 'quick'; there are: 'fast', 'slow'"),
        ({"cores": 1, "steps": 3}, r"steps in \[machine\] is 3: it must be a list"),
        ({"cores": 1, "steps": [3]}, r"entry 0 of steps in \[machine\] is 3: it must be a table"),
        (
            {"cores": 1, "steps": [{"at": 1, "factr": 2}]},
            r"entry 0 of steps .* no field 'factr'; did you mean",
        ),
        ({"cores": 1, "steps": [{"at": 1, "factor": 0}]}, r"entry 0 of steps in \[machine\]: factor is 0"),
        ({"cores": 1, "link": [1.0]}, r"link in \[machine\] is \[1.0\]: it must be a list of 2"),
        ({"cores": 1, "link": [1.0, 2.5]}, r"entry 1 of link in \[machine\] is 2.5: it must be a whole number"),
        ({"cores": 1, "quotas": {"x": 1}}, r"quotas in \[machine\] has the key 'x': it must be a whole number"),
        ({"cores": 1, "quotas": 5}, r"quotas in \[machine\] is 5: it must be a table"),
        (5, r"\[machine\] is 5: it must be a table"),
    ],
)
def test_what_does_not_fit_is_named(table, said):
    with pytest.raises(InvalidArgument, match=said):
        filled(Machine, table, "[machine]")
