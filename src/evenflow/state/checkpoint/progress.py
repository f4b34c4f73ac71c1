"""How far a query has come by its checkpoint, and whether Spark's own checkpoint belongs to it.

Spark is at batch m: it has committed all batches before. Every operator of ours that had a task in a batch has left a
note of it before Spark could commit it. So if an operator has left nothing of batch m-1, then it had no task in it, or
what is here of it is an older copy, whatever other operators have left. Nothing in the copy can tell which; what can
tell is Spark's log of offsets, if it shows that the batches in between had no rows for the operator, or a note that
they were run without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote as quoted

from evenflow.state.checkpoint.chain import QueryRecord, query_record
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import parse, prefix_of


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The batches of one query that a checkpoint knows of."""

    query: str
    operators: dict[str, int]
    """By operator, the newest batch that it has begun; if there is none, the batch before the one in which it came."""
    record: QueryRecord
    """What is noted of batches that were run without operators of ours."""
    least: int
    """Spark cannot be at an earlier batch than this."""

    @property
    def known(self) -> int:
        """The newest batch of which some operator has left something."""
        return max(self.operators.values(), default=-1)

    def gaps(self, operator: str, epoch: int) -> list[tuple[int, int]]:
        """First and last of batches before `epoch` that an operator has nothing of and that no note explains.

        Of an operator that is not listed, those count that no operator of the query has anything of.
        """
        return list(self.record.unexplained(operator, self.operators.get(operator, self.known), epoch))

    def apart(self, operator: str, epoch: int, quiet: Callable[[int, int], bool]) -> str:
        """Why an operator cannot go on beside Spark's checkpoint, which is at batch `epoch`; empty if it can.

        `quiet` tells whether the operator, or any one of ours if it is not listed, had no rows in some batches.
        """
        if epoch < self.least:
            return refuse_older(self, epoch)
        ahead = max((last for _, last in self.record.without_us), default=-1)
        if ahead >= epoch:
            return (
                f"it is noted that query {self.query} was run without any operator of this checkpoint up to batch "
                f"{ahead}, and Spark is at batch {epoch} only: note the batch that is right, "
                f"`evenflow state absent DIR {self.query} {epoch - 1}`"
            )
        gap = next((gap for gap in self.gaps(operator, epoch) if not quiet(*gap)), None)
        return "" if gap is None else self._refuse_gap(operator, epoch, gap)

    def _refuse_gap(self, operator: str, epoch: int, gap: tuple[int, int]) -> str:
        """Why an operator cannot go on with a checkpoint that has nothing of the batches in between."""
        first, last = gap
        batches = f"batch {first}" if first == last else f"batches {first} to {last}"
        own = self.operators.get(operator, -1)
        at = (
            f"the state of operator {operator} is of batch {own}"
            if own >= 0
            else f"operator {operator} has no state yet"
        )
        begin = f"Spark is at batch {epoch} of query {self.query}, and in this checkpoint {at}"
        end = (
            "belongs to Spark's checkpointLocation, or start the query with a new checkpoint and a new "
            "checkpointLocation"
        )
        if operator in self.operators and self.known >= first:  # others have, so it is not all of the checkpoint
            return (
                f"{begin}: nothing of it is of {batches}, so it is an older copy, and rows are missing in it. Put back "
                f"the copy of {prefix_of(operator, self.query)} that {end}; restore its files under their names "
                'without any "~..." suffix. If the query was run without this operator '
                f"in {batches}, note it: `evenflow state absent DIR {self.query} {last} --operator {quoted(operator)}`"
            )
        return (
            f"{begin}: nothing here is of {batches}, so it is an older copy, and rows are missing in it. Put back "
            f"the copy that {end}. If the query was run without any operator of this checkpoint in {batches}, note "
            f"that: `evenflow state absent DIR {self.query} {last}`"
        )


def progress(store: Store, query: str) -> QueryProgress | None:
    """The batches that a checkpoint knows of a query; None if it does not know the query."""
    listed = query_record(store, query)
    if listed is None:
        return None
    newest, least = {}, 0
    for region, since in listed.operators.items():
        begun = [since - 1]
        for kind in ("begun", "whole", "epoch"):
            names = (parse(name) for name, _ in store.names(f"{prefix_of(region, query)}{kind}/"))
            epochs = [name.epoch for name in names if name is not None]
            begun += epochs
            least = max(least, *(epoch + (kind == "epoch") for epoch in epochs), 0)
        newest[region] = max(begun)
    return QueryProgress(query, newest, listed, least)


def refuse_older(found: QueryProgress, epoch: int) -> str:
    """Why a query whose Spark checkpoint is older than this one cannot go on."""
    return (
        f"batch {epoch} of query {found.query} is older than the state in the checkpoint, which is of batch "
        f"{found.known}: Spark's checkpoint and the cluster's do not belong together. Put back Spark's "
        "checkpointLocation of the same time, or start the query with a new checkpoint and a new checkpointLocation"
    )
