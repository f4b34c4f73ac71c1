"""Functions compiled by numba. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """`function` as machine code, cached on disk beside its source or, if that is read-only, in the user's cache."""
    return _cached(function)


def compiled_in_place(function: Function) -> Function:
    """As `compiled`, for functions that make no arrays and only change what they are given.

    They count no references to their arrays, which makes calls with many arrays several times cheaper.
    """
    return _cached(function, _nrt=False)


def _cached(function: Function, **options: bool) -> Function:
    try:
        return _compile(function, cache=True, **options)
    except RuntimeError:  # neither place can be written to: every process compiles for itself
        return _compile(function, cache=False, **options)


def _compile(function: Function, cache: bool, **options: bool) -> Function:
    given: dict[str, Any] = {"cache": cache, "nogil": True, "error_model": "numpy", **options}
    machine: Function = njit(function, **given)
    return machine
