"""What the checkpoint thread gives a query to go on from: state, fresh state, or why neither."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from evenflow.control.events import SaveInstruction
from evenflow.errors import StoreError
from evenflow.model.checkpoint import Base, BatchLog, Begun, Saved, SavedUnits, Voided, WholeAttempt
from evenflow.runtime.driver.checkpoint import CheckpointThread
from evenflow.runtime.driver.manifests import ManifestWriter
from evenflow.runtime.driver.operator_names import Kept, OperatorNames
from evenflow.state.checkpoint.chain import QueryRecord, note_operators, operators, query_record
from evenflow.state.checkpoint.segments import SegmentWriter
from evenflow.state.checkpoint.survey import verify
from evenflow.state.checkpoint.unit_snapshots import pack_units
from evenflow.state.store.blob_names import log_name, units_name
from tests.support.state_memory import Memory

WRITER = "0.7"


class Mortal(Memory):
    """A store whose process is killed after some puts and deletions."""

    left = None

    def put(self, name, parts):
        self._spend()
        super().put(name, parts)

    def delete(self, names):
        for name in names:
            self._spend()
            super().delete([name])

    def _spend(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise StoreError("killed")


class Unthreaded(CheckpointThread):
    """The checkpoint thread without its thread and its claim."""

    def __init__(self):
        self._store = self._patient = Mortal()
        self._kept = {}
        self.names, self._writer = OperatorNames(self._kept), ManifestWriter(self._store, self._kept)
        self._clock, self._due = float, 1.0
        for name in ("mean", "count"):
            self.add(name, Kept(name, 8))

    @property
    def blobs(self):
        return self._store.blobs

    def put(self, region, content):
        self._writer.put(SaveInstruction(region, "q", "", content))

    def batch(self, region, epoch, attempt=1, before=None):
        """A batch that gets through, up to the note that it is whole."""
        prefix = f"{region}/q/"
        before = before or (epoch - 1, 1 if epoch else 0)
        self.put(region, Begun(epoch, attempt, before, "run"))
        name = log_name(prefix, epoch, attempt, WRITER, 0)
        self._store.put(name, SegmentWriter(pa.schema([("x", pa.int64())])).finish(name))
        self.put(region, WholeAttempt(epoch, attempt, {WRITER: 1}, (0,), 3, before, "run"))

    def settle(self, region, epoch):
        """The next batch begins."""
        name = units_name(f"{region}/q/", max(epoch - 1, 0), WRITER, 0)
        self._store.put(name, pack_units({0: "state"}, name=name))
        saved = SavedUnits(name, max(epoch - 1, 0), np.zeros(1, np.int32))
        self.put(region, Base(epoch, 1, (saved,), (BatchLog(epoch, 1, {WRITER: 1}, (0,)),)))


@pytest.fixture
def thread():
    """A query with one operator; batches 0 and 1 are settled, 2 is whole."""
    made = Unthreaded()
    assert made.saved("mean", "q", 0, new=True) == Saved(Base())
    for epoch in range(3):
        made.batch("mean", epoch)
        if epoch < 2:
            made.settle("mean", epoch)
    return made


def test_it_goes_on(thread):
    saved = thread.saved("mean", "q", 3, new=False)
    assert saved.base.key == (1, 1)
    assert [snapshot.name for snapshot in saved.base.snapshots] == ["mean/q/units/0.0.7.0"]
    assert saved.wholes == (WholeAttempt(2, 1, {WRITER: 1}, (0,), 3, (1, 1), "run"),)
    assert saved.begun == Begun(2, 1, (1, 1), "run")
    assert [bad.name for bad in verify(thread._store) if "it is missing" in bad.why] == []


@pytest.mark.parametrize(
    "gone", ["begun/", "whole/2.1", "epoch/1", "epoch/", "log/1.1.0.7.0", "log/2.1.0.7.0", "units/0.0.7.0"]
)
def test_what_is_missing_is_named_and_refused(thread, gone):
    for name in [name for name in thread.blobs if name.startswith(f"mean/q/{gone}")]:
        del thread.blobs[name]
    why = thread.saved("mean", "q", 3, new=False)
    assert isinstance(why, str)
    assert "the checkpoint of region mean and query q is not complete" in why
    assert f"mean/q/{gone}" in why
    assert "is missing" in why


def test_notes_of_another_batch_are_refused(thread):
    thread.blobs["mean/q/whole/2.1"] = thread.blobs["mean/q/epoch/1"]
    why = thread.saved("mean", "q", 3, new=False)
    assert "blob mean/q/whole/2.1 is damaged" in why
    assert "it holds what belongs in mean/q/epoch/1" in why


def test_a_batch_that_spark_runs_again_lacks_nothing(thread):
    del thread.blobs["mean/q/whole/2.1"]
    saved = thread.saved("mean", "q", 2, new=False)
    assert (saved.wholes, saved.begun.key) == ((), (2, 1))


# -- operators that come and go


def test_an_operator_with_a_new_name_has_fresh_state(thread):
    assert thread.saved("count", "q", 3, new=False) == Saved(Base())
    assert operators(thread._store, "q") == {"mean": 0, "count": 3}
    assert thread.saved("count", "q", 3, new=False).base == Base()  # the batch is run again
    thread.batch("count", 3, before=(-1, 0))
    assert thread.saved("count", "q", 4, new=False).wholes[0].key == (3, 1)


def test_an_operator_that_was_killed_before_it_left_anything(thread):
    thread.saved("count", "q", 3, new=False)
    for name in [name for name in thread.blobs if name.startswith("count/q/")]:
        del thread.blobs[name]
    assert thread.saved("count", "q", 3, new=False) == Saved(Base())
    for name in [name for name in thread.blobs if name.startswith("count/q/")]:
        del thread.blobs[name]
    assert "for operator count, which it has had since batch 3: that is lost" in thread.saved(
        "count", "q", 4, new=False
    )


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            Kept("median", 8),
            "is of mean, and this is median: give that operator, in a new Cluster, or another name, which",
        ),
        (
            Kept("mean", 16),
            "has 7 units, and this has 15: give units=7, in a new Cluster, or another name, which begins",
        ),
    ],
)
def test_another_operator_is_refused_with_what_another_name_means(thread, kept, said):
    thread.batch("mean", 3)
    thread.add("mean", kept)
    assert said in thread.saved("mean", "q", 4, new=False)


def test_an_operator_whose_state_is_lost_is_not_a_new_one(thread):
    for name in [name for name in thread.blobs if name.startswith("mean/q/")]:
        del thread.blobs[name]
    why = thread.saved("mean", "q", 3, new=False)
    assert "query q is at batch 3, and this checkpoint has no state of the batches before it" in why
    assert "Bring back all files of mean/q/ from a copy, without any '~...' suffix, or give keyed another name=" in why


def test_a_checkpoint_that_does_not_know_the_query(thread):
    thread.blobs.clear()
    why = thread.saved("mean", "q", 3, new=False)
    assert "give the checkpoint that it had, or start the query with a new checkpointLocation" in why
    assert thread.saved("mean", "q", 3, new=True) == Saved(Base())


def test_the_list_of_operators_is_missing(thread):
    del thread.blobs["evenflow.queries/q"]
    why = thread.saved("mean", "q", 3, new=False)
    assert "evenflow.queries/q is missing or does not list it" in why


def test_an_operator_that_comes_back_goes_on_from_where_it_was(thread):
    """What the others have left does not show that this is no older copy; Spark's log of its own sources does."""
    thread.saved("count", "q", 3, new=False)
    for epoch in range(3, 9):
        thread.batch("count", epoch, before=(-1, 0) if epoch == 3 else None)
        thread.settle("count", epoch)
    thread.quiet = lambda *asked: asked == ("q", 3, 8, "mean")
    assert thread.saved("mean", "q", 9, new=False).wholes[0].key == (2, 1)


