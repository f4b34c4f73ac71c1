"""The values of expressions as Arrow's functions take and return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

Datum: TypeAlias = pa.Array | pa.Scalar
"""A column, or one value for all rows: Arrow's own word. mypy does not know pyarrow, and so takes it for anything."""
Apply: TypeAlias = Callable[..., Datum]
"""A function of Arrow, or one like it: from one Datum or several to one."""
