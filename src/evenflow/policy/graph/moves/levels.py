"""One controller for lanes, units and whole operators: the cheapest of them that can still lower the latency moves.

If each were decided by a measure of its own, one could undo what another did. Here all lower the same total
(potential-driven §3; to unite balancing within and between operators is the future work of its §6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.errors import InvalidArgument
from evenflow.model.given import whole_of
from evenflow.model.graphs.placement import PlacementProblem
from evenflow.model.graphs.spread import KEYED, LANES, OperatorMove, SpreadOperator, UnitsMove
from evenflow.policy.graph.moves.operator_moves import operator_moves
from evenflow.policy.graph.moves.spread_parts import SpreadProblem
from evenflow.policy.graph.moves.unit_moves import UnitMoves
from evenflow.policy.graph.moves.weighing import Weighing
from evenflow.policy.graph.potential import PotentialPlacement

WHOLE = 2
"""The level of whole operators."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to move: lanes, units or whole operators, never two of these at once."""

    level: int | None = None
    """LANES, KEYED or WHOLE; None if nothing is to move."""
    operators: tuple[OperatorMove, ...] = ()
    units: tuple[UnitsMove, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Levels:
    """Lanes of ordered maps first, then units of keyed operators, then whole operators.

    All levels lower one total: that of `potential`, an estimate of the latency in ms, with the units of spread
    operators in it (`SpreadProblem`). A level proposes moves, which are made if they are worth it (`Weighing`); only if
    a level has none, the next one is asked.

    Lanes and units: the hosts with the most and the least load are paired, and units chosen that make the two even
    (`HostFilling`); a host that is far away is left by all units of an operator together. Again and again until nothing
    gains, or `steps` of these or `most_units` units were found. Whole operators: those moves of `potential` that save
    most.
    """

    potential: PotentialPlacement
    doubt: float = 0.02
    most_units: int = 256
    steps: int = 32

    def __post_init__(self) -> None:
        _ = self._weighing
        for what in ("most_units", "steps"):
            if not whole_of(getattr(self, what)) >= 1:
                raise InvalidArgument(f"{what} is {getattr(self, what)!r:.100}: give a whole number, at least 1")

    @property
    def _weighing(self) -> Weighing:
        return Weighing(self.potential, self.doubt)

    def decide(self, problem: PlacementProblem, spread: Sequence[SpreadOperator]) -> Decision:
        """What is to move now. Backgrounds of hosts are without the load of these spread operators."""
        found = self.decide_units(problem, spread) if min(problem.placed, default=0) >= 0 else Decision()
        if found.level is not None or not problem.operators:
            return found
        whole = SpreadProblem(problem, spread).with_owners([each.owners for each in spread])
        moves, why = operator_moves(self._weighing, whole)
        return Decision(WHOLE, tuple(moves), (), why) if moves else Decision()

    def decide_units(self, problem: PlacementProblem, spread: Sequence[SpreadOperator]) -> Decision:
        """What is to move now if whole operators stay where they are."""
        whole = SpreadProblem(problem, spread)
        for level in (LANES, KEYED):
            if any(each.level == level for each in spread):
                moves, why = UnitMoves(self._weighing, whole, level).search(self.steps, self.most_units)
                if moves:
                    return Decision(level, (), moves, why)
        return Decision()
