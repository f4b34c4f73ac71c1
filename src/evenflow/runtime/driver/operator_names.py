"""The names of operators in a checkpoint: under which name an operator finds its state, and whether one is missing.

A query that is started again may have an operator under another name (`was`), or without one that it had (`absent`).
Neither may happen unnoticed: state would be left behind, and rows that wait in it would never come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from evenflow.state.checkpoint.adoption import adopt, drop
from evenflow.state.checkpoint.chain import Latest, QueryRecord, latest, note_operators, query_record, record_name
from evenflow.state.checkpoint.manifest import Manifest
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import prefix_of

BRING_BACK = (
    'Restore what is missing from a copy, under the name shown, without any "~..." suffix: with one, it is taken for a '
    "late put of a driver that was frozen. `evenflow state verify` lists everything that is missing"
)
"""What to do about a checkpoint that lacks something."""


def not_listed(region: str, query: str) -> str:
    """Why an operator that has state cannot go on when the list of its query's operators does not name it."""
    name = record_name(query)
    return (
        f"the checkpoint of region {region} and query {query} is there, but {name} is missing or does not list it. "
        f"{BRING_BACK}. Delete any {name}~... that is there: it would count instead. But if "
        f"{prefix_of(region, query)} is left of an earlier time, or of an earlier name, delete that"
    )


ANEW = "another name, which begins with empty state"


@dataclass(frozen=True, slots=True)
class Kept:
    """An operator whose state is stored. It can go on with stored state only if all of this is the same."""

    operator: str
    units: int
    was: str | None = field(default=None, compare=False)
    """The name that it had before, if it has another one now."""
    new_beside: Callable[[str], Sequence[str]] = field(default=lambda stored: (), compare=False)
    """Given the `operator` of a manifest, the parts that this operator has beside it, and that begin empty. Without
    any, the two have to be the same for it to go on with that state."""