# -- operators that are renamed, or vanish


def renamed(thread, name="average", was="mean", operator="mean", units=8):
    """The query is started again with another name for its operator."""
    thread._kept.clear()
    thread.add(name, Kept(operator, units, was=was))
    return thread.saved(name, "q", 3, new=False)


def test_a_renamed_operator_goes_on_with_its_state(thread):
    before = thread.saved("mean", "q", 3, new=False)
    saved = renamed(thread)
    assert [each.name for each in saved.base.snapshots] == ["average/q/units/0.0.7.0"]
    assert (saved.base.key, saved.wholes, saved.begun) == (before.base.key, before.wholes, before.begun)
    assert not [name for name in thread.blobs if name.startswith("mean/")]
    assert operators(thread._store, "q") == {"average": 0}
    assert verify(thread._store) == []
    assert thread.saved("average", "q", 3, new=False).base.key == saved.base.key, "was= may stay in the code"


def test_several_operators_of_a_query_are_renamed_at_once(thread):
    """The first that is looked for finds the state of the other still under its earlier name."""
    thread.add("count", Kept("mean", 8))
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    thread._kept.clear()
    thread.add("average", Kept("mean", 8, was="mean"))
    thread.add("number", Kept("mean", 8, was="count"))
    assert thread.saved("average", "q", 3, new=False).wholes[0].key == (2, 1)
    thread.batch("average", 3)
    assert thread.saved("number", "q", 4, new=False).wholes[0].key == (3, 1)
    assert operators(thread._store, "q") == {"average": 0, "number": 3}
    assert not query_record(thread._store, "q").absent


