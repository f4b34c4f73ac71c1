"""The next rows that atoms may take, as far as their times and comparisons of numbers tell; compiled by numba."""

from __future__ import annotations

from evenflow.operators.compiled import compiled

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL = range(5)
OPERATORS = {"<": LESS, "<=": LESS_EQUAL, ">": GREATER, ">=": GREATER_EQUAL, "=": EQUAL}

LOOSE = {LESS: LESS_EQUAL, LESS_EQUAL: LESS_EQUAL, GREATER: GREATER_EQUAL, GREATER_EQUAL: GREATER_EQUAL, EQUAL: EQUAL}
"""What still holds of two numbers when they are rounded."""


@compiled
def search(places, rows, times, own, operators, who, low, high, since, until, bounds, most, owner, found):  # type: ignore[no-untyped-def]
    """Look at the places `low` to `high` for each of `who`, up to the first `most` that pass; how many passed.

    Those are in `found`, as places, and whose they are in `owner`, as places in `who`. What is left is `low` to `high`.
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
