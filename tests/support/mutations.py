"""Mutations: bytes and messages as they might be if something is broken, or somebody means harm."""

from __future__ import annotations

import copy
import random
from math import inf, nan
from typing import Any

ODD_NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 0.5, 1e308, inf, nan, -0.0)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "0", "\x00", b"", b"\xff", "a" * 300, [], {}, [[]], [None], {"type": "WorkerHello"}),
    *(["<i4", 0, b""], ["O", 8, bytes(8)], ["<i8", 8, bytes(7)], ["<i8", -8, bytes(8)], ["<i8", 8, b"x" * 8]),
)


def bytes_of(draw: random.Random, data: bytes) -> bytes:
    """Some bytes changed, left out, doubled, put elsewhere or cut off: one to four times."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not out:
            return draw.randbytes(draw.randrange(1, 60))
        at = draw.randrange(len(out))
        length = draw.choice((1, 1, 2, 4, 8, 40))
        match draw.randrange(8):
            case 0:
                out[at] ^= 1 << draw.randrange(8)
            case 1:
                out[at : at + length] = draw.randbytes(length)
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = draw.randbytes(length)
            case 4:
                out[at:at] = out[at : at + length]
            case 5:
                del out[at:]
            case 6:
                number = draw.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 256 * 1024 * 1024, len(data)))
                out[at : at + 4] = (number & 0xFFFFFFFF).to_bytes(4, "little")
            case _:
                out += draw.randbytes(length)
    return bytes(out)


def message_of(draw: random.Random, message: Any) -> Any:
    """A message in which some fields are missing, are called otherwise, or hold something else."""
    if not isinstance(message, dict) or not message or draw.random() < 0.02:
        return _odd(draw)
    changed = dict(message)
    for _ in range(draw.choice((1, 1, 2))):
        name = draw.choice(list(changed) or ["type"])
        match draw.randrange(5):
            case 0:
                changed.pop(name, None)
            case 1:
                changed[str(name) + draw.choice("x\x00s")] = changed.pop(name, None)
            case 2:
                changed[name] = changed.get(draw.choice(list(message)))
            case 3 if isinstance(changed.get(name), dict):
                changed[name] = message_of(draw, changed[name])
            case _:
                changed[name] = _odd(draw)
    return changed


def _odd(draw: random.Random) -> Any:
    if draw.random() < 0.5:
        return draw.choice(ODD_NUMBERS)
    value = draw.choice(ODD_VALUES)
    return copy.deepcopy(value)