@pytest.mark.parametrize("name", ["average", "numbers"])
def test_a_name_that_was_listed_before_its_state_came_to_it_adopts_it(thread, name):
    """The query was started with the other name once, without was=, and broke off before it had any state."""
    before = thread.saved("mean", "q", 3, new=False)
    thread.add(name, Kept("mean", 8))
    assert thread.saved(name, "q", 3, new=False) == Saved(Base()), "the other operator is there still"
    assert renamed(thread, name).wholes == before.wholes
    assert operators(thread._store, "q") == {name: 0}
    assert verify(thread._store) == []


def test_state_is_not_adopted_over_other_state(thread):
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    sound = dict(thread.blobs)
    assert "operator count has state of its own in query q, and so has 'mean'" in renamed(thread, "count")
    assert thread.blobs == sound


def test_a_crash_while_an_operator_is_renamed_loses_nothing(thread):
    """After any put or delete: the next start finds all state, under one of the names, and renames it."""
    sound = dict(thread.blobs)
    for left in itertools.count():
        thread.blobs.clear()
        thread.blobs.update(sound)
        thread._store.left = left
        done = not isinstance(renamed(thread), str)
        thread._store.left = None
        assert renamed(thread).wholes[0].key == (2, 1)
        assert verify(thread._store) == []
        if done:
            break
    assert left > 8


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"was": None}, "is started without operator 'mean', which has state in this checkpoint. If it has another"),
        ({"was": "mode"}, "query q has no operator 'mode', as was= of operator average says: it has 'mean'. Give one"),
        ({"operator": "median"}, "the state of operator 'mean' in query q is of mean, and this is median"),
        ({"units": 16}, "the state of operator 'mean' in query q has 7 units, and this has 15"),
    ],
)
def test_a_name_that_leaves_state_behind_is_refused(thread, options, said):
    sound = dict(thread.blobs)
    assert said in renamed(thread, **options)
    assert thread.blobs == sound


def with_two(thread, **was):
    """Operators mean and count have state; the query is started again with these names, and what they were."""
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    thread.batch("mean", 3)
    thread._kept.clear()
    for name, old in was.items():
        thread.add(name, Kept("mean", 8, was=old))


@pytest.mark.parametrize("first", ["count", "total"])
def test_names_move_on_by_one(thread, first):
    """Whoever is asked first: each goes on with the state that it had under the name before."""
    thread.add("count", Kept("mean", 8))
    with_two(thread, count="mean", total="count")
    for name in (first, *({"count", "total"} - {first})):
        assert thread.saved(name, "q", 4, new=False).wholes[-1].key == (3, 1)
    assert operators(thread._store, "q") == {"count": 0, "total": 3}
    assert [each.base.key for each in (thread.saved(name, "q", 4, new=False) for name in ("count", "total"))] == [
        (1, 1),
        (-1, 0),
    ]
    assert verify(thread._store) == []