class OperatorNames:
    """Looks after the names of the operators that are `kept`, by region."""

    def __init__(self, kept: dict[str, Kept]) -> None:
        self._kept = kept
        self.absent: frozenset[str] = frozenset()
        """Operators that the user has left out of queries that had them."""
        self.uses: Callable[[str, Iterable[str]], dict[str, int] | None] = lambda query, names: None
        """How many times each of some operators is in the plan of a query; None if that is not known."""

    def _present(self, query: str, names: Iterable[str], region: str) -> set[str]:
        """The operators among `names` that a query has now: by Spark's plan, or those that this cluster has open.

        The plan is not relied on if `region`, whose task asks, is not found in it.
        """
        wanted = set(names)
        found = self.uses(query, wanted | {region})
        return {name for name in wanted if found[name]} if found and found[region] else wanted & set(self._kept)

    def doubled(self, region: str, query: str) -> str:
        """Why an operator that is in a query more than once is refused; empty if it is not."""
        found = self.uses(query, [region]) or {}
        if found.get(region, 0) < 2:
            return ""
        return (
            f"operator {region} is {found[region]} times in query {query}, and has one state: rows would be counted "
            "more than once. If these are several operators, give each a name= of its own; if one DataFrame is used "
            "several times, do that in foreachBatch, and persist() the batch there"
        )

    def adopted(
        self,
        store: Store,
        region: str,
        query: str,
        behind: Callable[[str, Latest, Kept | None], str],
        beat: Callable[[], None] = lambda: None,
    ) -> str:
        """Give an operator the state that it has under its earlier name; why that cannot be, or an empty text.

        `behind` tells why the state of a name is not the one from which an operator has to start Spark's batch.
        """
        was = self._kept[region].was
        record = query_record(store, query)
        if record is None:
            return ""
        record = _without_leftovers(store, record, query)
        unlisted = region not in record.operators and region not in record.leaving
        if unlisted and _has_state(store, region, query):
            return not_listed(region, query)
        if was is None or was == region or (region in record.operators and was not in record.operators):
            return ""
        if self._has_adopted(store, record, region, query):
            return ""
        if among := self._exchange(record, region, query):
            return (
                f"operators {_listed(among)} of query {query} exchange their names, as was= says: rename them in two "
                "starts, with a name in between that nobody has had"
            )
        if region in record.operators and _has_state(store, region, query):
            if not _has_state(store, was, query):  # there is nothing to take over
                return ""
            if why := self._make_way(store, record, was, region, query, behind, beat):
                return why
            record = query_record(store, query) or record
        if was not in record.operators:
            return _not_had(store, record, was, region, query)
        if self._present(query, [was], region) and not self._leaves(store, record, was, query):
            return f"operator {region} has was={was!r}, but query {query} has operator {was!r}, too: leave was= out"
        return self._take_over(store, record, was, region, query, behind, beat)

    def _make_way(
        self,
        store: Store,
        record: QueryRecord,
        was: str,
        region: str,
        query: str,
        behind: Callable[[str, Latest, Kept | None], str],
        beat: Callable[[], None],
    ) -> str:
        """Give the state under the name of a region to the operator that had this name; why that cannot be, or ''."""
        heir = self._heir(store, record, region, query)
        if not heir:
            return (
                f"operator {region} has state of its own in query {query}, and so has {was!r}, as which was= knows "
                f"it: leave was= out, and give Cluster absent=[{was!r}] to go on without that, or choose another "
                "name"
            )
        return self.adopted(store, heir, query, behind, beat)

    def _take_over(
        self,
        store: Store,
        record: QueryRecord,
        was: str,
        region: str,
        query: str,
        behind: Callable[[str, Latest, Kept | None], str],
        beat: Callable[[], None],
    ) -> str:
        """Put the state of `was` under the name of a region, if it is sound; why it is not, or an empty text."""
        found = latest(store, prefix_of(was, query))
        if found.damaged or found.missing:
            what = f"{found.damaged[0]}" if found.damaged else f"{': '.join(found.missing[0])}. {BRING_BACK}"
            return f"operator {region} cannot go on with the state of {was!r} in query {query}: {what}"
        for manifest in (found.manifest, *found.wholes):
            why = mismatch(manifest, self._kept[region]) if manifest is not None else ""
            if why:
                return f"the state of operator {was!r} in query {query} {why}"
        if why := behind(was, found, self._kept[region]):
            return why
        for other in sorted(record.expected - {was} - self.absent):  # nothing is renamed in a start that is refused
            if why := behind(other, latest(store, prefix_of(other, query)), None):
                return why
        record = record.adopting(was, region)  # not listed: else a crash in the middle would look like state of its own
        note_operators(store, query, record)
        adopt(store, query, record, was, region, beat)
        return ""

    def _has_adopted(self, store: Store, record: QueryRecord, region: str, query: str) -> bool:
        """Whether an operator already has the state of its earlier name, `was`: by now another may have that name."""
        was = self._kept[region].was
        done = region in record.operators and record.adopted.get(region) == was
        return done and _has_state(store, region, query)

    def _leaves(self, store: Store, record: QueryRecord, name: str, query: str) -> bool:
        """Whether an operator is going to take over the state of another name, and leave the state under its own."""
        kept = self._kept.get(name)
        away = kept is not None and kept.was is not None and kept.was != name and kept.was in record.operators
        return away and not self._has_adopted(store, record, name, query)

    def _heir(self, store: Store, record: QueryRecord, name: str, query: str) -> str:
        """The operator with `was=` this name that has not taken its state over yet; empty if there is none."""
        heirs = [other for other, kept in dict(self._kept).items() if kept.was == name != other]
        there = sorted(self._present(query, heirs, name))
        return next((heir for heir in there if not self._has_adopted(store, record, heir, query)), "")

    def _exchange(self, record: QueryRecord, region: str, query: str) -> list[str]:
        """A ring of operators in which each takes the name that the next one had; empty if there is none."""
        ring = [region]
        while (kept := self._kept.get(ring[-1])) is not None and kept.was is not None:
            if kept.was == region:
                return ring if record.operators.keys() >= set(ring) and len(ring) > 1 else []
            if kept.was in ring or not self._present(query, [kept.was], region):
                return []
            ring.append(kept.was)
        return []

    def vanished(self, store: Store, region: str, query: str, epoch: int) -> str:
        """Why a query must not go on without operators that it had; empty if it may, which is noted."""
        record = query_record(store, query)
        others = record.expected - {region} - self._awaited(store, query, region) if record is not None else set()
        if record is None or not others:
            return ""
        gone = sorted(others - self._present(query, others, region))
        unsaid = [name for name in gone if name not in self.absent and _has_state(store, name, query)]
        if unsaid and (heir := self._heir(store, record, unsaid[0], query)):
            return (
                f"operator {heir!r} has state of its own in query {query}, and so has {unsaid[0]!r}, as which was= "
                f"knows it: leave was= out; or, if {prefix_of(heir, query)} is a copy of an earlier time, delete it"
            )
        if unsaid:
            return (
                f"query {query} is started without operator {unsaid[0]!r}, which has state in this checkpoint. If it "
                f"has another name now, give it was={unsaid[0]!r} beside name=: it goes on with this state. If it is "
                f"left out on purpose, give Cluster absent={unsaid!r}: the state stays as it is"
            )
        if gone:
            note_operators(store, query, record.without(gone, epoch))
        return ""

    def _awaited(self, store: Store, query: str, region: str) -> set[str]:
        """Earlier names whose state goes to other operators of a query, as soon as their first rows come.

        An operator that has state of its own awaits none.
        """
        heirs = {name: kept.was for name, kept in dict(self._kept).items() if kept.was is not None}
        return {heirs[name] for name in self._present(query, heirs, region) if not _has_state(store, name, query)}

    def moved_away(self, store: Store, region: str, query: str) -> str:
        """Why an operator cannot go on with the state in memory: it has gone to another name since; empty if not."""
        record = query_record(store, query)
        heir = next((name for name, was in record.adopted.items() if was == region), "") if record is not None else ""
        if record is None or region in record.operators or not heir:
            return ""
        return (
            f"the state of operator {region} has gone to operator {heir} in query {query}: give it that name, or give "
            f"name={region!r} and was={heir!r} in a new Cluster"
        )


