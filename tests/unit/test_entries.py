"""Entries of the event log: what the controller writes is what readers read, also in logs of other versions."""

import json
from dataclasses import replace
from math import isnan

import msgspec
import pytest

from evenflow import sim
from evenflow.model import entries
from evenflow.model.entries import (
    KINDS,
    EventEntry,
    MovedEntry,
    RawEntry,
    RegionOpenedEntry,
    as_dict,
    decode,
    entry_of,
    name_of,
)
from tests.support.golden_logs import SCENARIOS

MOVED = {"region": "r", "move": 7, "units": [3, 4], "source": 0, "target": 1}
MOVED |= {"bytes": 512, "seconds": 0.25, "version": 2}


def read(event, **fields):
    return entry_of({"time": 1.5, "at": 2.5, "event": event, **fields})


def kinds_below(kind):
    for each in kind.__subclasses__():
        yield each
        yield from kinds_below(each)


def test_every_kind_is_known_to_readers():
    """A class without a tag of its own is one that others build on."""
    made = {kind for kind in kinds_below(EventEntry) if name_of(kind) != kind.__name__}
    assert made == set(KINDS)
    assert {kind.__name__ for kind in KINDS} <= set(entries.__all__)


def test_the_written_form_begins_with_what_all_have():
    moved = MovedEntry(time=1.5, at=2.5, **MOVED)
    assert list(as_dict(moved))[:3] == ["time", "at", "event"]
    assert as_dict(moved) == {"time": 1.5, "at": 2.5, "event": "moved", **MOVED}
    assert read("moved", **MOVED) == decode(json.dumps(as_dict(moved)).encode()) == moved


def test_what_has_no_meaning_is_left_out():
    opened = RegionOpenedEntry(time=0.0, at=0.0, region="r", balance="auto", units=4)
    assert as_dict(opened).keys() == {"time", "at", "event", "region", "balance", "units"}
    assert entry_of(as_dict(opened)) == opened


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_controller_writes_is_read_as_it_was(name):
    scenario, balance = SCENARIOS[name]
    run = sim.simulate(replace(scenario, seconds=5.0), balance)
    for told in json.loads(json.dumps(run.entries)):
        entry = entry_of(told)
        assert not isinstance(entry, RawEntry), told
        assert as_dict(entry) == told
        assert decode(json.dumps(told).encode()) == entry


def test_fields_of_other_versions_have_defaults_or_are_ignored():
    told = {name: MOVED[name] for name in ("region", "units", "source", "target", "bytes", "seconds")}
    entry = read("moved", **told, new=[1])
    assert entry == MovedEntry(time=1.5, at=2.5, **told)
    assert (entry.move, entry.version) == (0, 0)


def test_an_unknown_kind_is_kept_as_it_is():
    entry = read("something-new", anything=[1])
    assert entry == RawEntry(time=1.5, at=2.5, kind="something-new", fields={"anything": [1]})
    assert as_dict(entry) == {"time": 1.5, "at": 2.5, "event": "something-new", "anything": [1]}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (MOVED | {"units": "x"}, "Expected `array`, got `str` - at `$.units`"),
        ({"region": "r"}, "Object missing required field `units`"),
        (MOVED | {"at": None}, "Expected `float`, got `null` - at `$.at`"),
        (MOVED | {"at": 10**400}, "Number out of range"),
    ],
)
def test_a_damaged_entry_says_what_is_wrong(fields, why):
    entry = read("moved", **fields)
    assert isinstance(entry, RawEntry)
    assert entry.event == "moved"
    assert why in entry.why
    assert isnan(entry.at) == ("at" in fields)


def test_a_line_of_no_known_kind_is_not_decoded():
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"time": 1, "event": "something-new"}')
