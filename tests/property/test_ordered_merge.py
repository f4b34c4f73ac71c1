"""The reorder buffer: whatever happens, what goes in comes out once and in order, or somebody is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evenflow.errors import ProtocolError
from evenflow.runtime.feeder.ordered.merge import OrderedMerge


@given(st.integers(1, 30).flatmap(lambda n: st.permutations(range(n))), st.data())
def test_any_completion_order_yields_the_input_order(order, data):
    merger, out = OrderedMerge(), []
    for sequence in range(len(order)):
        merger.expect(sequence % 3, sequence)
    for sequence in order:
        parts = data.draw(st.integers(1, 3))
        for part in range(parts):
            merger.add(sequence % 3, sequence, (sequence, part), size=1, last=part == parts - 1)
        out += merger.ready()
        with pytest.raises(ProtocolError):
            merger.add(sequence % 3, sequence, "again", size=1, last=True)
    assert [sequence for sequence, part in out if part == 0] == list(range(len(order)))
    assert out == sorted(out)
    assert (len(merger), merger.held_bytes) == (0, 0)


class Machine(RuleBasedStateMachine):
    """Frames are sent, sent again, answered in parts, answered late; workers are lost and come back."""

    ordered = True

    def __init__(self):
        super().__init__()
        self.merger = OrderedMerge(self.ordered)
        self.out = []
        self.sent = 0
        self.answered = set()
        self.completed = []
        self.owed = {}  # (worker, sequence) -> parts sent so far

    workers = st.integers(0, 3)

    @rule(worker=workers)
    def send(self, worker):
        self.merger.expect(worker, self.sent)
        self.owed[worker, self.sent] = 0
        self.sent += 1

    def unanswered(self):
        return sorted(set(range(self.sent)) - self.answered)

    @precondition(lambda self: self.unanswered())
    @rule(worker=workers, data=st.data())
    def send_again(self, worker, data):
        sequence = data.draw(st.sampled_from(self.unanswered()))
        if (worker, sequence) not in self.owed:
            self.merger.expect(worker, sequence)
            self.owed[worker, sequence] = 0

    @precondition(lambda self: self.owed)
    @rule(data=st.data(), last=st.booleans())
    def answer(self, data, last):
        worker, sequence = key = data.draw(st.sampled_from(sorted(self.owed)))
        first = self.merger.add(worker, sequence, (sequence, self.owed[key], worker), size=1, last=last)
        assert first == (last and sequence not in self.answered)
        self.owed[key] += 1
        if last:
            self.answered.add(sequence)
            del self.owed[key]
        if first:
            self.completed.append(sequence)

    @rule(worker=workers)
    def lose(self, worker):
        self.merger.lose(worker)
        self.owed = {key: parts for key, parts in self.owed.items() if key[0] != worker}

    @rule(worker=workers, sequence=st.integers(0, 50))
    def answer_unasked(self, worker, sequence):
        if (worker, sequence) not in self.owed:
            with pytest.raises(ProtocolError):
                self.merger.add(worker, sequence, "unasked", size=1, last=True)

    @rule()
    def take(self):
        self.out += self.merger.ready()

    @invariant()
    def nothing_lost_doubled_or_out_of_order(self):
        frames = list(dict.fromkeys(sequence for sequence, _, _ in self.out))
        assert frames == (list(range(len(frames))) if self.ordered else self.completed[: len(frames)])
        assert len([part for _, part, _ in self.out if part == 0]) == len(frames)
        for frame in frames:  # all parts of one answer, from one worker, in order
            parts = [(part, worker) for sequence, part, worker in self.out if sequence == frame]
            assert [part for part, _ in parts] == list(range(len(parts)))
            assert len({worker for _, worker in parts}) == 1

    @invariant()
    def the_books_agree(self):
        left = len({sequence for sequence, _, _ in self.out})
        assert len(self.merger) == self.sent - left
        begun = {s for (_, s), parts in self.owed.items() if parts and s not in self.answered}
        wanted = self.unanswered() if self.ordered else sorted(begun)
        owners = [{w for w, s in self.owed if s == first} for first in wanted[:1]]
        assert self.merger.head_owners == (owners[0] if owners else set())
        assert self.merger.held_bytes >= 0
        if not len(self.merger):
            assert self.merger.held_bytes == 0


class AsTheyCome(Machine):
    """The same without an order: a frame leaves when it is complete, and before any that is complete later."""

    ordered = False


TestMachine = Machine.TestCase
TestAsTheyCome = AsTheyCome.TestCase
