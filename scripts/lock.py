"""Prints requirements.lock: the versions here of all that Evenflow, its lab and its dev extra need."""

from __future__ import annotations

from importlib.metadata import distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = ("evenflow", "evenflow-lab")


def closure(name: str, extras: set[str], found: dict[str, set[str]]) -> None:
    """Add a distribution and all it requires, with these extras, to `found`."""
    done = found.setdefault(canonicalize_name(name), set())
    new = ({""} | extras) - done
    done |= new
    for line in distribution(name).requires or ():
        needed = Requirement(line)
        if any(needed.marker is None or needed.marker.evaluate({"extra": extra}) for extra in new):
            closure(needed.name, needed.extras, found)


def main() -> None:
    """Print the lock file."""
    found: dict[str, set[str]] = {}
    closure("evenflow", {"dev"}, found)
    closure("evenflow-lab", {"torture"}, found)
    print("# Made by `make lock`: every dependency, development included, at the version the tests last passed with.")
    for name in sorted(found):
        if name not in OURS:
            print(f"{name}=={distribution(name).version}")


if __name__ == "__main__":
    main()
