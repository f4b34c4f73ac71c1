"""Balances and placements: pure decisions, a file for each, found by name and imported on first use."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evenflow.errors import InvalidArgument, close_to

if TYPE_CHECKING:
    from evenflow.policy.graph.caps import CapsPlacement
    from evenflow.policy.graph.dyn_prog import DynProgPlacement
    from evenflow.policy.graph.greedy import GreedyPlacement
    from evenflow.policy.graph.placement import Placement
    from evenflow.policy.graph.potential import PotentialPlacement
    from evenflow.policy.graph.random_placement import RandomPlacement
    from evenflow.policy.graph.round_robin import RoundRobinPlacement
    from evenflow.policy.graph.xzh import XzhPlacement
    from evenflow.policy.keyed.auto import Auto
    from evenflow.policy.keyed.balance import KeyedBalance
    from evenflow.policy.keyed.cep.dlb import DlbH, DlbL
    from evenflow.policy.keyed.cep.kg import KeyGrouping
    from evenflow.policy.keyed.cep.lptf import Lptf
    from evenflow.policy.keyed.cep.pkg import PartialKeyGrouping
    from evenflow.policy.keyed.flux.auto import FluxAuto
    from evenflow.policy.keyed.flux.exchange import ExchangeQueues
    from evenflow.policy.keyed.flux.hash_units import Hash
    from evenflow.policy.keyed.flux.hybrid import FluxHybrid
    from evenflow.policy.keyed.flux.load import Flux
    from evenflow.policy.keyed.flux.memory import FluxMemory
    from evenflow.policy.keyed.flux.river import River
    from evenflow.policy.ordered.balance import Balance
    from evenflow.policy.ordered.blocking_rate import BlockingRate
    from evenflow.policy.ordered.credits import Credits
    from evenflow.policy.ordered.lb_adaptive import LbAdaptive, LbStatic
    from evenflow.policy.ordered.oracle import Oracle
    from evenflow.policy.ordered.reroute import Reroute
    from evenflow.policy.ordered.round_robin import RoundRobin
    from evenflow.policy.ordered.static import StaticWeights

T = TypeVar("T")

_ORDERED = {
    "blocking-rate": ("ordered.blocking_rate", "BlockingRate"),
    "credits": ("ordered.credits", "Credits"),
    "lb-adaptive": ("ordered.lb_adaptive", "LbAdaptive"),
    "lb-static": ("ordered.lb_adaptive", "LbStatic"),
    "oracle": ("ordered.oracle", "Oracle"),
    "reroute": ("ordered.reroute", "Reroute"),
    "round-robin": ("ordered.round_robin", "RoundRobin"),
    "static": ("ordered.static", "StaticWeights"),
}
_KEYED = {
    "auto": ("keyed.auto", "Auto"),
    "dlb-h": ("keyed.cep.dlb", "DlbH"),
    "dlb-l": ("keyed.cep.dlb", "DlbL"),
    "exchange": ("keyed.flux.exchange", "ExchangeQueues"),
    "flux": ("keyed.flux.load", "Flux"),
    "flux-auto": ("keyed.flux.auto", "FluxAuto"),
    "flux-hybrid": ("keyed.flux.hybrid", "FluxHybrid"),
    "flux-memory": ("keyed.flux.memory", "FluxMemory"),
    "hash": ("keyed.flux.hash_units", "Hash"),
    "kg": ("keyed.cep.kg", "KeyGrouping"),
    "lptf": ("keyed.cep.lptf", "Lptf"),
    "pkg": ("keyed.cep.pkg", "PartialKeyGrouping"),
    "river": ("keyed.flux.river", "River"),
}
_GRAPH = {
    "caps": ("graph.caps", "CapsPlacement"),
    "dp": ("graph.dyn_prog", "DynProgPlacement"),
    "greedy": ("graph.greedy", "GreedyPlacement"),
    "potential": ("graph.potential", "PotentialPlacement"),
    "random": ("graph.random_placement", "RandomPlacement"),
    "round-robin": ("graph.round_robin", "RoundRobinPlacement"),
    "xzh": ("graph.xzh", "XzhPlacement"),
}
_HOMES = {
    "Balance": "ordered.balance",
    "KeyedBalance": "keyed.balance",
    "Placement": "graph.placement",
    **{name: home for home, name in (*_ORDERED.values(), *_KEYED.values(), *_GRAPH.values())},
}


class _Choice(Mapping[str, type[T]], Generic[T]):
    """Classes of balances or placements by name; a class is imported when it is asked for."""

    def __init__(self, homes: Mapping[str, tuple[str, str]]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> type[T]:
        home, kind = self._homes[name]
        found: type[T] = getattr(import_module(f"{__name__}.{home}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


BALANCES: Mapping[str, type[Balance]] = _Choice(_ORDERED)
"""The balances of an ordered region, by name."""
KEYED_BALANCES: Mapping[str, type[KeyedBalance]] = _Choice(_KEYED)
"""The balances of a keyed operator, by name."""
PLACEMENTS: Mapping[str, type[Placement]] = _Choice(_GRAPH)
"""The placements of an operator graph, by name."""


def balance_named(name: str, **options: Any) -> Balance:
    """A new balance for an ordered region; `options` are its parameters."""
    return _named(BALANCES, name, options)


def keyed_balance_named(name: str, **options: Any) -> KeyedBalance:
    """A new balance for a keyed operator; `options` are its parameters."""
    return _named(KEYED_BALANCES, name, options)


def placement_named(name: str, **options: Any) -> Placement:
    """A new placement for an operator graph; `options` are its parameters."""
    return _named(PLACEMENTS, name, options, "placement")


def compile_estimates() -> None:
    """Compile what placements estimate latency by, or load it: the controller, which all wait for, must not have to."""
    from evenflow.policy.graph.energies.latency import compile_model

    compile_model()


def _named(choice: Mapping[str, type[T]], name: str, options: dict[str, Any], what: str = "balance") -> T:
    """A new balance or placement; one clear error if the name or a parameter is unknown, or a parameter is missing."""
    if name not in choice:
        raise InvalidArgument(f"there is no {what} {name!r}{_meant(name, choice)}")
    parameters = inspect.signature(choice[name]).parameters
    unknown = sorted(set(options) - set(parameters))
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.name not in options]
    if unknown or needed:
        takes = ", ".join(parameters) or "no parameters"
        problem = f"does not take {', '.join(unknown)}" if unknown else f"needs {', '.join(needed)}"
        meant = "".join(close_to(other, parameters) for other in unknown)
        raise InvalidArgument(f"{what} {name!r} {problem}; {meant}it takes {takes}")
    try:
        return choice[name](**options)
    except TypeError as error:
        raise InvalidArgument(
            f"{what} {name!r} cannot use {options}: {error}; give numbers where it has some"
        ) from None


def _meant(name: str, choice: Mapping[str, Any]) -> str:
    """What to do about an unknown name: the nearest ones, or who has it."""
    others = ((_ORDERED, "ordered regions"), (_KEYED, "keyed operators"), (_GRAPH, "operator graphs"))
    elsewhere = [whose for homes, whose in others if name in homes]
    known = f" here, it is for {elsewhere[0]}" if elsewhere else ""
    return f"{known}: {close_to(name, choice)}choose one of {', '.join(sorted(choice))}"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BALANCES",
    "KEYED_BALANCES",
    "PLACEMENTS",
    "Auto",
    "Balance",
    "BlockingRate",
    "CapsPlacement",
    "Credits",
    "DlbH",
    "DlbL",
    "DynProgPlacement",
    "ExchangeQueues",
    "Flux",
    "FluxAuto",
    "FluxHybrid",
    "FluxMemory",
    "GreedyPlacement",
    "Hash",
    "KeyGrouping",
    "KeyedBalance",
    "LbAdaptive",
    "LbStatic",
    "Lptf",
    "Oracle",
    "PartialKeyGrouping",
    "Placement",
    "PotentialPlacement",
    "RandomPlacement",
    "Reroute",
    "River",
    "RoundRobin",
    "RoundRobinPlacement",
    "StaticWeights",
    "XzhPlacement",
    "balance_named",
    "compile_estimates",
    "keyed_balance_named",
    "placement_named",
]
