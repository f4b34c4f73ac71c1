"""JSON with a checksum of itself: the form of claims, lists of operators and manifests.

The checksum covers the content and not the name of the blob, so whoever reads one compares the name that the content
carries (the claim, the query, the batch) with the name it was read under.
"""

from __future__ import annotations

import json
from typing import Any

import xxhash

from evenflow.state.store.base import corrupt


def sealed(fields: object) -> bytes:
    """JSON with a checksum; equal values always become equal bytes."""
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f'{{"checksum":"{checksum(body)}","manifest":{body}}}\n'.encode()


def unsealed(content: bytes, name: str, what: str) -> dict[str, Any]:
    """The reverse of `sealed`; `CorruptState` if any byte has changed. `what` is what the blob should be."""
    try:
        fields: dict[str, Any] = json.loads(content)["manifest"]
        intact = sealed(fields) == content
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise corrupt(name, 0, f"it is no {what}: {type(error).__name__}: {error}") from None
    if not intact:
        raise corrupt(name, 0, "it fails its checksum")
    return fields


def checksum(text: str) -> str:
    """The checksum of a text."""
    return xxhash.xxh3_64_hexdigest(text.encode())
