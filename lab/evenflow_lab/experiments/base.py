"""An experiment: a run, the claims that its data decides, and the pictures drawn from it.

Data is JSON and is kept in a file; claims are judged and pictures drawn from that file alone, so both can be made again
without running anything. Whether a claim holds is computed by its criterion, never written down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Data = dict[str, Any]
"""The data of an experiment: anything that JSON can hold."""


def _nobody(part: float) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How large an experiment is run."""

    quick: bool = False
    """Whether at reduced size: the same claims, fewer points and shorter runs."""
    seed: int = 1
    progress: Callable[[float], None] = _nobody
    """Told how much of the experiment is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a claim."""

    ours: str
    """Our figures, in words."""
    holds: bool
    why: str = ""
    """With figures: why it does not hold; or a difference from the paper although it holds."""

    def __post_init__(self) -> None:
        if not self.holds and not self.why:
            raise ValueError(f"a claim that does not hold needs a reason: {self.ours}")


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A claim of a paper about its system."""

    id: str
    """As in the list of claims: O-f8a, F-f7, ..."""
    source: str
    """The paper and the place in it."""
    paper: str
    """The claim in the paper's terms."""
    criterion: str
    """The condition under which it holds, in words; `judge` computes it."""
    judge: Callable[[Data], Finding]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure like one of the paper's, with our own balances as further curves."""

    name: str
    """Of the file, without its ending: ordered-figure-8a."""
    caption: str
    draw: Callable[[Data, Figure], None]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A run with its claims and pictures. The same setting must give the same data."""

    name: str
    run: Callable[[Setting], Data]
    claims: tuple[PaperClaim, ...] = ()
    pictures: tuple[Picture, ...] = ()
    version: int = 1
    """Raised when `run` changes: data of other versions is not used again."""
    aspects: tuple[str, ...] = field(default=())
    """Words by which it is found beside its name and its claims."""
