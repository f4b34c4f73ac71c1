"""What Spark's plan and its log of offsets say of operators: no answer is none that lets a query go on."""

from types import SimpleNamespace

import pytest

from evenflow.runtime.driver.queries import Queries


class Seq(list):
    """A sequence of Scala's."""

    def size(self):
        return len(self)

    def apply(self, place):
        return self[place]

    def isEmpty(self):
        return not self


class Maybe:
    """An option of Scala's."""

    def __init__(self, value):
        self.value = value

    def isDefined(self):
        return self.value is not None

    def get(self):
        return self.value


class Source:
    """A source of a query; Java compares it with others."""

    def equals(self, other):
        return self is other


class Node:
    """A node of a plan: one that runs a function, or a stream that is read."""

    def __init__(self, *children, name="Union", task="", code=b"", source=None):
        self._children, self._name, self._source = Seq(children), name, source
        command = SimpleNamespace(unsafeArray=lambda: code)
        func = SimpleNamespace(command=lambda: command)
        self._function = SimpleNamespace(name=lambda: task, func=lambda: func)

    def children(self):
        return self._children

    def nodeName(self):
        return self._name

    def functionExpr(self):
        return self._function

    def isStreaming(self):
        return True

    def getClass(self):
        return SimpleNamespace(getName=lambda: "StreamingExecutionRelation")

    def source(self):
        return self._source


A, B = Source(), Source()


def applied(task, code, child):
    return Node(child, name="MapInArrow", task=task, code=code)


def reading(source):
    return Node(name="StreamingExecutionRelation", source=source)


def queries(plan, offsets, rows=()):
    """Of a query with two sources; by batch, how far they were read."""

    def found(batch):
        ends = offsets.get(batch)
        return Maybe(None if ends is None else SimpleNamespace(offsets=lambda: Seq(map(Maybe, ends))))

    execution = SimpleNamespace(
        offsetLog=lambda: SimpleNamespace(get=found), sources=lambda: Seq((A, B)), logicalPlan=lambda: plan
    )
    told = [{"batchId": batch, "numInputRows": count} for batch, count in enumerate(rows)]
    stream = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: execution), recentProgress=told)
    return Queries(SimpleNamespace(streams=SimpleNamespace(get=lambda query: stream)))


BOTH = Node(
    applied("KeyedTask", b"c/a/", reading(A)), applied("TickTask", b"c/b/", applied("RowTask", b"c/b/", reading(B)))
)


@pytest.mark.parametrize(("mark", "quiet"), [("c/a/", True), ("c/b/", False), ("", False), ("c/unknown/", False)])
def test_only_the_sources_that_feed_an_operator_count(mark, quiet):
    asked = queries(BOTH, {2: ("a5", "b5"), 4: ("a5", "b9")})
    assert asked.quiet("q", 3, 4, mark) is quiet


@pytest.mark.parametrize("task", ["", "KeyedTasks", "OtherTask"])
def test_a_plan_in_which_no_operator_is_found_shows_nothing(task):
    asked = queries(applied(task, b"c/a/", reading(A)), {2: ("a5", "b5"), 4: ("a5", "b5")})
    assert asked.quiet("q", 3, 4) is False


def test_offsets_that_spark_does_not_have_any_more_show_nothing():
    assert queries(BOTH, {4: ("a5", "b5")}).quiet("q", 3, 4, "c/a/") is False


def test_an_operator_whose_source_has_its_first_rows_late_is_new():
    asked = queries(BOTH, {2: (None, "b5")})
    assert asked.untouched("q", 3, "c/a/") is True
    assert asked.untouched("q", 3, "c/b/") is False


def test_a_query_that_had_no_rows_at_all_is_new():
    assert queries(BOTH, {}, rows=(0, 0)).untouched("q", 2, "c/a/") is True
    assert queries(BOTH, {}, rows=(0, 7)).untouched("q", 2, "c/a/") is False


def test_nodes_are_told_apart_by_what_they_run_and_not_by_their_code():
    plan = Node(applied("KeyedTask", b"c/a/ my RowTask", reading(A)), BOTH)
    assert queries(plan, {}).uses("q", {"a": "c/a/", "b": "c/b/"}) == {"a": 2, "b": 1}
