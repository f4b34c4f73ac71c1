"""Splits texts into words, in compiled code.

A word is a run of letters and digits of any script, in lower case, with marks such as accents inside it. Chinese and
Japanese are written without spaces: there each character is a word. A #tag is the word after the #. Links (http:// or
https:// up to the next white space) and @names are skipped: copies of a story differ in them.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.errors import InvalidArgument
from evenflow.operators.columns import locked, validity
from evenflow.operators.compiled import compiled

MOST_WORDS = 4096
"""Only the first MOST_WORDS words of a text count, so that memory and time are bounded for texts of any length."""

OTHER, ALONE, LETTER, MARK = range(4)
"""Kinds of characters. Words consist of LETTER and MARK, and begin with LETTER; ALONE is a word by itself."""
PLAIN = 0x20000
"""Code points from here on are taken as ideographs."""
IDEOGRAPHS = ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))

Texts: TypeAlias = Any
"""Texts as a user has them: an Arrow array, a pandas Series, or any iterable of strings."""

BASIS = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
MIX = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
AT, UNDERSCORE, SLASH, COLON = (ord(sign) for sign in "@_/:")
H, T, P, S = (ord(letter) for letter in "htps")


class Alphabet(NamedTuple):
    """All characters below PLAIN."""

    kinds: npt.NDArray[np.uint8]
    lowers: npt.NDArray[np.int32]
    """Their lower cases."""


class Pieces(NamedTuple):
    """Strings or binaries as compiled code reads them."""

    data: npt.NDArray[np.uint8]
    """The bytes of all."""
    starts: npt.NDArray[np.int64]
    """Where each begins in `data`, and where the last ends."""
    known: npt.NDArray[np.bool_]
    """Which are not null, as `validity` says."""


def kind_of(code: int) -> int:
    """The kind of a character."""
    if code >= PLAIN:
        return ALONE
    category = unicodedata.category(chr(code))[0]
    if category in "LN":
        return ALONE if any(low <= code <= high for low, high in IDEOGRAPHS) else LETTER
    return MARK if category == "M" else OTHER


def lower_of(code: int) -> int:
    """A character in lower case; unchanged if its lower case is several characters."""
    low = chr(code).lower()
    return ord(low) if len(low) == 1 else code


@cache
def alphabet() -> Alphabet:
    """Kinds and lower cases of all characters below PLAIN."""
    kinds = [kind_of(code) for code in range(PLAIN)]
    lowers = [lower_of(code) for code in range(PLAIN)]
    return Alphabet(locked(np.array(kinds, np.uint8)), locked(np.array(lowers, np.int32)))


def strings(texts: Texts) -> pa.Array:
    """Texts as one Arrow array, from an array, a pandas Series or any iterable."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if isinstance(texts, str):
        raise InvalidArgument(f"texts is the string {texts!r:.40}: give a list of texts")
    if not isinstance(texts, pa.Array):
        try:
            texts = pa.array(texts if hasattr(texts, "__len__") else list(texts), from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise InvalidArgument(f"texts are not all strings: {error}") from None
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    is_ = pa.types
    if is_.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    if is_.is_null(texts.type) or is_.is_string_view(texts.type):
        texts = texts.cast(pa.string())
    if not (is_.is_string(texts.type) or is_.is_large_string(texts.type)):
        raise InvalidArgument(f"texts are {texts.type}: give strings")
    return texts


def pieces(column: pa.Array) -> Pieces:
    """A column of strings or binaries, without a copy of their bytes."""
    _, offsets, data = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    width = np.int64 if wide else np.int32
    if not len(column):
        return Pieces(locked(np.empty(0, np.uint8)), locked(np.zeros(1, np.int64)), validity(column))
    starts = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Pieces(locked(content), locked(starts), validity(column))


@compiled
def _decoded(data, at, end):  # type: ignore[no-untyped-def]
    """The character at a place of UTF-8 text, and its length in bytes; invalid UTF-8 is read as single bytes."""
    first = np.int64(data[at])
    if first < 0xC0 or at + 1 >= end:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | np.int64(data[at + 1] & 0x3F), 2
    if first < 0xF0 and at + 2 < end:
        return (first & 0x0F) << 12 | np.int64(data[at + 1] & 0x3F) << 6 | np.int64(data[at + 2] & 0x3F), 3
    if at + 3 < end:
        high = (first & 0x07) << 18 | np.int64(data[at + 1] & 0x3F) << 12
        return high | np.int64(data[at + 2] & 0x3F) << 6 | np.int64(data[at + 3] & 0x3F), 4
    return first, 1


@compiled
def _link(data, at, end):  # type: ignore[no-untyped-def]
    """The end of the link that begins at a place; the place itself if there is no link."""
    if at + 7 > end or (data[at] | 32) != H or (data[at + 1] | 32) != T or (data[at + 2] | 32) != T:
        return at
    if (data[at + 3] | 32) != P:
        return at
    rest = at + 5 if (data[at + 4] | 32) == S else at + 4
    if rest + 3 > end or data[rest] != COLON or data[rest + 1] != SLASH or data[rest + 2] != SLASH:
        return at
    while rest < end and data[rest] > 32:
        rest += 1
    return rest


@compiled
def _feature(mixed, shift):  # type: ignore[no-untyped-def]
    """A word's number from its hash: the highest bits, mixed once more."""
    return np.int32(((mixed ^ (mixed >> HALF)) * MIX) >> shift)


@compiled
def _name_end(data, at, end, kinds):  # type: ignore[no-untyped-def]
    """The end of the name that begins at a place."""
    while at < end:
        code, width = _decoded(data, at, end)
        if code >= PLAIN or not (kinds[code] >= LETTER or code == UNDERSCORE):
            break
        at += width
    return at


@compiled
def read_words(data, start, end, kinds, lowers, shift, found):  # type: ignore[no-untyped-def]
    """Fill `found` with the numbers of a text's words, in order; returns how many there are."""
    count, at, inside, mixed = 0, start, False, BASIS
    while at < end and count < len(found):
        code, width = np.int64(data[at]), 1
        if code >= 0x80:
            code, width = _decoded(data, at, end)
        kind = kinds[code] if code < PLAIN else ALONE
        if inside and kind >= LETTER:
            mixed = (mixed ^ np.uint64(lowers[code])) * PRIME
            at += width
            continue
        before, inside = inside, False
        if before:
            found[count] = _feature(mixed, shift)
            count += 1
            if count == len(found):
                break
        if kind == LETTER:
            after = _link(data, at, end) if code | 32 == H else at
            if after > at:
                at = after
                continue
            inside, mixed = True, (BASIS ^ np.uint64(lowers[code])) * PRIME
        elif kind == ALONE:
            low = lowers[code] if code < PLAIN else np.int32(code)
            found[count] = _feature((BASIS ^ np.uint64(low)) * PRIME, shift)
            count += 1
        elif code == AT and not before:
            at = _name_end(data, at + 1, end, kinds)
            continue
        at += width
    if inside and count < len(found):
        found[count] = _feature(mixed, shift)
        count += 1
    return count
