"""Functions compiled by numba. Importing this module imports numba."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import sleep
from typing import IO, Any

from numba import njit
from numba.core.compiler_lock import global_compiler_lock

Function = Callable[..., Any]

PAUSE_S = 0.02
TRIES = 3000
"""A minute: whoever compiles longer than that may be stopped, and is not waited for."""


def compiled(function: Function) -> Function:
    """`function` as machine code, cached on disk beside its source or, if that is read-only, in the user's cache.

    Of several processes that need it at the same time one compiles it, and the others wait for what it puts there:
    workers start together, on the same cores.
    """
    return _cached(function)


def compiled_in_place(function: Function) -> Function:
    """As `compiled`, for functions that make no arrays and only change what they are given.

    They count no references to their arrays, which makes calls with many arrays several times cheaper.
    """
    return _cached(function, _nrt=False)


def _cached(function: Function, **options: bool) -> Function:
    try:
        machine: Any = _compile(function, cache=True, **options)
    except RuntimeError:  # neither place can be written to: every process compiles for itself
        return _compile(function, cache=False, **options)
    file = f"{machine.stats.cache_path}/{function.__module__}.{function.__qualname__}.lock"
    machine.compile = partial(_compile_alone, partial(_compile_fresh, machine, machine.compile), file)
    done: Function = machine
    return done


def _compile(function: Function, cache: bool, **options: bool) -> Function:
    given: dict[str, Any] = {"cache": cache, "nogil": True, "error_model": "numpy", **options}
    machine: Function = njit(function, **given)
    return machine


def _compile_fresh(machine: Any, compile_it: Function, signature: Any) -> Any:
    """Compile for a signature. What is on disk is dropped if it names a class of records that is gone."""
    try:
        return compile_it(signature)
    # numba reads the types of arguments before it looks at the age of what it has stored
    except (AttributeError, ImportError):
        machine._cache.flush()
        return compile_it(signature)


_depth = 0
"""Functions that this process compiles, each for the one before: only the first is locked, so nobody waits in turn."""


def _compile_alone(compile_it: Function, file: str, signature: Any) -> Any:
    """Compile for a signature, or load what another process has compiled meanwhile."""
    global _depth
    with global_compiler_lock:  # numba's own, between threads
        _depth += 1
        try:
            if _depth > 1:
                return compile_it(signature)
            with _locked(file):
                return compile_it(signature)
        finally:
            _depth -= 1


@contextmanager
def _locked(file: str) -> Iterator[None]:
    """Hold the lock of a file if that can be had: without it, code is only compiled more often than needed."""
    with ExitStack() as held:
        with suppress(OSError):  # the folder has become read-only, or its file system has no locks
            _lock(held.enter_context(open(file, "a")))
        yield


def _lock(opened: IO[str]) -> None:
    for _ in range(TRIES):
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            sleep(PAUSE_S)