def test_a_crash_while_names_move_on_by_one_loses_nothing(thread):
    thread.add("count", Kept("mean", 8))
    with_two(thread, count="mean", total="count")
    sound = dict(thread.blobs)
    for left in itertools.count():
        thread.blobs.clear()
        thread.blobs.update(sound)
        thread._store.left = left
        done = not isinstance(thread.saved("count", "q", 4, new=False), str)
        thread._store.left = None
        assert verify(thread._store) == []
        for name, base in (("count", (1, 1)), ("total", (-1, 0))):
            saved = thread.saved(name, "q", 4, new=False)
            assert (saved.base.key, saved.wholes[-1].key) == (base, (3, 1))
        if done:
            break
    assert left > 12


def test_names_that_are_exchanged_are_refused_with_what_to_do(thread):
    thread.add("count", Kept("mean", 8))
    with_two(thread, count="mean", mean="count")
    sound = dict(thread.blobs)
    for name in ("count", "mean"):
        why = thread.saved(name, "q", 4, new=False)
        assert "operators 'count', 'mean' of query q exchange their names" in why
        assert "rename them in two starts, with a name in between that nobody has had" in why
    assert thread.blobs == sound


def test_was_may_stay_when_the_earlier_name_is_anothers(thread):
    renamed(thread)
    thread.add("mean", Kept("mean", 8))
    assert thread.saved("mean", "q", 3, new=False) == Saved(Base()), "a new operator"
    thread.batch("mean", 3, before=(-1, 0))
    thread.batch("average", 3)
    assert thread.saved("average", "q", 4, new=False).wholes[-1].key == (3, 1)
    assert thread.saved("mean", "q", 4, new=False).wholes[-1].key == (3, 1)


def test_an_older_copy_is_not_renamed(two):
    """The refusal comes before anything is written or deleted, so that the right copy can be put in its place."""
    thread, older = two
    thread._store.blobs = older
    sound = dict(older)
    thread._kept.clear()
    thread.add("average", Kept("mean", 8, was="mean"))
    thread.add("count", Kept("count", 8))
    assert "the state of operator mean is of batch 2: nothing" in thread.saved("average", "q", 7, new=False)
    assert "batch 1 of query q is older than the state" in thread.saved("average", "q", 1, new=False)
    del thread.blobs["mean/q/whole/2.1"]
    sound.pop("mean/q/whole/2.1")
    assert "of the one that has begun before mean/q/whole/2.1 is missing" in thread.saved("average", "q", 3, new=False)
    assert thread.blobs == sound


@pytest.mark.parametrize("then", ["renamed again", "another operator has the name"])
def test_what_a_broken_renaming_has_left_does_not_count(thread, then):
    """It had written all but the list; the query then goes on under the old name, where that attempt is void."""
    thread._store.left = 10
    assert "killed" in renamed(thread)
    thread._store.left = None
    assert [name for name in thread.blobs if name.startswith("average/q/whole/2.1")]
    assert operators(thread._store, "q") == {"mean": 0}
    assert verify(thread._store) == []
    thread._kept.clear()
    thread.add("mean", Kept("mean", 8))
    assert thread.saved("mean", "q", 2, new=False).wholes[0].key == (2, 1)
    thread.put("mean", Voided(2, 1, Begun(2, 2, (1, 1), "run")))
    thread.batch("mean", 2, 3, before=(1, 1))
    if then == "renamed again":
        assert [each.key for each in renamed(thread).wholes] == [(2, 3)]
    else:
        thread.add("average", Kept("other", 16))
        assert thread.saved("average", "q", 3, new=False) == Saved(Base())
        assert operators(thread._store, "q") == {"mean": 0, "average": 3}
    assert verify(thread._store) == []


