"""Frozen dataclasses filled from tables of a scenario file; errors name the field, its place and the remedy."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from evenflow.errors import InvalidArgument, nearest

Filled = TypeVar("Filled")


def filled(kind: type[Filled], table: Any, where: str) -> Filled:
    """A value of a dataclass from a table; `where` names the table in errors, such as `[workers]`."""
    if not isinstance(table, Mapping):
        raise InvalidArgument(f"{where} is {table!r:.60}: it must be a table")
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind) if field.init}  # type: ignore[arg-type]
    for name in table:
        if name not in known:
            raise InvalidArgument(f"{where} has no field {name!r}; {nearest(str(name), known)}")
    for name, field in known.items():
        if name not in table and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidArgument(f"{where} lacks the field {name!r}: it must be given")
    given = {name: _value(hints[name], value, f"{name} in {where}") for name, value in table.items()}
    try:
        return kind(**given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    """A value of the type that a field has."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(parts, value, where)
    if origin is Literal:
        if value not in parts:
            raise InvalidArgument(f"{where} is {value!r:.60}; {nearest(str(value), map(str, parts))}")
        return value
    if origin is tuple:
        return _several(parts, value, where)
    if origin is not None and issubclass(origin, Mapping):
        return _table(parts, value, where)
    if is_dataclass(hint) and isinstance(hint, type):
        return filled(hint, value, where)
    return _plain(hint, value, where)


def _one_of(parts: Sequence[Any], value: Any, where: str) -> Any:
    kinds = [get_origin(part) or part for part in parts if part is not type(None)]
    if len(kinds) > 1 and not isinstance(value, tuple(list if kind is tuple else kind for kind in kinds)):
        raise InvalidArgument(f"{where} is {value!r:.60}: it must be {' or '.join(WORDS[kind] for kind in kinds)}")
    problems = []
    for part in parts:
        if part is type(None):
            continue
        try:
            return _value(part, value, where)
        except InvalidArgument as error:
            problems.append(str(error))
    raise InvalidArgument(problems[-1])


def _several(parts: Sequence[Any], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidArgument(f"{where} is {value!r:.60}: it must be a list")
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_value(parts[0], each, f"entry {place} of {where}") for place, each in enumerate(value))
    if len(parts) != len(value):
        raise InvalidArgument(f"{where} is {value!r:.60}: it must be a list of {len(parts)}")
    pairs = enumerate(zip(parts, value, strict=True))
    return tuple(_value(part, each, f"entry {place} of {where}") for place, (part, each) in pairs)


def _table(parts: Sequence[Any], value: Any, where: str) -> dict[Any, Any]:
    """A table; keys are texts in TOML, so whole numbers are read from them."""
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{where} is {value!r:.60}: it must be a table")
    found = {}
    for key, each in value.items():
        if parts[0] is int and not str(key).isdecimal():
            raise InvalidArgument(f"{where} has the key {key!r}: it must be a whole number")
        found[int(key) if parts[0] is int else key] = _value(parts[1], each, f"{key!r} of {where}")
    return found


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "a list"}


def _plain(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise InvalidArgument(f"{where} is {value!r:.60}: it must be {WORDS.get(hint, hint)}")
    return value
