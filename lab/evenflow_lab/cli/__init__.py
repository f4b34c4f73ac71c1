"""The verbs of `evenflow-lab`, which `evenflow` has too where this package is installed."""
