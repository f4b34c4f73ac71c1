"""Settings that few users need, as one value: `ef.Tuning`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from evenflow.control.events import Transfer
from evenflow.errors import InvalidArgument
from evenflow.model.given import check_flag, is_one_of, whole_of, with_known_keywords
from evenflow.model.routing import MOST_UNITS
from evenflow.runtime.cluster.arguments import amounts
from evenflow.runtime.cluster.arguments.warned import warn_deprecated

P = ParamSpec("P")
T = TypeVar("T")
Spread = Literal["hash", "modulo", "range"]
"""The unit of a key is its hash modulo the number of units; or the key itself modulo that, if it is a whole number; or
the range that it lies in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """Settings of one verb or of a cluster that few users need; what is left out stays as it is by default.

    For `keyed`, `join`, `detect` and `first_story`:

    - `units`: the number of units that keys are hashed into, at least that of the workers; 1024 by default, 4096 for
      `detect`, one for each fingerprint for `first_story`.
    - `spread`: "hash"; or "modulo", by which a key that is a whole number goes to unit key mod `units`; or "range", by
      which keys go to units by ranges, in the order of Spark, as in `repartitionByRange`.
    - `bounds`: with `spread="range"`, values of the key: keys below the first go to one unit, from there to below the
      second to another, and so on. Without `bounds` they are sampled from the rows, which are read once for that; a
      streaming DataFrame needs them.
    - `skew_bytes`: how many bytes of rows may wait in each Spark task, "2m" by default, while their worker is busy or
      their unit is on its way; beyond it the task takes no more rows in, and idle workers wait with it.
    - `split_keys`: True lets "river" and "pkg", which send rows of one key to several workers, share out an operator
      that needs all rows of a key in one place; its results are then wrong.

    For these and for `run`:

    - `transfer`: "direct", or "store": units move by way of the checkpoint instead of from worker to worker, which then
      need not reach each other; rows for them wait longer.

    For `run`:

    - `queue_rows`, `queue_bytes`: how many rows of each Spark task may be on their way through the graph, 100,000 and
      "16m" by default; while there are as many, nothing is taken from Spark.

    For `Cluster`:

    - `t_gap`: how units on disk take turns where rows wait for them. A number: each time that so many seconds have
      passed, the first units on disk change places with those longest in memory; "read": as many as reading the last
      took (both as in the Flux paper). By default rotations wait until enough rows do.
    """

    units: int | None = None
    spread: Spread | None = None
    bounds: Iterable[Any] | None = None
    skew_bytes: str | int | None = None
    split_keys: bool | None = None
    transfer: Transfer | None = None
    queue_rows: int | None = None
    queue_bytes: str | int | None = None
    t_gap: float | Literal["read"] | None = None

    def __post_init__(self) -> None:
        if self.units is not None and not 1 <= whole_of(self.units) <= MOST_UNITS:
            raise InvalidArgument(f"units={self.units!r}: give a whole number from the workers to {MOST_UNITS:,}")
        for name, choices in (("spread", get_args(Spread)), ("transfer", get_args(Transfer))):
            value = getattr(self, name)
            if value is not None and not is_one_of(value, choices):
                raise InvalidArgument(f"{name}={value!r}: one of {', '.join(map(repr, choices))}")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _listed(self.bounds))
        if self.skew_bytes is not None:
            amounts.room_of(self.skew_bytes)
        if self.split_keys is not None:
            check_flag("split_keys", self.split_keys)
        if self.queue_rows is not None:
            amounts.rows_of(self.queue_rows)
        if self.queue_bytes is not None:
            amounts.queue_of(self.queue_bytes)
        amounts.gap_of(self.t_gap, True)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not left out."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


Tuning.__init__ = with_known_keywords(Tuning.__init__)  # type: ignore[method-assign]


KEYED: Mapping[str, Any] = {
    "units": 1024,
    "spread": "hash",
    "bounds": None,
    "skew_bytes": "2m",
    "split_keys": False,
    "transfer": "direct",
}
"""The settings that `keyed` can use, with their defaults."""
DETECT: Mapping[str, Any] = {**KEYED, "units": 4096}
RUN: Mapping[str, Any] = {"transfer": "direct", "queue_rows": 100_000, "queue_bytes": "16m"}
CLUSTER: Mapping[str, Any] = {"t_gap": None}


def _listed(bounds: object) -> tuple[Any, ...]:
    if not isinstance(bounds, Iterable) or isinstance(bounds, str | bytes | Mapping):
        raise InvalidArgument(f"bounds={bounds!r:.100}: give a list of values of the key; n bounds make n + 1 ranges")
    return tuple(bounds)


def tuning_of(verb: str, tuning: Tuning | None, usual: Mapping[str, Any]) -> Tuning:
    """The tuning with the `usual` values for what is left out; refuses settings that the verb cannot use."""
    if not isinstance(tuning, Tuning | None):
        raise InvalidArgument(f"tuning={tuning!r:.100}: give an ef.Tuning, as in tuning=ef.Tuning(units=64)")
    given = {} if tuning is None else tuning.given
    for name, value in given.items():
        if name not in usual:
            takes = f"it takes {', '.join(usual)}" if usual else "it takes no tuning"
            raise InvalidArgument(f"{verb} cannot use {name}={value!r:.100} of its tuning: leave it out; {takes}")
    return Tuning(**{**usual, **given})


def with_tuning(name: str, usual: Mapping[str, Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """The verb of this name, which takes settings of its tuning as keywords, too, for one version.

    `settings` of the verb are the names of those that it can use.
    """

    def decorated(verb: Callable[P, T]) -> Callable[P, T]:
        @wraps(verb)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            old: dict[str, Any] = {each: keywords.pop(each) for each in usual if each in keywords}
            if old:
                first = next(iter(old))
                if keywords.get("tuning") is not None:
                    raise InvalidArgument(f"{name} got {first}= and tuning=: give it as tuning=ef.Tuning({first}=…)")
                for each, value in old.items():
                    if value is None and usual[each] is not None:
                        raise InvalidArgument(f"{each}=None: give a value, or leave it out for {usual[each]!r}")
                new = f"tuning=ef.Tuning({', '.join(f'{each}=…' for each in old)})"
                warn_deprecated(f"{name}({first}=…)", f"give {new}")
                keywords["tuning"] = Tuning(**old)
            return verb(*args, **keywords)

        call.settings = tuple(usual)  # type: ignore[attr-defined]
        return call

    return decorated
