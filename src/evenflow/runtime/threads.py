"""What every thread of ours runs inside of: none of them ends unheard."""

from __future__ import annotations

from collections.abc import Callable


def heard(run: Callable[[], None], failed: Callable[[BaseException], None]) -> None:
    """Run a thread's loop; whatever ends it before its time goes to `failed`, by which its owner hears of it."""
    try:
        run()
    except BaseException as error:  # that nobody hears of it would be worse than any of them
        failed(error)
