"""The types of numpy records: tables with named fields, on which compiled data planes work."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

Records: TypeAlias = npt.NDArray[Any]
"""A table of records, or an array of numbers of any one type."""
Record: TypeAlias = Any
"""One record of a table: numpy does not tell the types of its fields."""