def test_what_a_renaming_has_not_deleted_yet_is_not_bad(thread):
    sound, left_over = dict(thread.blobs), 0
    for left in range(40):
        thread._store.blobs = dict(sound)
        thread._store.left = left
        renamed(thread)
        thread._store.left = None
        assert verify(thread._store) == []
        left_over += "average" in operators(thread._store, "q") and any(
            name.startswith("mean/") for name in thread.blobs
        )
        assert isinstance(thread.saved("average", "q", 3, new=False), Saved)
        assert not [name for name in thread.blobs if name.startswith("mean/")]
    assert left_over > 3, "killed while it deleted"


def test_an_older_list_deletes_nothing_of_operators_that_it_does_not_list(thread):
    """Only the list is older, by which a renaming is over; then another operator has got the old name."""
    renamed(thread)
    older = {name: blob for name, blob in thread.blobs.items() if name.startswith("evenflow.queries/")}
    thread.batch("average", 3)
    thread.add("mean", Kept("mean", 8))
    assert thread.saved("mean", "q", 4, new=False) == Saved(Base())
    thread.batch("average", 4)
    thread.batch("mean", 4, before=(-1, 0))
    thread.blobs.update(older)
    before = dict(thread.blobs)
    assert "is missing or does not list it" in thread.saved("mean", "q", 5, new=False)
    assert thread.blobs == before


def test_a_name_that_was_left_and_taken_again_beside_an_older_list(thread):
    renamed(thread)
    older = {name: blob for name, blob in thread.blobs.items() if name.startswith("evenflow.queries/")}
    thread.batch("average", 3)
    thread._kept.clear()
    thread.add("mean", Kept("mean", 8, was="average"))
    assert isinstance(thread.saved("mean", "q", 4, new=False), Saved)
    thread.batch("mean", 4)
    thread.blobs.update(older)
    before = dict(thread.blobs)
    assert "is missing or does not list it" in thread.saved("mean", "q", 5, new=False)
    assert thread.blobs == before


def test_aggregates_are_not_added_to_a_batch_that_a_sink_may_have(thread):
    """Attempt 1 at batch 2 counts, and only the operator that it had can repeat it."""
    thread.put("mean", WholeAttempt(2, 1, {WRITER: 1}, (0,), 3, (1, 1), "run", True))
    thread.add("mean", Kept("mean and more", 8, None, lambda stored: ("more",) if stored == "mean" else ()))
    assert "batch 2 was evaluated without them, but Spark has not committed it" in thread.saved("mean", "q", 2, False)
    assert isinstance(thread.saved("mean", "q", 3, new=False), Saved)


def test_of_two_whole_attempts_the_newest_tells_whether_aggregates_may_be_added(thread):
    """The first one was repeated with more of them, by a driver that was killed before Spark had committed it."""
    more = Kept("mean and more", 8, None, lambda stored: ("more",) if stored == "mean" else ())
    thread.put("mean", WholeAttempt(2, 1, {WRITER: 1}, (0,), 3, (1, 1), "run", True))
    thread.add("mean", more)
    thread.put("mean", WholeAttempt(2, 2, {}, (0,), 3, (1, 1), "run", True))
    assert isinstance(thread.saved("mean", "q", 2, new=False), Saved)


def test_nothing_is_renamed_while_aggregates_cannot_be_added(thread):
    thread.put("mean", WholeAttempt(2, 1, {WRITER: 1}, (0,), 3, (1, 1), "run", True))
    thread._kept.clear()
    more = Kept("mean and more", 8, "mean", lambda stored: ("more",) if stored == "mean" else ())
    thread.add("average", more)
    before = dict(thread.blobs)
    assert "batch 2 was evaluated without them" in thread.saved("average", "q", 2, new=False)
    assert thread.blobs == before


def test_nothing_is_renamed_while_another_operator_is_an_older_copy(thread):
    thread.saved("count", "q", 3, new=False)
    older = {name: blob for name, blob in thread.blobs.items() if name.startswith("count/")}
    thread.batch("count", 3, before=(-1, 0))
    thread.batch("mean", 3)
    for name in [name for name in thread.blobs if name.startswith("count/")]:
        del thread.blobs[name]
    thread.blobs.update(older)
    thread._kept.clear()
    thread.add("count", Kept("mean", 8))
    thread.add("average", Kept("mean", 8, was="mean"))
    before = dict(thread.blobs)
    assert "in this checkpoint the state of operator count is of batch 2: nothing of it is of batch 3" in thread.saved(
        "average", "q", 4, new=False
    )
    assert thread.blobs == before


