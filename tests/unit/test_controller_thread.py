"""An error in any handler of the controller's thread costs one region or one task: the thread serves all others."""

from types import SimpleNamespace

import pytest

from evenflow.control.controller import Controller
from evenflow.control.events import (
    RegionOpenedEvent,
    ResultUnpersistedEvent,
    SaveInstruction,
    SendInstruction,
    StageFacts,
    TickEvent,
)
from evenflow.errors import StoreError
from evenflow.model.checkpoint import Base
from evenflow.model.messages import (
    EvaluationLost,
    FeederBegan,
    FeederHello,
    FeederRefused,
    ForgetEvaluation,
    KeyedDirectory,
    WorkerHello,
)
from evenflow.policy import Hash
from evenflow.runtime.driver.controller_thread import ControllerThread
from evenflow.runtime.driver.eventlog import EventLog
from evenflow.runtime.wire.messages import TO_FEEDER, control
from evenflow.runtime.wire.poller import Lost, Received
from tests.support.stages import Told

UNITS = 8
FACTS = StageFacts(3, 3, inputs=3)


def boom(*_anything, **_named):
    raise MemoryError("on purpose")


class Unspeakable(Exception):
    """An error whose own text fails."""

    def __str__(self):
        boom()

    __repr__ = __str__


class Line:
    """A connection to the controller."""

    def __init__(self, peer):
        self.peer = peer
        self.heard = []
        self.reading = True

    def send(self, frame):
        self.heard.append(frame)

    def told(self):
        return [TO_FEEDER.read(frame) for frame in self.heard]

    @property
    def ended(self):
        """Why its task is to end, in the words that it is told."""
        reasons = [each.reason for each in self.told() if isinstance(each, EvaluationLost | FeederRefused)]
        return "; ".join(reasons)


class Script:
    """A poller: what happens is what a test says."""

    def __init__(self):
        self.next = []
        self.over = lambda: None

    def listen(self, _host):
        return 1

    def wake(self):
        pass

    def drop(self, _channel):
        pass

    def close(self):
        pass

    def poll(self, _seconds):
        if not self.next:
            self.over()
            return []
        return self.next.pop(0)


class Idle:
    """The thread, which is not started: a test runs it as far as the script goes."""

    def __init__(self, thread):
        self.thread = thread

    def join(self, timeout=None):
        pass

    def is_alive(self):
        return False


class Vault:
    """A checkpoint in which nothing is found."""

    def __init__(self):
        self.asked = 0

    def keeps(self, region):
        return region == "stored" or None

    def look(self, region, query, epoch, first, done):
        self.asked += 1
        done(None)

    def save(self, save, done):
        pass


class Queries:
    """Streaming queries, of none of which anything can be had."""

    def meet(self, query, run):
        if query == "odd":
            boom()

    stopped = boom


class Driver:
    """A driver with a worker, and the regions `bad`, `good` and `stored`, each with a task."""

    def __init__(self):
        self.script, self.vault, self.told = Script(), Vault(), Told(FACTS)
        self.log = EventLog(None)
        self.thread = ControllerThread(
            Controller(1),
            b"secret",
            "here",
            1000.0,
            self.log,
            checkpoint_thread=self.vault,
            queries=Queries(),
            stages=self.told,
            start=Idle,
            poller=self.script,
        )
        self.script.over = self.thread.closing.set
        self.say(Line("worker"), WorkerHello(0, "h", 7000, 100))
        for name in ("bad", "good", "stored"):
            self.post(RegionOpenedEvent(0.0, name, "op", Hash(), UNITS, durable=name == "stored"))
        self.tasks = {name: self.join(name, 0) for name in ("bad", "good", "stored")}

    @property
    def controller(self):
        return self.thread._controller

    def run(self, *happenings):
        """Let the thread serve until the script is over."""
        self.thread.closing.clear()
        self.script.next.append(list(happenings))
        self.thread.run()
        assert self.thread.failure == "", "it goes on, whatever happens"

    def say(self, line, *messages):
        self.run(*[Received(line, control(message)) for message in messages])

    def post(self, event):
        self.thread.post(event)
        self.run()

    def join(self, region, partition, query="q"):
        line = Line(f"{region}'s task {partition}")
        self.say(line, FeederHello(region, partition, 0, query, 0, "1", run="1", mark="m"), FeederBegan(partition))
        return line

    def errors(self):
        return [entry["on"] for entry in self.log.tail() if entry["event"] == "controller-error"]

    def goes_on(self):
        """Tasks of the other regions are served."""
        for name in ("good", "stored"):
            assert not self.tasks[name].ended
            assert name in self.controller.regions
            assert [type(each) for each in self.join(name, 1).told()] == [KeyedDirectory]

    def closed(self, line):
        """The region is closed, and a task of it knows why."""
        assert "on purpose" in self.controller.failure("bad")
        assert "on purpose" in line.ended
        assert "on purpose" in self.join("bad", 2).ended


@pytest.fixture
def driver():
    return Driver()