def _without_leftovers(store: Store, record: QueryRecord, query: str) -> QueryRecord:
    """Delete what renamings that are over, or were broken off, have left; returns what the query's record is then."""
    for name in record.leaving - record.operators.keys():
        old = record.adopted.get(name)
        needed = old in record.operators and not _has_state(store, str(old), query)
        if not needed or not _has_state(store, name, query):
            drop(store, query, name)
            record = record.dropped(name)
            note_operators(store, query, record)
    return record


def _not_had(store: Store, record: QueryRecord, was: str, region: str, query: str) -> str:
    """Why an operator cannot go on with the state of one that its query has not had; empty if it begins anew."""
    if not any(_has_state(store, name, query) for name in record.operators):
        return ""  # a new query, of which another operator came first
    return (
        f"query {query} has no operator {was!r}, as was= of operator {region} says: it has "
        f"{_listed(record.operators)}. Give one of these, or leave was= out for an operator with fresh state"
    )


def _has_state(store: Store, name: str, query: str) -> bool:
    """Whether an operator has seen a batch of a query through."""
    found = latest(store, prefix_of(name, query))
    return bool(found.wholes or found.damaged) or (found.manifest is not None and found.manifest.epoch >= 0)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def mismatch(manifest: Manifest, kept: Kept) -> str:
    """Why an operator cannot go on with the state of a manifest; empty if it can."""
    if manifest.operator != kept.operator and not kept.new_beside(manifest.operator):
        return (
            f"is of {manifest.operator}, and this is {kept.operator}: give that operator, in a new Cluster, or {ANEW}"
        )
    if manifest.units != kept.units:
        return (
            f"has {manifest.units - 1} units, and this has {kept.units - 1}: give units={manifest.units - 1}, in a new "
            f"Cluster, or {ANEW}"
        )
    return ""
