"""The version, that of the Evenflow beside which it lies."""

__version__ = "0.1.0"
