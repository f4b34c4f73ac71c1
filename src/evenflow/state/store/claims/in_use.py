"""The errors for a checkpoint that another cluster has: they say which one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from evenflow.errors import StoreInUse


def taken(where: str, about: Mapping[str, Any]) -> StoreInUse:
    """The error for a checkpoint that another cluster holds; `about` is what that one wrote about itself."""
    who = _who(about)
    return StoreInUse(f"{where} is in use by {who}: stop that one first, or give this one a checkpoint of its own")


def said_by(holder: bytes) -> Mapping[str, Any]:
    """Parse what the holder of a lock wrote about itself; empty if it is being written, or was just released."""
    try:
        about = json.loads(holder)
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def lost(about: Mapping[str, Any]) -> StoreInUse:
    """The error for a checkpoint that was ours and is now held by the one that `about` describes."""
    return StoreInUse(
        f"the checkpoint was taken over by {_who(about)} while this cluster was frozen or cut off: nothing it does now "
        "counts, so its queries have ended; stop it, and let them go on there"
    )


def _who(about: Mapping[str, Any]) -> str:
    """A holder in words."""
    try:
        since = datetime.fromtimestamp(about["since"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{about['owner']} (host {about['host']}, process {about['pid']}, since {since})"
    except (ValueError, KeyError, TypeError, OverflowError, OSError):  # see `said_by`
        return "another cluster"
