"""A checkpoint that is not as it was left: blobs that are gone, changed or another's, or a copy of another time."""

import re

from evenflow.state.store.blob_names import parse

REFUSED = re.compile(
    r"is missing|there is no blob|is damaged|is lost|no state of the batches before|so it is an older copy"
    r"|is older than the state in the checkpoint"
)
"""How a refusal sounds that is about blobs."""


class Losses:
    """What is not as it should be in the store of a world, until somebody says so."""

    def __init__(self, world):
        self.world = world
        self.were = {}
        """By name, what blobs had that are not as they should be now."""
        self.copies = []
        """Copies of the store, and by query the batch that Spark was at, from old to new."""
        self.apart = 0
        """How often one of the two checkpoints was put back to an earlier time."""
        self.told = []
        """Refusals that named one of them."""
        self.newer = {}
        """What our checkpoint had before it was put back to an earlier time."""
        self.batches = {}
        """By query, the batch that Spark was at before its checkpoint was put back to an earlier time."""
        self.placed = None
        """What our checkpoint had right after one of the two was put back."""
        self.count = self.noticed = 0

    def copy(self):
        """Copy both checkpoints, between two batches."""
        self.copies.append((dict(self.world.store.blobs), {query.name: query.epoch for query in self.world.jobs}))

    def _put_back(self, blobs, epochs):
        """Put our checkpoint back to an earlier time, or Spark's."""
        self._forget()
        self.count += 1
        self.apart += 1
        if self.world.rng.random() < 0.7:
            self.newer, self.world.store.blobs = self.world.store.blobs, dict(blobs)
            self.world.note(f"our checkpoint is a copy of {epochs}")
        else:
            self.batches = {query.name: query.epoch for query in self.world.jobs}
            self._set(epochs)
            self.world.note(f"Spark's checkpoint is a copy of {epochs}")
        self.placed = dict(self.world.store.blobs)

    def _forget(self):
        """Before something else is done: what is not as it was is mended, unless a query has gone on with it."""
        self.mend()
        if self.placed == self.world.store.blobs:
            self._return()
        self.newer, self.batches, self.placed = {}, {}, None

    def _set(self, epochs):
        for query in self.world.jobs:
            query.epoch = epochs.get(query.name, query.epoch)

    def strike(self):
        """Lose one blob or all of a kind, change one, give it the content of another, or put back an older copy."""
        rng, blobs = self.world.rng, self.world.store.blobs
        if self.copies and rng.random() < self.world.plan.copies:
            self._put_back(*rng.choice(self.copies))
            return
        kinds = {}
        for name in sorted(blobs):
            parsed = parse(name)
            kinds.setdefault(parsed.kind if parsed is not None else "record", []).append(name)
        kinds.pop("record" if rng.random() < 0.7 else "", None)
        if not kinds:
            return
        notes = [kind for kind in ("begun", "epoch", "whole") if kind in kinds]  # few, and all that tells of a batch
        names = kinds[rng.choice(sorted(kinds) + 2 * notes)]
        chosen = names if rng.random() < 0.3 else [rng.choice(names)]
        stale = len(names) > 1 and len(chosen) == 1 and rng.random() < 0.3
        changed = len(chosen) == 1 and not stale and rng.random() < 0.3
        self._forget()
        self.were = {name: blobs[name] for name in chosen if name in blobs}
        for parsed in filter(None, map(parse, chosen)):  # a note that nothing names, and what it stood for: unknown
            if parsed.kind == "whole":
                next(query for query in self.world.jobs if query.name == parsed.query).unbound.add(parsed.epoch)
        for name in chosen:
            if changed:
                at = rng.randrange(len(blobs[name]))
                blobs[name] = (
                    blobs[name][:at] + bytes([blobs[name][at] ^ 1 << rng.randrange(8)]) + blobs[name][at + 1 :]
                )
            elif stale:
                blobs[name] = blobs[rng.choice([other for other in names if other != name])]
            else:
                blobs.pop(name, None)
        self.count += 1
        self.world.note(f"{'changed' if changed else 'stale' if stale else 'lost'}: {chosen}")

    def hear(self, task):
        """A task was refused; if that is for what was done here, somebody mends it."""
        text = str(task.error)
        if (self.were or self.newer or self.batches) and REFUSED.search(text):
            self.told.append(text)
            self.noticed += 1
            self.mend()
            self._return()

    def mend(self):
        """Bring back what was there."""
        if self.were:
            self.world.store.blobs |= self.were
            self.world.note(f"mended: {sorted(self.were)}")
            self.were = {}

    def _return(self):
        """Put back the newer of two copies."""
        if self.newer:
            self.world.note("our checkpoint is put back")
            self.world.store.blobs, self.newer = self.newer, {}
        if self.batches:
            self._set(self.batches)
            self.world.note(f"Spark goes on at {self.batches}")
            self.batches = {}

    def explain(self, task):
        """Whether a task was refused for what was done here."""
        return self.count and REFUSED.search(str(task.error)) is not None
