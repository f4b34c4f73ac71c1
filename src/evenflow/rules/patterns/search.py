"""Finds the next rows that atoms may take, by time and by comparisons of numbers; compiled by numba."""

from __future__ import annotations

from evenflow.operators.compiled import compiled

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL = range(5)
OPERATORS = {"<": LESS, "<=": LESS_EQUAL, ">": GREATER, ">=": GREATER_EQUAL, "=": EQUAL}

LOOSE = {LESS: LESS_EQUAL, LESS_EQUAL: LESS_EQUAL, GREATER: GREATER_EQUAL, GREATER_EQUAL: GREATER_EQUAL, EQUAL: EQUAL}
"""The comparison that certainly holds between rounded numbers if the given one holds between the exact ones."""


@compiled
def search(places, rows, times, own, operators, who, low, high, since, until, bounds, most, owner, found):  # type: ignore[no-untyped-def]
    """For each atom in `who`, look at its places from `low` to `high` until `most` have passed.

    Returns how many places passed. They are written to `found`, and to `owner` the index in `who` of the atom of each.
    `low` moves behind the last place that was looked at.
    """
    count = 0
    for which in range(len(who)):
        handle = who[which]
        end = count + most
        at = low[handle]
        while at < high[handle] and count < end:
            place = places[at]
            at += 1
            if not since[handle] <= times[place] < until[handle]:
                continue
            passes = True
            for number in range(len(operators)):
                one, other, operator = own[number, rows[place]], bounds[handle, number], operators[number]
                if operator == LESS:
                    passes = one < other
                elif operator == LESS_EQUAL:
                    passes = one <= other
                elif operator == GREATER:
                    passes = one > other
                elif operator == GREATER_EQUAL:
                    passes = one >= other
                else:
                    passes = one == other
                if not passes:
                    break
            if passes:
                owner[count] = which
                found[count] = place
                count += 1
        low[handle] = at
    return count