def test_all_is_served_as_long_as_nothing_is_wrong(driver):
    driver.goes_on()
    assert driver.vault.asked == 1
    assert not driver.errors()
    assert not driver.tasks["bad"].ended


def test_a_region_that_cannot_say_whether_it_knows_a_query_is_closed_and_its_new_task_told(driver):
    """`_meet`"""
    driver.controller.region("bad").evaluations.knows = boom
    new = driver.join("bad", 1)
    assert "region bad has failed: MemoryError: on purpose" in new.ended
    driver.closed(driver.tasks["bad"])
    driver.goes_on()


def test_a_task_that_spark_knows_nothing_of_costs_itself_alone(driver):
    """`Newcomers.joined`"""
    assert "on purpose" in driver.join("bad", 1, query="odd").ended
    driver.told.facts = boom
    assert "on purpose" in driver.join("bad", 1).ended
    del driver.told.facts
    assert not driver.controller.failure("bad")
    driver.goes_on()


def test_a_look_into_the_store_that_cannot_be_begun_is_begun_anew_for_the_next_task(driver):
    """`Newcomers.introduce`: the tasks that came after it waited for its end, which never came."""
    driver.vault.look, look = boom, driver.vault.look
    assert "on purpose" in driver.join("stored", 0, "r").ended
    driver.vault.look = look
    assert [type(each) for each in driver.join("stored", 0, "r").told()] == [KeyedDirectory]
    assert not driver.thread._newcomers.early
    assert not driver.thread._newcomers.looking
    driver.goes_on()


def test_a_stored_query_that_is_not_let_in_is_told(driver):
    """`_do`, `_welcome`"""
    driver.thread._controller = SimpleNamespace(
        unknown=lambda _feeder: True, handle=boom, is_worker=lambda _peer: False, run_of=lambda _peer: ""
    )
    assert "could not let stored's task 1 in: MemoryError: on purpose" in driver.join("stored", 1, "r").ended


def test_an_error_in_turning_somebody_out_costs_nobody_else(driver):
    """`_turn_out`, `_dismiss`"""
    driver.controller.is_worker = boom
    driver.say(driver.tasks["bad"], FeederHello("bad", 0, 0, "q", 0))  # a second time
    assert driver.errors() == ["hear a peer"]
    del driver.controller.is_worker
    driver.goes_on()


def test_a_task_that_leaves_and_of_whose_query_nothing_is_known_leaves(driver):
    """`_lost`"""
    driver.run(Lost(driver.tasks["bad"], "gone", True))
    assert driver.errors() == ["ask whether run 1 of a query was stopped"]
    assert [entry["event"] for entry in driver.log.tail()].count("feeder-left") == 1
    driver.goes_on()


def test_a_region_that_cannot_say_what_is_persisted_keeps_no_other_from_being_asked(driver):
    """`_look_for_unpersisted`: none was asked any more."""
    bad, good = (driver.controller.region(name).evaluations for name in ("bad", "good"))
    bad.__class__ = type("Bad", (type(bad),), {"kept": property(boom)})
    good.__class__ = type("Good", (type(good),), {"kept": property(lambda _self: {7})})
    asked, posted = [], []
    driver.told.unpersisted = lambda kept: asked.append(kept) or frozenset(kept)
    good.unpersisted = lambda rdds: posted.append(rdds) or []
    driver.thread._look_for_unpersisted()
    driver.run()
    assert (asked, posted) == ([{7}], [frozenset({7})])
    driver.closed(driver.tasks["bad"])
    driver.goes_on()


@pytest.mark.parametrize("event", [TickEvent(1.0), ResultUnpersistedEvent(1.0, frozenset({3}))], ids=repr)
def test_an_event_that_no_region_can_be_blamed_for(driver, event):
    """`_handle`"""
    driver.controller.handle = boom
    driver.post(event)
    assert driver.errors() == [f"handle {type(event).__name__}"]
    del driver.controller.handle
    driver.goes_on()


@pytest.mark.parametrize(
    "told",
    [SendInstruction(2, ForgetEvaluation("bad", {object()})), SaveInstruction("bad", "q", "whole", Base())],
)
def test_what_cannot_be_carried_out_closes_its_region(driver, told):
    """`_carry_out`"""
    driver.vault.save = boom
    driver.thread._carry_out([told])
    driver.run()
    del driver.vault.save
    assert driver.controller.failure("bad")
    assert driver.tasks["bad"].ended
    driver.goes_on()


@pytest.mark.parametrize("error", [Unspeakable, StoreError])
def test_an_error_that_has_no_words_of_its_own_is_an_error_as_any(driver, error):
    def fails(*_anything):
        raise error

    driver.controller.region("bad").performance.note = fails
    driver.controller.handle, handle = fails, driver.controller.handle
    driver.post(TickEvent(0.5))
    driver.controller.handle = handle
    driver.post(TickEvent(1.0))
    assert error.__name__ in driver.tasks["bad"].ended
    driver.goes_on()
