"""Results of keyed operators made whole: in parts or at once, with columns that stayed, in order or as they come."""

import random
import weakref
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from evenflow.operators.hosted import ORIGIN
from evenflow.runtime.feeder.keyed.merger import KeyedMerger
from evenflow.runtime.feeder.keyed.skew import ChunkPiece

KEPT = pa.schema([("id", pa.int64()), ("text", pa.string())])
ADDED = pa.schema([("tenfold", pa.int64())])
OWN = pa.schema([("id", pa.int64()), ("tenfold", pa.int64())])


class Frames:
    """Chunks of rows, cut into pieces, and sent in frames of a few pieces each."""

    def __init__(self, seed, kept, ordered):
        self.rng = random.Random(seed)
        self.kept = kept
        self.ordered = ordered
        self.merger = KeyedMerger(pa.schema([*KEPT, *ADDED]) if kept else OWN, len(KEPT) if kept else 0, ordered)
        self.ids = list(range(200))
        pieces = [piece for chunk in range(4) for piece in self.pieces(chunk)]
        self.rng.shuffle(pieces)
        groups = [pieces[start : start + 3] for start in range(0, len(pieces), 3)]
        self.sent = {self.merger.sent(0, group): group for group in groups}

    def pieces(self, chunk):
        ids = self.ids[chunk * 50 : chunk * 50 + 50]
        assert self.merger.expect(len(ids), float(chunk)) == chunk
        owner = np.array([self.rng.randrange(5) for _ in ids])
        for which in range(5):
            places = np.flatnonzero(owner == which)
            values = [ids[place] for place in places]
            rows = pa.RecordBatch.from_arrays([pa.array(values, pa.int64()), pa.array(map(str, values))], schema=KEPT)
            yield ChunkPiece(rows, 16.0, chunk, places if self.ordered else None, float(chunk))

    def results(self, sequence, places, told):
        ids = pa.concat_batches([piece.rows for piece in self.sent[sequence]]).column(0).to_numpy()[places]
        columns = [pa.array(ids * 10)] if self.kept else [pa.array(ids), pa.array(ids * 10)]
        batch = pa.RecordBatch.from_arrays(columns, schema=ADDED if self.kept else OWN)
        return batch.append_column(ORIGIN, pa.array(places)) if told else batch

    def answer(self, sequence, told, taken):
        places = np.arange(sum(piece.rows.num_rows for piece in self.sent[sequence]))
        if not taken:
            middle = len(places) // 2
            self.merger.add(sequence, self.results(sequence, places[:middle], told), told, last=False)
            self.merger.add(sequence, self.results(sequence, places[middle:], told), told, last=True)
            return
        late = np.array([self.rng.random() < 0.5 for _ in places])
        parts = [self.results(sequence, some, told) for some in (places[~late], places[late])]
        self.merger.take(sequence)
        self.merger.add(sequence, None, False, last=False)
        self.merger.add(sequence, parts[0], told, last=False)
        self.merger.add(sequence, parts[1], told, last=True)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("parted", [False, True])
def test_every_row_has_its_result(kept, ordered, parted):
    for seed in range(20):
        frames = Frames(seed, kept, ordered)
        sequences = list(frames.sent)
        frames.rng.shuffle(sequences)
        rows, ages = [], Counter()
        for sequence in sequences:
            taken = parted and frames.rng.random() < 0.5
            told = (ordered or kept) and (parted or (not kept and frames.rng.random() < 0.5 and ordered))
            frames.answer(sequence, told, taken)
            ready = [row for batch in frames.merger.ready() for row in batch.to_pylist()]
            rows += ready
            for arrived, count in frames.merger.ages():
                ages[arrived] += count
            if told or not taken:  # a row is counted when its result leaves
                assert ages.total() == len(rows)
                assert ages == Counter(row["id"] // 50 for row in rows)
        assert ages == dict.fromkeys(range(4), 50)
        expected = [{"id": i} | ({"text": str(i)} if kept else {}) | {"tenfold": i * 10} for i in frames.ids]
        assert (rows if ordered else sorted(rows, key=lambda row: row["id"])) == expected
        assert not len(frames.merger)
        assert frames.merger.held_bytes == 0


def test_results_of_a_taken_frame_leave_as_they_come():
    frames = Frames(1, kept=True, ordered=False)
    frames.merger.take(1)
    assert frames.merger.held_bytes == sum(piece.size for piece in frames.sent[1]) > 0
    frames.merger.add(1, frames.results(1, np.array([2, 0]), True), True, last=False)
    assert sum(batch.num_rows for batch in frames.merger.ready()) == 2
    assert frames.merger.ready() == []


def test_rows_of_a_taken_frame_are_kept_only_for_what_needs_them():
    frames = Frames(1, kept=False, ordered=False)
    rows = [weakref.ref(piece.rows) for piece in frames.sent.pop(1)]
    frames.merger.take(1)
    assert frames.merger.held_bytes == 0
    assert [batch() for batch in rows] == [None] * len(rows)


def test_results_that_come_before_their_turn_wait():
    frames = Frames(2, kept=False, ordered=True)
    first = next(number for number, pieces in frames.sent.items() if any(not p.chunk for p in pieces))
    for sequence in [number for number in frames.sent if number != first]:
        frames.answer(sequence, told=False, taken=False)
    assert frames.merger.ready() == []
    assert frames.merger.held_bytes > 0
