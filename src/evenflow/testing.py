"""For tests and experiments: emulated capacity."""

from evenflow.model.capacity import Emulate

__all__ = ["Emulate"]
