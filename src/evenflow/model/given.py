"""What users give: keywords that a verb has, and which values count as numbers.

Numbers of numpy do, as those of Python; booleans, text and `Decimal` do not. What is no number is NaN here, which is
within no limits, so that one comparison refuses both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from math import inf, nan
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeGuard, TypeVar

from evenflow.errors import InvalidArgument, nearest

P = ParamSpec("P")
T = TypeVar("T")


def with_known_keywords(verb: Callable[P, T]) -> Callable[P, T]:
    """The verb; called with a keyword that it does not have, it names the nearest that it has."""
    known = [name for name in signature(verb).parameters if name != "self"]

    @wraps(verb)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        for name in keywords:
            if name not in known:
                raise InvalidArgument(f"{verb.__qualname__} does not take {name}; {nearest(name, known)}")
        return verb(*args, **keywords)

    return call


def is_number(value: object) -> TypeGuard[Real]:
    """Whether it is a number of Python or numpy, NaN and infinity included."""
    return isinstance(value, Real) and not isinstance(value, bool)


def number_of(value: object) -> float:
    """The number as one of Python's own; NaN if it is none."""
    if not is_number(value):
        return nan
    return int(value) if isinstance(value, Integral) else float(value)


def whole_of(value: object) -> int:
    """The whole number as one of Python's own; NaN, which is none, if it is not one."""
    found: Any = number_of(value) if isinstance(value, Integral) else nan
    return found  # type: ignore[no-any-return]


def check_numbers(owner: object, **limits: tuple[float, float]) -> None:
    """Refuse fields of `owner` outside their limits; numbers of numpy become Python's own."""
    for name, (least, most) in limits.items():
        _check(owner, name, number_of(getattr(owner, name)), least, most, f"a number from {least:g} to {most:g}")


def check_wholes(owner: object, **limits: tuple[int, int]) -> None:
    """The same of fields that are whole numbers."""
    for name, (least, most) in limits.items():
        _check(owner, name, whole_of(getattr(owner, name)), least, most, f"a whole number from {least:,} to {most:,}")


def _check(owner: object, name: str, given: float, least: float, most: float, remedy: str) -> None:
    if not least <= given <= most:
        raise InvalidArgument(f"{name} is {getattr(owner, name)!r:.100}: give {remedy}")
    object.__setattr__(owner, name, given)  # dataclasses that are frozen, too


def check_flag(what: str, value: object) -> bool:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} is {value!r:.100}: give True or False")
    return value


def is_one_of(value: object, choices: Iterable[str]) -> bool:
    """Whether it is one of some texts; what is no text is compared with none, since arrays give no one answer."""
    return isinstance(value, str) and value in tuple(choices)


def check_seed(seed: object) -> int:
    """The seed; refuses anything but a whole number."""
    if not -inf < whole_of(seed) < inf:
        raise InvalidArgument(f"seed is {seed!r:.100}: give a whole number")
    return whole_of(seed)
