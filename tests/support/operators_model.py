"""What keyed operators should give, key by key in plain Python, and a run of one whose units move all the time."""

import math
import pickle

import numpy as np
import pyarrow as pa


def aggregate(how, window):
    """The aggregate of a list with None, NaN and infinities in it, as Spark has it."""
    values = [value for value in window if value is not None]
    if how == "count":
        return len(values)
    if not values:
        return None
    if how == "min":
        return min(values, key=lambda value: (math.isnan(value), value))
    if how == "max":
        return max(values, key=lambda value: (math.isnan(value), value))
    if how in ("std", "var") and len(values) == 1:
        return None
    special = [value for value in values if not math.isfinite(value)]
    if how in ("std", "var"):
        mean = math.nan if special else math.fsum(values) / len(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return variance if how == "var" else math.sqrt(variance)
    total = sum(special) if special else math.fsum(values)
    return total / len(values) if how == "mean" else total


def by_key(keys):
    places = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places.values()


def rolling(how, keys, values, rows):
    """Over the last `rows` rows of the key."""
    result = [None] * len(keys)
    for places in by_key(keys):
        for end, place in enumerate(places, 1):
            result[place] = aggregate(how, [values[other] for other in places[max(0, end - rows) : end]])
    return result


def rolling_time(how, keys, values, times, seconds):
    """Over the rows of the key less than `seconds` behind its latest time."""
    result = [None] * len(keys)
    for places in by_key(keys):
        for end, place in enumerate(places, 1):
            seen = places[:end]
            latest = max(times[other] for other in seen)
            result[place] = aggregate(how, [values[other] for other in seen if times[other] > latest - seconds])
    return result


def windows(keys, rows=None, times=None, seconds=None):
    """For each row, the places of the rows in its window, in the order of the window: of arrival, or of time."""
    result = [[]] * len(keys)
    for places in by_key(keys):
        for end, place in enumerate(places, 1):
            seen = places[:end]
            if seconds is not None:
                latest = max(times[other] for other in seen)
                inside = [other for other in seen if times[other] > latest - seconds]
                result[place] = sorted(inside, key=times.__getitem__)
            else:
                result[place] = seen if rows is None else seen[-rows:]
    return result


def picked(how, window):
    """The aggregate of a list of values of any type, some of them None."""
    values = [value for value in window if value is not None]
    if how == "count_distinct":
        return len(set(values))
    given = window if how in ("first", "last") else values
    if not given:
        return None
    if how in ("min", "max"):
        return min(given) if how == "min" else max(given)
    return given[0 if how.startswith("first") else -1]


def last(keys, values):
    latest, result = {}, []
    for key, value in zip(keys, values, strict=True):
        latest[key] = value if value is not None else latest.get(key)
        result.append(latest[key])
    return result


def distinct(keys, values):
    seen, result = {}, []
    for key, value in zip(keys, values, strict=True):
        members = seen.setdefault(key, set())
        members |= set() if value is None else {value}
        result.append(len(members))
    return result


def joined(keys, tags, rows=None, times=None, seconds=None):
    """(left place, right place, origin) of the pairs, tags being L and R."""
    memory, latest, result = {}, {}, []
    for place, (key, tag) in enumerate(zip(keys, tags, strict=True)):
        mine, others = memory.setdefault((key, tag), []), memory.setdefault((key, "R" if tag == "L" else "L"), [])
        if seconds is None:
            window = others[-rows:]
        else:
            latest[key] = max(latest.get(key, times[place]), times[place])
            window = sorted((other for other in others if times[other] > latest[key] - seconds), key=times.__getitem__)
            window = window if times[place] > latest[key] - seconds else []
        result += [(place, other, place) if tag == "L" else (other, place, place) for other in window]
        mine.append(place)
    return result


def moving(operator, rows, units, keys, *, seed=0, copies=3, sizes=(0, 1, 2, 7, 50, 1000), share=0.3):
    """All results and origins of copies of the operator that hand units to each other before each batch."""
    random = np.random.default_rng(seed)
    crew = [pickle.loads(pickle.dumps(operator)) for _ in range(copies)]
    owner, known = {}, np.unique(units)
    batches, origins, at = [], [], 0
    while at < rows.num_rows or not batches:
        size = int(random.choice(sizes))
        places = np.arange(at, min(at + size, rows.num_rows))
        for unit in random.choice(known, int(len(known) * share) + 1) if len(known) else ():
            source, target = owner.get(unit, 0), int(random.integers(copies))
            state = crew[source].extract(int(unit))
            if state is not None:
                crew[target].install(int(unit), pickle.loads(pickle.dumps(state)))
            owner[unit] = target
        home = np.array([owner.get(unit, 0) for unit in units[places]], np.int64)
        for which, copy in enumerate(crew):
            mine = places[home == which]
            result = copy.process(rows.take(pa.array(mine)), units[mine], keys[mine])
            batch, origin = result if isinstance(result, tuple) else (result, np.arange(len(mine)))
            batches.append(batch)
            origins.append(mine[origin])
        at += size
    origin = np.concatenate(origins)
    order = np.argsort(origin, kind="stable")
    return pa.Table.from_batches(batches).take(pa.array(order)), origin[order]


def close(one, other):
    """Equal, to eleven digits of the largest value there may be; NaN equals NaN."""
    if one is None or other is None:
        return one is other
    return (
        one == other or (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    )


def assert_close(found, expected):
    assert len(found) == len(expected)
    wrong = [(i, a, b) for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not close(a, b)]
    assert not wrong, wrong[:5]


def hashed(keys, units):
    """Keys as an array, and a unit for each that depends on nothing but the key."""
    keys = np.asarray(keys, np.int64)
    return keys, (keys.view(np.uint64) % np.uint64(units)).astype(np.int32)
