"""Evenflow keeps streaming pipelines on Apache Spark balanced while they run.

The names below are the public API. They are imported when first used, so that a worker process, which imports this
package too, stays small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from evenflow._version import __version__

if TYPE_CHECKING:
    from evenflow import errors, policy, testing
    from evenflow.errors import EvenflowError
    from evenflow.runtime.cluster import Cluster
    from evenflow.runtime.session import local_session

_HOMES = {
    "Cluster": "evenflow.runtime.cluster",
    "EvenflowError": "evenflow.errors",
    "errors": "",
    "local_session": "evenflow.runtime.session",
    "policy": "",
    "testing": "",
}

__all__ = ["Cluster", "EvenflowError", "__version__", "errors", "local_session", "policy", "testing"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name) if home else importlib.import_module(f"evenflow.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
