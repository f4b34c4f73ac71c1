"""A checkpoint that is not as it was left: blobs that are gone, or have what another blob had."""

import re

from evenflow.state.store.blob_names import parse

REFUSED = re.compile(r"is missing|there is no blob|is damaged|is lost|no state of the batches before")
"""How a refusal sounds that is about blobs."""


class Losses:
    """What is not as it should be in the store of a world, until somebody says so."""

    def __init__(self, world):
        self.world = world
        self.were = {}
        """By name, what blobs had that are not as they should be now."""
        self.told = []
        """Refusals that named one of them."""
        self.count = self.noticed = 0

    def strike(self):
        """Lose one blob or all of a kind, or give one the content of another."""
        rng, blobs = self.world.rng, self.world.store.blobs
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
        self.mend()
        self.were = {name: blobs[name] for name in chosen if name in blobs}
        for name in chosen:
            if stale:
                blobs[name] = blobs[rng.choice([other for other in names if other != name])]
            else:
                blobs.pop(name, None)
        self.count += 1
        self.world.note(f"{'stale' if stale else 'lost'}: {chosen}")

    def hear(self, task):
        """A task was refused; if that is for what was done here, somebody mends it."""
        text = str(task.error)
        if self.were and REFUSED.search(text):
            self.told.append(text)
            self.noticed += 1
            self.mend()

    def mend(self):
        """Bring back what was there."""
        if self.were:
            self.world.store.blobs |= self.were
            self.world.note(f"mended: {sorted(self.were)}")
            self.were = {}

    def explain(self, task):
        """Whether a task was refused for what was done here."""
        return self.count and REFUSED.search(str(task.error)) is not None
