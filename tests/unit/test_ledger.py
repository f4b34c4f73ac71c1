"""What a worker notes of a query: segments in order, who is told when, which units are saved, what is loaded."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from evenflow.errors import ProtocolError
from evenflow.operators.hosted import Hosted
from evenflow.operators.keyed import KeyedOperator
from evenflow.runtime import keeper, ledger
from evenflow.runtime.copies import Copies
from evenflow.runtime.journal import Outcome
from evenflow.runtime.keeper import Keeper
from evenflow.runtime.ledger import Ledger
from evenflow.runtime.loader import Loaded
from evenflow.state.manifest import parse
from evenflow.state.segments import Rows, Tenure, read_segment
from evenflow.state.units import load_units, read_index

UNITS = 4
SCHEMA = pa.schema([("v", pa.int64())])


class FakeJournal:
    """Notes what is to be put; `done` says what became of it."""

    def __init__(self, *_where):
        self.puts = []
        self.outcomes = []
        self.unsaved = 0

    def put(self, name, parts, about):
        self.puts.append((name, b"".join(bytes(part) for part in parts), about))

    def collect(self):
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def done(self, place=0, error=""):
        self.outcomes.append(Outcome(self.puts.pop(place)[2], error))

    def close(self):
        pass


class Sums(KeyedOperator):
    def __init__(self, **sums):
        self.sums = {int(unit[1:]): total for unit, total in sums.items()}

    def process(self, rows, units, keys):
        return rows

    def extract(self, unit):
        return self.sums.pop(unit, None)

    def install(self, unit, state):
        self.sums[unit] = state

    def size(self, unit):
        return 100


def made(**options):
    return Ledger("r", "query q", "0.7", FakeJournal(), UNITS, **options)


def rows(*values):
    return memoryview(pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA).serialize())


def log(noted, *units):
    noted.log(rows(*units), SCHEMA, np.array(units, np.int32))


def kinds(content):
    return [
        (record.move, record.units) if isinstance(record, Tenure) else record.batch.num_rows
        for record in read_segment(content)[1]
        if isinstance(record, Rows | Tenure)
    ]


def saved(put):
    """The batch and the units of a snapshot, with their state."""
    name, content, about = put

    def get(start, length):
        return content[start : start + length]

    return parse(name).epoch, load_units(get, read_index(get).entries), about


# -- the log


def test_a_segment_is_put_when_it_is_full_and_when_somebody_asks_for_the_end(monkeypatch):
    monkeypatch.setattr(ledger, "SEGMENT_BYTES", (1, 1 << 20))
    noted = made()
    noted.enter(3, 2)
    log(noted, 0, 1)
    log(noted, 2)
    assert [name for name, _, _ in noted.journal.puts] == ["r/q/log/3.2.0.7.0"]
    noted.end("feeder")
    assert [name for name, _, _ in noted.journal.puts] == ["r/q/log/3.2.0.7.0", "r/q/log/3.2.0.7.1"]
    assert [kinds(content) for _, content, _ in noted.journal.puts] == [[2], [1]]
    noted.end("another")
    assert len(noted.journal.puts) == 2


def test_who_asks_is_told_when_all_before_is_durable():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.end("one")
    log(noted, 1)
    noted.end("other")
    assert noted.acknowledged() == []
    noted.put((0, 1), "")
    assert noted.acknowledged() == ["one"]
    noted.put((0, 1), "")
    assert (noted.acknowledged(), noted.durable) == (["other"], 2)


def test_a_segment_that_cannot_be_put_is_told_to_all_who_wait():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.end("one")
    noted.put((0, 1), "no room")
    assert (noted.acknowledged(), noted.error) == (["one"], "no room")


def test_news_of_an_earlier_attempt_do_not_count():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.end("one")
    noted.enter(0, 2)
    log(noted, 0)
    noted.end("two")
    noted.put((0, 1), "")
    assert noted.acknowledged() == []
    assert noted.durable == 0


def test_rows_of_an_earlier_attempt_are_too_late():
    noted = made()
    noted.enter(2, 2)
    for late in ((2, 1), (1, 9)):
        with pytest.raises(ProtocolError, match=r"came after those of batch 2, attempt 2: they are too late"):
            noted.enter(*late)
    assert noted.enter(2, 2) is False
    assert noted.enter(3, 1) is True


def test_units_that_arrive_are_noted_before_their_rows():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.arrived(5, [1, 2], np.array([-1, -1]))
    noted.arrived(8, [1], np.array([-1]))
    log(noted, 1)
    noted.end("one")
    assert kinds(noted.journal.puts[0][1]) == [1, (5, [1, 2]), (8, [1]), 1]


def test_units_that_arrive_between_batches_are_noted_in_the_next():
    noted = made()
    noted.enter(0, 1)
    noted.arrived(5, [1], np.array([0]))
    noted.enter(1, 1)
    log(noted, 1)
    noted.end("one")
    assert kinds(noted.journal.puts[0][1]) == [(5, [1]), 1]


# -- snapshots


def test_units_are_saved_as_they_were_at_the_end_of_the_batch_before():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0, 2)
    noted.end("feeder")
    noted.journal.done()
    noted.enter(1, 1)
    noted.save(Sums(u0=1, u2=5), 0)
    epoch, states, about = saved(noted.journal.puts[0])
    assert (epoch, states) == (0, {0: 1, 2: 5})
    assert about.units.tolist() == [0, 2]
    noted.enter(2, 1)
    noted.save(Sums(u0=1, u2=5), 1)
    assert len(noted.journal.puts) == 1


def test_units_with_rows_of_the_batch_that_begins_are_not_saved():
    """One came from a worker where the batch had begun already."""
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.arrived(5, [1], np.array([1]))
    noted.enter(1, 1)
    noted.save(Sums(u0=1, u1=7), 0)
    assert saved(noted.journal.puts[0])[1] == {0: 1}


def test_units_that_have_left_are_not_saved():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0, 1)
    noted.enter(1, 1)
    noted.save(Sums(u0=1), 0, np.array([False, True, False, False]))
    assert saved(noted.journal.puts[0])[1] == {0: 1}


def test_the_longest_unsaved_come_first_and_no_more_than_were_logged(monkeypatch):
    monkeypatch.setattr(ledger, "CYCLE", 4)
    monkeypatch.setattr(ledger, "SLICE_BYTES", 150)
    noted = made()
    sums = Sums(u0=1, u1=2, u2=3, u3=4)
    found = []
    for epoch in range(4):
        noted.enter(epoch, 1)
        noted.save(sums, epoch - 1)
        log(noted, 0, 1, 2, 3)
        noted.end("somebody")
        found += [(about.epoch, about.units.tolist()) for *_, about in noted.journal.puts if hasattr(about, "units")]
        noted.journal.puts.clear()
    assert found == [(0, [0, 1]), (1, [2, 3]), (2, [0, 1])]


def test_units_without_further_rows_are_saved_within_one_cycle(monkeypatch):
    monkeypatch.setattr(ledger, "CYCLE", 4)
    noted = Ledger("r", "query q", "0.7", FakeJournal(), 64)
    noted.enter(0, 1)
    noted.touched[:] = 0
    for epoch in range(1, 6):
        noted.enter(epoch, 1)
        noted.save(Sums(), epoch - 1)
    assert sorted(unit for *_, about in noted.journal.puts for unit in about.units.tolist()) == list(range(64))
    assert len(noted.journal.puts) == 4


def test_a_snapshot_that_could_not_be_put_is_taken_again():
    noted = made()
    noted.enter(0, 1)
    log(noted, 0)
    noted.enter(1, 1)
    noted.save(Sums(u0=1), 0)
    about = noted.journal.puts[0][2]
    noted.not_saved(about.units, about.epoch)
    noted.enter(2, 1)
    noted.save(Sums(u0=1), 1)
    assert [parse(name).epoch for name, _, _ in noted.journal.puts] == [0, 1]
    assert noted.journal.puts[0][0] != noted.journal.puts[1][0]
    noted.not_saved(about.units, about.epoch)  # of the first: the second counts
    noted.enter(3, 1)
    noted.save(Sums(u0=1), 2)
    assert len(noted.journal.puts) == 2


# -- the keeper


class Kept:
    """A keeper whose threads are here."""

    def __init__(self, monkeypatch):
        self.told, self.answers, self.orders = [], [], []
        self.inbox = SimpleNamespace(items=[])
        self.inbox.empty = lambda: not self.inbox.items
        self.inbox.get = lambda: self.inbox.items.pop(0)
        loader = SimpleNamespace(
            inbox=self.inbox, start=lambda order, _hosted: self.orders.append(order), close=lambda: None
        )
        monkeypatch.setattr(keeper, "Journal", FakeJournal)
        monkeypatch.setattr(keeper, "Loader", lambda *_: loader)
        answer = lambda who, what: self.answers.append((who, what))  # noqa: E731
        self.keeper = Keeper("w", 3, lambda: None, self.told.append, answer, Copies())
        self.hosted = Hosted(Sums(), SCHEMA, SCHEMA, UNITS)

    @property
    def journal(self):
        return self.keeper._journal

    def rows(self, stamp, *units, state=None):
        self.keeper.enter("r", "query q", UNITS, stamp, state or Sums())
        self.keeper.log("r", "query q", rows(*units), SCHEMA, np.array(units, np.int32))

    def load(self, number, epoch=2, attempt=1):
        self.keeper.load(
            {"region": "r", "evaluation": "query q", "operator": "op", "load": number, "epoch": epoch}
            | {"attempt": attempt, "count": UNITS, "units": np.arange(2), "snapshots": [], "logs": []}
        )

    def collect(self, code=True):
        return self.keeper.collect(lambda _operator: self.hosted if code is True else code)

    def loaded(self, place=0, error=""):
        blank = np.full(UNITS, -1, np.int64)
        self.inbox.items.append(Loaded(self.orders.pop(place), Sums(), blank.copy(), blank.copy(), error=error))


@pytest.fixture
def kept(monkeypatch):
    return Kept(monkeypatch)


def test_a_feeder_is_answered_once_its_rows_are_durable(kept):
    kept.rows((0, 1), 0, 1)
    kept.keeper.end("r", "query q", (0, 1), "feeder")
    kept.collect()
    assert kept.answers == []
    kept.journal.done()
    kept.collect()
    ((who, answer),) = kept.answers
    assert (who, answer["segments"]) == ("feeder", 1)
    assert answer["writer"].startswith("3.")


def test_a_feeder_that_sent_nothing_here_is_answered_at_once(kept):
    kept.keeper.end("r", "query q", (0, 1), "feeder")
    assert kept.answers[0][1]["segments"] == 0


def test_a_store_that_fails_is_told_to_the_feeder(kept):
    kept.rows((0, 1), 0)
    kept.keeper.end("r", "query q", (0, 1), "feeder")
    kept.journal.done(error="no room")
    kept.collect()
    assert kept.answers[0][1]["error"] == "no room"


def test_the_controller_is_told_of_snapshots_that_are_durable(kept):
    kept.rows((0, 1), 0)
    kept.rows((1, 1), 1, state=Sums(u0=4))
    assert kept.told == []
    kept.journal.done()
    kept.collect()
    (report,) = kept.told
    assert (report["type"], report["epoch"], report["units"].tolist()) == ("saved", 0, [0])


def test_of_several_orders_to_load_the_last_counts(kept):
    kept.load(1)
    assert kept.collect(code=None) == []
    assert kept.orders == []
    kept.collect()
    kept.load(2)
    kept.collect()
    assert [order.load for order in kept.orders] == [1, 2]
    kept.loaded()
    assert kept.collect() == []
    assert kept.told == []
    kept.loaded()
    assert [loaded.order.load for loaded in kept.collect()] == [2]
    assert [(report["type"], report["load"]) for report in kept.told] == [("loaded", 2)]


def test_rows_of_attempts_before_the_one_that_was_loaded_for_are_refused(kept):
    kept.rows((2, 1), 0)
    kept.load(1, epoch=2, attempt=2)
    kept.collect()
    kept.loaded()
    kept.collect()
    with pytest.raises(ProtocolError, match="too late"):
        kept.rows((2, 1), 0)
    kept.rows((2, 2), 0)


def test_between_drop_and_load_no_rows_are_taken(kept):
    """Or a unit that is not here would be saved as one without state."""
    kept.rows((0, 1), 0)
    kept.keeper.drop("r", "query q")
    with pytest.raises(ProtocolError, match="whose state was dropped"):
        kept.rows((1, 1), 0)
    assert kept.journal.puts == []
    kept.load(1, epoch=1, attempt=2)
    kept.collect()
    with pytest.raises(ProtocolError, match="whose state was dropped"):
        kept.rows((1, 1), 0)
    kept.loaded()
    kept.collect()
    kept.rows((1, 2), 0)


def test_state_that_cannot_be_loaded_is_reported(kept):
    kept.load(1)
    kept.collect()
    kept.loaded(error="damaged")
    assert kept.collect() == []
    assert kept.told[0]["error"] == "damaged"
    kept.load(2)
    kept.collect(code=object())
    assert kept.told[1]["error"] == "the operator could not be loaded on this worker"


def test_units_taken_back_are_not_saved_from_here(kept):
    kept.rows((0, 1), 0)
    kept.keeper.arrived("r", UNITS, 4, [2, 3], {"query q": np.array([0, 0])})
    kept.keeper.gone("r", [2, 3])
    kept.rows((1, 1), 1, state=Sums(u0=1))
    assert saved(kept.journal.puts[0])[1] == {0: 1}


def test_what_leaves_takes_along_when_it_had_rows(kept):
    kept.rows((0, 1), 0, 2)
    kept.rows((1, 1), 2)
    touched = kept.keeper.touched("r", ["query q", "query other"], [0, 1, 2])
    assert {name: batches.tolist() for name, batches in touched.items()} == {"query q": [0, -1, 1]}


def test_an_evaluation_that_is_over_leaves_nothing(kept):
    kept.rows((0, 1), 0)
    kept.load(1)
    kept.keeper.forget("r", "query q")
    kept.collect()
    assert (kept.orders, kept.keeper._ledgers) == ([], {})


def snapshots(kept):
    return [saved(put)[:2] for put in kept.journal.puts if "/units/" in put[0]]


def test_units_of_a_snapshot_that_came_too_late_are_saved_again(kept):
    kept.rows((0, 1), 0)
    kept.rows((1, 1), 1, state=Sums(u0=5))
    kept.keeper.unsaved({"region": "r", "evaluation": "query q", "units": np.array([0], np.int32), "epoch": 0})
    kept.keeper.unsaved({"region": "r", "evaluation": "query over", "units": np.array([0], np.int32), "epoch": 0})
    kept.rows((4, 1), 1, state=Sums(u0=5, u1=7))
    assert snapshots(kept) == [(0, {0: 5}), (3, {0: 5})]


def test_units_are_saved_where_no_rows_come_any_more(kept):
    """Or the logs with their last rows would be needed for good."""
    kept.rows((0, 1), 0, 1)
    kept.keeper.idle("r", "query q", (0, 1), Sums(u0=1, u1=2), None)
    assert snapshots(kept) == []
    kept.keeper.idle("r", "query q", (1, 1), Sums(u0=1, u1=2), np.array([False, True, False, False]))
    kept.keeper.end("r", "query q", (1, 1), "feeder")
    assert snapshots(kept) == [(0, {0: 1})]
    assert kept.answers[-1][1]["segments"] == 0
    kept.keeper.drop("r", "query q")
    kept.keeper.idle("r", "query q", (2, 1), Sums(u0=1, u1=2), None)
    assert snapshots(kept) == [(0, {0: 1})]
