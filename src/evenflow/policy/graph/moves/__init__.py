"""Which operators and units are worth moving."""
