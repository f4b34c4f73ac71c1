"""Compiled parts of DLB and LPTF: keys go from engine to engine one by one; importing this module imports numba.

Keys are known by their rank in the order of their loads. The keys of an engine are a treap (a search tree by rank, a
heap by `heat`): entries of `links` are the lower and the higher child of a rank, and the root of engine e is the higher
child of the entry after the last rank plus e. The engine with least or most load is the winner of a tournament tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model.compiled import compiled

Longs = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

NOBODY = np.iinfo(np.int64).max
"""The value of a place in a tournament that does not take part."""


@compiled
def algorithm_1(loads: Longs, home: Longs, engines: Longs, spread: float, goal: float, heaviest: bool) -> int:
    """Move one key after the other until `spread` is at most `goal` or no single move lowers it; the number of moves.

    `loads` are those of the keys with rows, in rising order; `home` (the engine of each key) and `engines` (their
    loads) are changed. `spread` is n * sum(L^2) - sum(L)^2. An engine of which no key helps is left out from then on.
    Its keys will never help: the least load does not fall, and the engine gets no further key, because every engine
    that is not left out has at most its load.
    """
    keys, count = len(loads), len(engines)
    heat = _heats(keys)
    links = np.full((2, keys + count), -1, np.int32)
    for key in range(keys):
        _insert(links, heat, keys + home[key], key)
    low_loads, low = _tournament(engines)
    high_loads, high = _tournament(-engines)
    moves = 0
    while spread > goal:
        e_min, e_loaded = low[1], high[1]
        if e_loaded == e_min or high_loads[e_loaded] == NOBODY:
            break
        gap = engines[e_loaded] - engines[e_min]
        root = links[1, keys + e_loaded]
        key = _below(links, root, np.searchsorted(loads, gap)) if heaviest else _first(links, root)
        if key < 0 or loads[key] >= gap:
            high_loads[e_loaded] = NOBODY
            _replay(high, high_loads, e_loaded)
            continue
        load = loads[key]
        _remove(links, heat, keys + e_loaded, key)
        _insert(links, heat, keys + e_min, key)
        home[key] = e_min
        engines[e_loaded] -= load
        engines[e_min] += load
        for engine in (e_loaded, e_min):
            low_loads[engine], high_loads[engine] = engines[engine], -engines[engine]
            _replay(low, low_loads, engine)
            _replay(high, high_loads, engine)
        spread -= 2.0 * count * load * (gap - load)
        moves += 1
    return moves


@compiled
def longest_first(loads: Longs, engines: int) -> Longs:
    """The engine of each key, if each key in turn goes to the engine with the least load so far; `loads` fall."""
    home = np.empty(len(loads), np.int64)
    values, tree = _tournament(np.zeros(engines, np.int64))
    for key in range(len(loads)):
        least = tree[1]
        home[key] = least
        values[least] += loads[key]
        _replay(tree, values, least)
    return home


@compiled
def _tournament(values: Longs) -> tuple[Longs, Longs]:
    """The values, padded to a power of two, and the tree of winners; `tree[1]` is the place of the least value."""
    size = 2
    while size < len(values):
        size *= 2
    padded = np.full(size, NOBODY, np.int64)
    padded[: len(values)] = values
    tree = np.empty(2 * size, np.int64)
    tree[size:] = np.arange(size)
    for node in range(size - 1, 0, -1):
        one, other = tree[2 * node], tree[2 * node + 1]
        tree[node] = other if padded[other] < padded[one] else one
    return padded, tree


@compiled
def _replay(tree: Longs, values: Longs, place: int) -> None:
    """Update the winners after the value of a place has changed."""
    node = (place + len(values)) // 2
    while node:
        one, other = tree[2 * node], tree[2 * node + 1]
        tree[node] = other if values[other] < values[one] else one
        node //= 2


@compiled
def _heats(count: int) -> Array:
    """Pseudo-random numbers, the same each time (the finaliser of splitmix64)."""
    heat = np.arange(1, count + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    heat = (heat ^ (heat >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    heat = (heat ^ (heat >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return heat ^ (heat >> np.uint64(31))


@compiled
def _insert(links: Array, heat: Array, top: int, key: int) -> None:
    """Insert a key into the tree whose root hangs at `top`, at the depth of its heat; the subtree there is split."""
    at, side = top, 1
    node = links[side, at]
    while node >= 0 and heat[node] > heat[key]:
        at, side = node, 1 if key > node else 0
        node = links[side, at]
    links[side, at] = key
    lower, lower_side, higher, higher_side = key, 0, key, 1
    while node >= 0:
        if node < key:
            links[lower_side, lower] = node
            lower, lower_side = node, 1
            node = links[1, node]
        else:
            links[higher_side, higher] = node
            higher, higher_side = node, 0
            node = links[0, node]
    links[lower_side, lower] = -1
    links[higher_side, higher] = -1


@compiled
def _remove(links: Array, heat: Array, top: int, key: int) -> None:
    """Take a key out of the tree whose root hangs at `top`; its subtrees are joined."""
    at, side = top, 1
    while links[side, at] != key:
        at = links[side, at]
        side = 1 if key > at else 0
    lower, higher = links[0, key], links[1, key]
    while lower >= 0 and higher >= 0:
        if heat[lower] > heat[higher]:
            links[side, at] = lower
            at, side = lower, 1
            lower = links[1, lower]
        else:
            links[side, at] = higher
            at, side = higher, 0
            higher = links[0, higher]
    links[side, at] = lower if lower >= 0 else higher


@compiled
def _below(links: Array, node: int, bound: int) -> int:
    """The highest rank under `bound` in a tree; -1 if there is none."""
    found = -1
    while node >= 0:
        if node < bound:
            found = node
            node = links[1, node]
        else:
            node = links[0, node]
    return found


@compiled
def _first(links: Array, node: int) -> int:
    """The lowest rank in a tree; -1 if the tree is empty."""
    found = -1
    while node >= 0:
        found = node
        node = links[0, node]
    return found
