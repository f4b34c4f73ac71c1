"""The table of `evenflow simulate` can be read in a terminal of 80 columns, and in a pipe."""

from io import StringIO

from rich.console import Console

from evenflow.cli.simulate import _table
from evenflow.sim.runs import SimulatedRun


def shown(*names):
    """What is printed of runs with large figures, by line."""
    series = [(float(second), 12_440_123.0) for second in range(1, 101)]
    latency = {"p50": 1_234.5, "p99": 65_432.1}
    runs = [SimulatedRun(name, 100.0, 1_244_012_300, series, 1_234, 56_789, latency, 7_654.0, []) for name in names]
    told = StringIO()
    Console(file=told, width=80).print(_table(runs))
    return told.getvalue()


def test_nothing_is_cut_at_80_columns():
    text = shown("credit", "potential")
    assert "…" not in text
    line = next(line for line in text.splitlines() if "credit" in line)
    assert line.split() == [
        "credit", "12,440,123", "12,440,123", "1.00", "1,234", "56,789", "1,234.5", "65,432.1", "7,654"
    ]  # fmt: skip


def test_a_long_name_is_folded():
    name = "a-balance-of-somebody:with-many-parameters"
    text = shown(name)
    assert "…" not in text
    assert "12,440,123" in text
    assert "".join(line.split(" ")[0] for line in text.splitlines()).endswith(name)