def test_a_name_beside_state_that_was_left_of_an_earlier_time(thread):
    """Another operator of the query comes first: it must not advise what was done."""
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    old = {name: blob for name, blob in thread.blobs.items() if name.startswith("mean/")}
    renamed(thread)
    thread.batch("average", 3)
    thread.blobs.update(old)
    thread._kept.clear()
    thread.add("count", Kept("mean", 8))
    thread.add("mean", Kept("mean", 8, was="average"))
    said = thread.saved("count", "q", 4, new=False)
    assert "operator 'mean' has state of its own in query q, and so has 'average'" in said
    assert "if mean/q/ is a copy of an earlier time, delete it" in said


def test_state_of_which_no_manifest_counts_is_not_sound(thread):
    """Its files were put back under names with the suffix of a driver whose claim counts fewer puts."""
    for name in [name for name in thread.blobs if name.startswith("mean/q/epoch")]:
        del thread.blobs[name]
    (bad,) = [bad for bad in verify(thread._store) if bad.name == "mean/q/epoch"]
    assert "no manifest of an epoch counts, so the state is lost" in bad.why


def test_a_refused_start_notes_nothing(thread):
    """Neither of operators that are left out on purpose."""
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    thread.batch("mean", 3)
    del thread._kept["count"]
    thread.names.absent = frozenset({"count"})
    before = dict(thread.blobs)
    assert "Stop this cluster first" in thread.checked("mean", "q", 9)
    assert thread.blobs == before


def test_nothing_is_renamed_that_is_refused_afterwards(thread):
    """The newest note is of an operator with more aggregates, which this one does not have."""
    thread._kept.clear()
    thread.add("mean", Kept("mean and more", 8))
    thread.batch("mean", 3)
    before = dict(thread.blobs)
    assert "the state of operator 'mean' in query q is of mean and more, and this is mean" in renamed(thread)
    assert thread.blobs == before


def test_state_cannot_be_taken_from_an_operator_that_is_there(thread):
    thread.add("average", Kept("mean", 8, was="mean"))
    assert "but query q has operator 'mean', too: leave was= out" in thread.saved("average", "q", 3, new=False)


def test_damaged_state_is_not_adopted(thread):
    del thread.blobs["mean/q/log/2.1.0.7.0"]
    assert "average cannot go on with the state of 'mean' in query q: mean/q/log/2.1.0.7.0" in renamed(thread)


def test_a_new_query_has_nothing_to_adopt(thread):
    thread.add("average", Kept("mean", 8, was="mean"))
    assert thread.saved("average", "q2", 0, new=True) == Saved(Base())
    thread.add("total", Kept("count", 8, was="count"))
    assert thread.saved("total", "q2", 0, new=True) == Saved(Base()), "nor has the second of two operators"


def test_a_query_without_an_operator_that_it_had(thread):
    """It is refused, unless that is said; that it was is noted with the batches, so a gap is explained."""
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    del thread._kept["mean"]
    why = thread.saved("count", "q", 4, new=False)
    assert "without operator 'mean', which has state in this checkpoint" in why
    assert "give it was='mean' beside name=" in why
    assert "give Cluster absent=['mean']: the state stays as it is" in why
    thread.names.absent = frozenset({"mean"})
    assert thread.saved("count", "q", 4, new=False).wholes
    assert query_record(thread._store, "q").absent == {"mean": (4, None)}
    thread.names.absent = frozenset()
    thread.quiet = lambda *_: True
    assert thread.saved("count", "q", 5, new=False).wholes, "it was said before"
    thread.quiet = lambda query, first, last, operator: first == last == 3
    thread.add("mean", Kept("mean", 8))
    assert thread.saved("mean", "q", 7, new=False).wholes[0].key == (2, 1)
    record = query_record(thread._store, "q")
    assert record.absent == {"mean": (4, 7)}
    assert list(record.unexplained("mean", 3, 7)) == []
    assert list(record.unexplained("mean", 3, 8)) == [(7, 7)]
    assert list(record.unexplained("mean", 2, 9)) == [(3, 3), (7, 8)]


