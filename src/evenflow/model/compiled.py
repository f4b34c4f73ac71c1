"""Functions compiled by numba. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """`function` as machine code, cached on disk beside its source or, if that is read-only, in the user's cache."""
    try:
        return _compile(function, cache=True)
    except RuntimeError:  # neither place can be written to: every process compiles for itself
        return _compile(function, cache=False)


def _compile(function: Function, cache: bool) -> Function:
    machine: Function = njit(function, cache=cache, nogil=True, error_model="numpy")
    return machine
