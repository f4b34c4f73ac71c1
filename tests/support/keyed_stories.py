"""Stories to show balances of keyed operators; and §5.3 of the Flux paper written down."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tests.support.keyed_model import snapshot


@st.composite
def stories(draw):
    """Reports of a region: costs, loads, workers that come and go, moves that take their time or are refused."""
    seed = draw(st.integers(0, 2**32 - 1))
    workers = draw(st.integers(1, 6))
    units = draw(st.integers(1, 60))
    skew = draw(st.sampled_from([0.0, 1.0, 2.0]))
    change = draw(st.sampled_from(["none", "leaves", "joins", "restarts", "stalls"]))
    return seed, workers, units, skew, change, draw(st.booleans())


def play(balance, story, tight=None):
    """Show `balance` the story; yields each snapshot with the moves that followed.

    With `tight`, workers have budgets, together so much of the state, and what does not fit is on disk.
    """
    seed, workers, units, skew, change, obedient = story
    rng = np.random.default_rng(seed)
    live = list(range(0, 2 * workers, 2))
    load = rng.permutation(np.arange(1, units + 1) ** -skew)
    load /= load.sum()
    cost = dict.fromkeys(range(2 * workers + 1), 1e-4) | {j: 1e-4 * rng.uniform(1, 4) for j in live}
    owners = rng.choice(live, units)
    rows, version, moving, moved = np.zeros(units, np.int64), 0, 0, 0
    counters = {j: [1, 0.0, 0.0] for j in live}
    sizes = rng.integers(0, 2_000, units)
    budgets = dict.fromkeys(range(2 * workers + 1), int(sizes.sum() * (tight or 0)) // workers + 1)
    for tick in range(1, 60):
        if tick == 30 and change == "leaves" and len(live) > 1:
            owners = np.where(owners == live[0], live[1], owners)
            live, version = live[1:], version + 1
        if tick == 30 and change == "joins":
            live = [*live, 2 * workers - 1]
            counters[live[-1]] = [1, 0.0, 0.0]
        if tick == 30 and change == "restarts":
            counters[live[0]] = [2, 0.0, 0.0]
        if not (change == "stalls" and tick > 30):
            times = {j: cost[j] * load[owners == j].sum() for j in live}
            new = rng.poisson(load * 0.1 / max(*times.values(), 1e-9))
            rows = rows + new
        for j in live:
            busy = min(0.1, cost[j] * new[owners == j].sum())
            counters[j][1:] = counters[j][1] + busy, counters[j][2] + 0.1 - busy
        shown = snapshot(
            tick / 10, owners, rows, workers=live, incarnations=[counters[j][0] for j in live],
            busy=[counters[j][1] for j in live], idle=[counters[j][2] for j in live],
            version=version, moving=moving, moved=moved, bytes_moved=1_000 * moved, pause_s=0.01 * moved,
            **({} if tight is None else _in_memory(owners, sizes, [budgets[j] for j in live], live)),
        )  # fmt: skip
        moves = balance.decide(shown)
        yield shown, moves
        moving = max(0, moving - 1)
        if obedient:
            for move in moves:
                owners = owners.copy()
                owners[list(move.units)] = move.target
                moved, version, moving = moved + len(move.units), version + 1, moving + 1


def _in_memory(owners, sizes, memory, live):
    """Budgets, and which units are on disk: the last ones of each worker that have no room."""
    resident = np.ones(len(owners), bool)
    for worker, budget in zip(live, memory, strict=True):
        mine = np.flatnonzero(owners == worker)
        resident[mine] = np.cumsum(sizes[mine]) <= budget
    spilled = [int(sizes[(owners == worker) & ~resident].sum()) for worker in live]
    return {"unit_bytes": sizes, "memory": memory, "spilled": spilled, "unit_resident": resident}


NEAR = Fraction(1, 10**9)


class Tie(Exception):
    """Two figures so close that rounding decides: no case to compare."""


def less(one, other):
    if one != other and abs(one - other) < NEAR:
        raise Tie
    return one < other


def section_5_3(owners, rows, idle, delta, th_imb, th_util, fits=lambda unit, site: True):
    """§5.3, sentence by sentence, with exact fractions; sites are 0, 1, 2, ... Units that do not fit are left out."""
    sites = range(len(idle))
    used = [1 - i / delta for i in idle]
    mean = sum(used) / len(used)
    total = [sum(n for n, owner in zip(rows, owners, strict=True) if owner == j) for j in sites]
    having = [j for j in sites if used[j] > 0 and total[j] > 0]
    if not having:
        return []
    average = sum(used[j] for j in having) / sum(total[j] for j in having)
    order = sorted(sites, key=lambda j: (-used[j], j))
    moves = []
    for k in range(len(order) // 2):
        d, r = order[k], order[-1 - k]
        if less(used[d], mean) or less(used[d], th_imb * used[r]) or less(th_util, used[r]):
            break
        mine = [u for u, owner in enumerate(owners) if owner == d and fits(u, r)]
        for unit in sorted(mine, key=lambda u: (-rows[u], u)):
            if rows[unit] == 0:
                break
            u_d = used[d] * (1 - Fraction(rows[unit], total[d]))
            u_r = used[r] * (1 + Fraction(rows[unit], total[r])) if r in having else used[r] + average * rows[unit]
            high, low = max(u_d, u_r), min(u_d, u_r)
            # The ratio after is less than the ratio before; before it may be infinite, after it must not be.
            if low > 0 and (used[r] == 0 or less(high / low, used[d] / used[r])):
                if not less(1, u_r):
                    moves.append((unit, d, r))
                break
    return moves
