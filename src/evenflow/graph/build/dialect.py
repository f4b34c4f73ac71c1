"""How names and types are read where a graph is bound: what the caller knows of Spark's session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from evenflow.errors import InvalidArgument, nearest
from evenflow.operators.declared import fitting

SchemaOf: TypeAlias = Callable[[Any], pa.Schema]
"""Makes Arrow's schema of the one that a user declared, such as DDL text or a StructType of Spark's."""


@dataclass(frozen=True)
class Dialect:
    """The settings of a session that matter for columns."""

    schema_of: SchemaOf | None = None
    """Without it, only Arrow schemas are understood."""
    case_sensitive: bool = False
    ansi: bool = True
    extension_integers: bool = False
    """Whether functions of pandas DataFrames see whole numbers in pandas' nullable dtypes."""

    def schema(self, given: object, who: str) -> pa.Schema:
        """The columns that node `who` declares."""
        found = given if isinstance(given, pa.Schema) else self._parsed(given, who)
        twice = self.twice(found.names)
        if twice is not None:
            raise InvalidArgument(f"{who} declares column '{twice}' twice: rename one of them")
        return found

    def _parsed(self, given: object, who: str) -> pa.Schema:
        if self.schema_of is None:
            raise InvalidArgument(f"{who} declares schema {given!r:.100}: give a pyarrow.Schema")
        try:
            return self.schema_of(given)
        except InvalidArgument as error:
            raise InvalidArgument(f"{who}: {error}") from None

    def column(self, rows: pa.Schema, name: str, who: str) -> int:
        """The place of the column that a name means to node `who`: exact, else the only one in another case."""
        found = fitting(name, rows.names, self.case_sensitive)
        if len(found) > 1:
            choices = " or ".join(f"'{rows.names[place]}'" for place in found)
            raise InvalidArgument(f"{who} needs column '{name}', which may be {choices}: write it as one of them")
        if not found:
            raise InvalidArgument(f"{who} needs column '{name}', which does not exist; {nearest(name, rows.names)}")
        return found[0]

    def twice(self, names: list[str]) -> str | None:
        """The first name that is there a second time, as the session compares names; None if there is none."""
        seen: set[str] = set()
        for name in names:
            text = name if self.case_sensitive else name.lower()
            if text in seen:
                return name
            seen.add(text)
        return None
