"""Warnings that point to the user's own line, and what is deprecated: it works until the next version."""

from __future__ import annotations

import sys
import warnings

OURS = ("evenflow.runtime.cluster.", "evenflow.model.given")
"""Modules between a call of the user and its warning."""


def warn_user(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn; the warning points to the nearest caller outside of the code of verbs."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


def warn_deprecated(old: str, new: str) -> None:
    """Warn that an old way of saying something goes, and name the new one."""
    warn_user(f"{old} is deprecated and goes with the next version: {new}", DeprecationWarning)