def test_an_operator_that_never_had_a_batch_may_vanish(thread):
    thread.saved("count", "q", 3, new=False)
    del thread._kept["count"]
    assert thread.saved("mean", "q", 3, new=False).wholes


def test_sparks_plan_tells_which_operators_there_are(thread):
    thread.names.uses = lambda query, names: {name: int(name == "count") for name in names}
    assert "without operator 'mean'" in thread.saved("count", "q", 3, new=False), "though the cluster has it open"
    thread.names.uses = lambda query, names: dict.fromkeys(names, 0)
    assert thread.saved("count", "q", 3, new=False) == Saved(Base()), "a plan without the one that asks tells nothing"
    thread._kept.pop("mean")
    thread.names.uses = lambda query, names: dict.fromkeys(names, 1)
    assert thread.saved("count", "q", 3, new=False) == Saved(Base()), "though it is opened later"


def test_a_query_that_is_started_again_on_the_same_cluster(thread):
    """State is in memory, and the store is asked only whether all operators are there."""
    assert thread.checked("mean", "q", 3) == ""
    assert "nothing here is of batches 3 to 5" in thread.checked("mean", "q", 6).replace("of it ", "here ")
    thread.saved("count", "q", 3, new=False)
    thread.batch("count", 3, before=(-1, 0))
    thread.batch("mean", 3)
    del thread._kept["count"]
    assert "without operator 'count'" in thread.checked("mean", "q", 4)
    thread.names.absent = frozenset({"count"})
    assert thread.checked("mean", "q", 4) == ""
    renamed(thread)
    thread.add("mean", Kept("mean", 8))
    why = thread.checked("mean", "q", 4)
    assert "has gone to operator average in query q: give it that name" in why
    assert "or give name='mean' and was='average' in a new Cluster" in why


@pytest.mark.parametrize("ask", [lambda t: t.saved("mean", "q", 3, new=False), lambda t: t.checked("mean", "q", 3)])
def test_one_name_for_two_operators_of_a_query_is_refused(thread, ask):
    thread.names.uses = lambda query, names: dict.fromkeys(names, 2)
    assert "operator mean is 2 times in query q, and has one state" in ask(thread)
    assert "give each a name= of its own" in ask(thread)


# -- copies of another time than Spark's


def test_an_older_copy_beside_a_newer_one_of_sparks(thread):
    older = dict(thread.blobs)
    thread.saved("count", "q", 3, new=False)
    for epoch in range(3, 6):
        for region in ("mean", "count"):
            thread.batch(region, epoch, before=(-1, 0) if (region, epoch) == ("count", 3) else None)
            thread.settle(region, epoch)
    newer = dict(thread.blobs)
    assert thread.saved("mean", "q", 6, new=False).base.key == (5, 1)
    thread._store.blobs = dict(older)
    why = thread.saved("mean", "q", 6, new=False)
    assert "Spark is at batch 6 of query q, and in this checkpoint the state of operator mean is of batch 2" in why
    assert "nothing here is of batches 3 to 5, so it is an older copy" in why
    assert "Put back the copy that belongs to Spark's checkpointLocation, or start the query with a new" in why
    assert "operator count has no state yet: nothing here is of" in thread.saved("count", "q", 6, new=False)
    assert thread.blobs == older, "a refusal changes nothing"
    assert thread.saved("mean", "q", 3, new=False).base.key == (1, 1), "the batch that it belongs to"
    thread._store.blobs = newer
    assert thread.saved("count", "q", 6, new=False).base.key == (5, 1)


def test_an_older_copy_of_sparks(thread):
    """Also for an operator that has nothing of later batches: what it would leave is in the way of the right copy."""
    thread.saved("count", "q", 3, new=False)
    before = dict(thread.blobs)
    for region in ("mean", "count"):
        assert "batch 1 of query q is older than the state in the checkpoint, which is of batch 2" in thread.saved(
            region, "q", 1, new=False
        )
    assert thread.blobs == before


