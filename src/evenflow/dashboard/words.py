"""What Evenflow did last, in words, and what that brought; and what is said of lines that could not be read."""

from __future__ import annotations

from evenflow.dashboard.effects import AFTER_S, Action, Effect
from evenflow.dashboard.pace import LAG_S
from evenflow.dashboard.verdict import ago, sentence

MARGIN = 0.02
"""Rows a second that differ by less are as many."""


def unread_words(unread: int, read: int, title: str) -> str:
    """What is said of lines that could not be read; nothing, if there are none."""
    if not unread:
        return ""
    lines = f"{unread:,} line{'s' if unread != 1 else ''} of {title} could not be read"
    if read:
        return f"{lines} and {'are' if unread != 1 else 'is'} left out: damaged, or of another version."
    wanted = "one JSON object a line, as Cluster(event_log=...) and evenflow simulate --event-log write it"
    return f"{lines}, and no other could: this is no event log. Give a file with {wanted}."


def action_words(
    action: Action | None, effect: Effect, now: float, state: str = "live", by_credits: bool = False
) -> dict[str, str]:
    """What Evenflow did about it, and what that brought; `by_credits`: a region decides row by row, without actions."""
    if action is None and by_credits:
        return sentence("quiet", "each row goes to a worker that has room for it", "Shared row by row")
    if action is None:
        return sentence("quiet", "work is moved when that brings more than it costs", "No move so far")
    if action.kind == "move":
        what = f"{action.units} unit{'s' if action.units != 1 else ''}"
        title = f"{what} moved {ago(now - action.until)}" if action.done >= action.units else f"{what} on the way"
    else:
        count = len(action.changes)
        title = f"Weights of {count} worker{'s' if count != 1 else ''} changed {ago(now - action.until)}"
    early = state != "stopped" and now - action.until < LAG_S + AFTER_S
    return sentence(*effect_words(effect, early), title)


def effect_words(effect: Effect, early: bool) -> tuple[str, str]:
    """The tone and the words of what an action brought, or so far; fewer rows a second are never good."""
    gain, before, after = effect.gain, effect.imbalance_before, effect.imbalance_after
    if effect.rows_before is None and effect.rows_after is not None:
        return "quiet", "too few rows before it to compare with"
    if gain is None or effect.rows_after is None or effect.rows_before is None:
        return "quiet", "what it brings is being measured" if early else "fed too briefly since to compare"
    evener = before is not None and after is not None and before - after > 0.05
    balance = f"imbalance {before:.2f} → {after:.2f}" if evener else ""
    if gain >= MARGIN:
        tone, rows = "good", f"{gain:+.0%} rows/s".replace("%", " %")
    elif gain > -MARGIN:
        tone, rows = "good" if evener else "quiet", "as many rows/s as before"
    else:
        tone, rows = "quiet", f"{effect.rows_after:,.0f} rows/s, {effect.rows_before:,.0f} before"
    told = f"{rows}{'; ' if gain <= -MARGIN else ', '}{balance}" if balance else rows
    return tone, f"so far {told}" if early else told
