"""How verbs are told of and ended: help without the marks of the library, and pipes that close early."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Function = TypeVar("Function", bound=Callable[..., Any])
LAB = ("bench", "reproduce", "torture")
CLOSED = 141
"""The exit code if nobody reads on what is printed, as of programs that SIGPIPE ends."""


def _flowing(text: str | None) -> str | None:
    """A docstring whose paragraphs are lines, to be broken where the terminal ends."""
    return text and "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _unmarked(params: list[Any]) -> list[Any]:
    """The parameters; a flag takes no value, so that none is shown."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Verb(TyperCommand):
    """A verb."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help = _flowing(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        return _unmarked(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What the usage consists of; what is needed has no braces around it."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class VerbGroup(TyperGroup):
    """Verbs under one name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that is asked for; one of the lab's is named with its package where that is not installed."""
        if args[0] in LAB and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"{args[0]} is a verb of evenflow-lab: run `pip install ./lab` in the source tree of Evenflow")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return _unmarked(super().get_params(ctx))


class Verbs(typer.Typer):
    """Verbs of the command line, to which `command` adds."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=VerbGroup, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Add a verb, as `Typer.command` does."""
        return super().command(name, cls=Verb, **settings)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Run the verb that is asked for."""
        try:
            return super().__call__(*args, **settings)
        except SystemExit as exit:
            if isinstance(exit.__context__, BrokenPipeError):  # `| head` has seen enough: that is no failure
                raise SystemExit(CLOSED) from None
            raise