def test_batches_that_had_no_rows_for_any_operator_are_not_missed(thread):
    """Spark's log of offsets shows it; and it is asked for nothing else."""
    asked = []
    thread.quiet = lambda *batches: asked.append(batches) or True
    assert thread.saved("mean", "q", 5, new=False).wholes[0].key == (2, 1)
    assert asked == [("q", 3, 4, "mean")]


def test_batches_that_are_noted_as_run_without_our_operators(thread):
    note_operators(thread._store, "q", QueryRecord({"mean": 0}).unattended(3, 4))
    assert thread.saved("mean", "q", 5, new=False).wholes[0].key == (2, 1)
    assert "nothing here is of batch 5" in thread.saved("mean", "q", 6, new=False)
    assert thread.saved("count", "q", 5, new=False) == Saved(Base())
    noted = QueryRecord({"mean": 0, "count": 5}, without_us=((3, 4),))
    assert query_record(thread._store, "q") == noted, "the note stays"


def test_a_note_of_batches_that_spark_has_not_run_is_refused(thread):
    """Else it would explain whatever is missing from then on."""
    note_operators(thread._store, "q", QueryRecord({"mean": 0}).unattended(3, 1_000_000))
    why = thread.saved("mean", "q", 5, new=False)
    assert "up to batch 1000000, and Spark is at batch 5 only: note the batch that is right" in why
    assert "`evenflow state absent DIR q 4`" in why
    note_operators(thread._store, "q", query_record(thread._store, "q").unattended(3, 4))
    assert thread.saved("mean", "q", 5, new=False).wholes[0].key == (2, 1)


@pytest.fixture
def two(thread):
    """Two operators, of which one has come in batch 3; both are at batch 7. And a copy of the state at batch 3."""
    thread.saved("count", "q", 3, new=False)
    older = dict(thread.blobs)
    for epoch in range(3, 7):
        for region in ("mean", "count"):
            thread.batch(region, epoch, before=(-1, 0) if (region, epoch) == ("count", 3) else None)
            thread.settle(region, epoch)
    return thread, older


def test_an_older_copy_of_one_operator(two):
    """What the others have left since does not explain what it lacks."""
    thread, older = two
    newer = {name: blob for name, blob in thread.blobs.items() if not name.startswith("mean/")}
    mixed = newer | {name: blob for name, blob in older.items() if name.startswith("mean/")}
    thread._store.blobs = dict(mixed)
    why = thread.saved("mean", "q", 7, new=False)
    assert "the state of operator mean is of batch 2: nothing of it is of batches 3 to 6, so it is an older copy" in why
    assert "Put back the copy of mean/q/ that belongs to Spark's checkpointLocation" in why
    assert "`evenflow state absent DIR q 6 --operator mean`" in why
    assert thread.blobs == mixed, "a refusal changes nothing"
    assert thread.saved("count", "q", 7, new=False).base.key == (6, 1)
    note_operators(thread._store, "q", query_record(thread._store, "q").left_out("mean", 3, 6))
    assert thread.saved("mean", "q", 7, new=False).wholes[0].key == (2, 1)


def test_an_operator_that_never_had_a_batch_may_be_left_out_for_a_while(thread):
    """It has no state that could be of another time."""
    thread.saved("count", "q", 3, new=False)
    del thread._kept["count"]
    assert thread.saved("mean", "q", 3, new=False).wholes
    for epoch in range(3, 6):
        thread.batch("mean", epoch)
        thread.settle("mean", epoch)
    thread.add("count", Kept("count", 8))
    assert thread.saved("count", "q", 6, new=False).base == Base()


def test_an_attempt_does_not_begin_to_repeat_one_whose_note_is_not_there(thread):
    """Its own note would name what never was in the store, and the next cluster would miss that for good."""
    thread.put("mean", Begun(2, 2, (1, 1), "run", repeats=1))
    with pytest.raises(StoreError, match=r"attempt 3 repeats one whose note mean/q/whole/2\.2 could not be put"):
        thread.put("mean", Begun(2, 3, (1, 1), "run", repeats=2))
    assert not [name for name in thread.blobs if "begun/2.3" in name]
