"""Which of Evenflow's own modules stored state names: an Evenflow in which they have other names could not read it."""

import pickletools

from evenflow.state.checkpoint.unit_snapshots import HEADER, INDEX_AT, MAGIC, _entries, _states


def own_names(content):
    """The texts in the pickles of a unit snapshot that begin as the names of Evenflow's modules do."""
    view = memoryview(bytearray(content))
    end = INDEX_AT + HEADER.unpack_from(view)[2]
    entries = list(_entries(view[INDEX_AT:end]))
    states = _states(lambda start, length: view[start : start + length], end, entries, "")
    pickles = (bytes(state[: entry.lengths[0]]) for entry, state in states)
    texts = (text for each in pickles for _, text, _ in pickletools.genops(each))
    return {text for text in texts if isinstance(text, str) and text.startswith("evenflow.")}


def own_names_below(directory):
    """Those in all unit snapshots below a directory."""
    found = set()
    for path in directory.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if content[: len(MAGIC)] == MAGIC:
                found |= own_names(content)
    return found
