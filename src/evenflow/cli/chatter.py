"""What Java says on standard error when Spark starts, and nobody can turn off, is left out."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from evenflow.runtime.threads import BackgroundThread

logger = logging.getLogger("evenflow")

CHATTER = (b"WARNING: Using incubator modules: ",)
"""How the lines begin that are left out: Spark's launcher asks for the module, and Java warns of it each time."""


def wanted(line: bytes) -> bool:
    """Whether a line is to be seen."""
    return not line.startswith(CHATTER)


@contextmanager
def less_chatter() -> Iterator[None]:
    """Processes that are started in this context have their standard error passed on line by line, without CHATTER.

    A thread does so until the last of them has ended, or this process has; what this process itself says is not passed
    through it any more once the context is left.
    """
    out, into = os.pipe()
    shown = os.dup(2)
    os.dup2(into, 2)
    os.close(into)
    BackgroundThread("stderr", partial(_pass_on, out, shown), _failed).begin()
    try:
        yield
    finally:
        os.dup2(shown, 2)


def _failed(error: BaseException) -> None:
    logger.warning("what Spark says on standard error is not passed on any more: %r", error)


def _pass_on(out: int, shown: int) -> None:
    with open(out, "rb", buffering=0) as lines:
        for line in lines:
            if wanted(line):
                os.write(shown, line)
