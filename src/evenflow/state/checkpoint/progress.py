"""How far a query has come by its checkpoint, and whether Spark's own checkpoint belongs to it.

Spark is at batch m: it has committed all batches before. Every operator of ours that had a task in a batch has left a
note of it before Spark could commit it. So if no operator of the query has left anything of batch m-1, then none had a
task in it, or this is an older copy of the checkpoint. Nothing in the copy can tell which; what can tell is Spark's log
of offsets, if it shows that the batches in between had no rows, or a note that they were run without our operators.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.state.checkpoint.chain import query_record
from evenflow.state.store.base import Store
from evenflow.state.store.blob_names import parse, prefix_of


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The batches of one query that a checkpoint knows of."""

    query: str
    operators: dict[str, int]
    """By operator, the newest batch that it has begun; if there is none, the batch before the one in which it came."""
    through: int
    """Up to this batch it is noted that batches were run without our operators; -1 if nothing is noted."""
    least: int
    """Spark cannot be at an earlier batch than this."""

    @property
    def known(self) -> int:
        """The newest batch of which this checkpoint knows."""
        return max(self.through, *self.operators.values(), -1)

    def gap(self, epoch: int) -> tuple[int, int] | None:
        """First and last of the batches before `epoch` of which nothing is known; None if there are none."""
        return (self.known + 1, epoch - 1) if self.known + 1 < epoch else None


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
    return QueryProgress(query, newest, listed.through, least)


def refuse_gap(found: QueryProgress, region: str, epoch: int, gap: tuple[int, int]) -> str:
    """Why a query cannot go on with a checkpoint that knows nothing of the batches in between."""
    first, last = gap
    batches = f"batch {first}" if first == last else f"batches {first} to {last}"
    own = found.operators.get(region, -1)
    at = f"the state of operator {region} is of batch {own}" if own >= 0 else f"operator {region} has no state yet"
    return (
        f"Spark is at batch {epoch} of query {found.query}, and in this checkpoint {at}: nothing here is of "
        f"{batches}, so it is an older copy, and rows are missing in it. Put back the copy that belongs to Spark's "
        "checkpointLocation, or start the query with a new checkpoint and a new checkpointLocation. If the query was "
        f"run without any operator of this checkpoint in {batches}, note that: "
        f"`evenflow state absent DIR {found.query} {last}`"
    )


def refuse_older(found: QueryProgress, epoch: int) -> str:
    """Why a query whose Spark checkpoint is older than this one cannot go on."""
    return (
        f"batch {epoch} of query {found.query} is older than the state in the checkpoint, which is of batch "
        f"{found.known}: Spark's checkpoint and the cluster's do not belong together. Put back Spark's "
        "checkpointLocation of the same time, or start the query with a new checkpoint and a new checkpointLocation"
    )
