"""Code of the user's that wants to end its process: it ends no worker, and is reported like any other failure."""

import sys

import pytest

from evenflow.errors import FunctionError
from tests.support.keyed_rig import Keyed, Nth, rows
from tests.support.rig import Rig, until


class Leaving(Nth):
    """Wants to leave when it sees key 7, or when a unit is taken out or measured."""

    def __init__(self, where="process", error=SystemExit):
        super().__init__()
        self.where, self.error = where, error

    def process(self, rows, units, keys):
        if self.where == "process" and 7 in keys.tolist():
            self._leave()
        return super().process(rows, units, keys)

    def extract(self, unit):
        if self.where == "extract":
            self._leave()
        return super().extract(unit)

    def size(self, unit):
        if self.where == "size":
            self._leave()
        return super().size(unit)

    def _leave(self):
        if self.error is SystemExit:
            sys.exit(3)
        raise self.error


@pytest.fixture
def rig():
    made = Rig(2)
    yield made
    made.close()


def live(rig):
    return [worker.incarnation for worker in rig.workers()] == [1, 1] and {w.state for w in rig.workers()} == {"live"}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_in_process(rig, error):
    keyed = Keyed(rig, Leaving(error=error))
    with pytest.raises(FunctionError, match=rf"(?s)failed on worker \d \(unit 7, key hash 7\).*{error.__name__}"):
        keyed.run(rows(1000))
    (told,) = until(lambda: rig.events("feeder-failed"), "that the task has failed")
    assert f"failed on worker {told['worker']} (unit 7, key hash 7)" in told["error"]
    assert live(rig)
    assert sum(batch.num_rows for batch in Keyed(rig).run(rows(1000))) == 1000


def test_when_a_unit_is_to_be_taken_out(rig):
    keyed = Keyed(rig, Leaving("extract"))
    keyed.run(rows(200), query="q")
    keyed.move([0], 1)
    keyed.move([1], 0)
    until(lambda: rig.events("move-undone"), "that the units stay")
    assert "SystemExit" in rig.events("move-undone")[0]["why"]
    assert live(rig)


def test_when_units_are_measured(rig):
    keyed = Keyed(rig, Leaving("size"))
    assert sum(batch.num_rows for batch in keyed.run(rows(20_000))) == 20_000
    assert live(rig)
