"""Warnings about names in `qos` that no operator has: most likely a typo."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable

LEVEL = 3
"""The stack level of the caller of the cluster's method, where the warning points to."""


class Named:
    """The names that `qos` gives weights to, and those that operators have had so far."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._used: set[str] = set()

    def use(self, name: str) -> None:
        """Note an operator's name; warn if it is not in `qos` but looks like a name that is."""
        new = name not in self._used
        self._used.add(name)
        like = difflib.get_close_matches(name, self._names - self._used, 1) if new and name not in self._names else []
        if like:
            warnings.warn(
                f"operator {name!r} has weight 1: it is not in qos, which has {like[0]!r}. If that is meant, give "
                f"it name={like[0]!r}; if not, let qos have no names like it",
                stacklevel=LEVEL,
            )

    def check(self) -> None:
        """Warn of names in `qos` that no operator has had; called when no more operators come."""
        unused = sorted(self._names - self._used)
        if unused and self._used:
            warnings.warn(
                f"qos has weights for {', '.join(map(repr, unused))}, and no operator had such a name; there were "
                f"{', '.join(map(repr, sorted(self._used)))}: give name=",
                stacklevel=LEVEL,
            )
        self._names = set()
