"""Which of the RDDs of a stage keeps the rows of an operator."""

from evenflow.runtime.driver.stages import RDD, keeper_of, operators_in


def chain(*steps):
    """RDDs from the first to the last, each (node, persisted), every one the parent of the next."""
    return {
        number: RDD(number, 4, (number - 1,) if number else (), persisted, node)
        for number, (node, persisted) in enumerate(steps)
    }


def test_rows_are_packed_by_the_node_they_come_from():
    rdds = chain(("", False), ("plan 3", False), ("plan 3", False), ("plan 3", False))
    assert operators_in(rdds) == [1]


def test_nothing_is_persisted():
    assert keeper_of(chain(("", False), ("plan 3", False), ("", False)), [1]) is None


def test_the_input_is_persisted():
    assert keeper_of(chain(("", True), ("plan 3", False), ("", False)), [1]) is None


def test_the_first_that_is_persisted_after_the_operator():
    assert keeper_of(chain(("", True), ("plan 3", False), ("", False), ("", True), ("", True)), [1]) == 3


def test_between_two_operators():
    rdds = chain(("", False), ("plan 3", False), ("", True), ("plan 5", False), ("plan 5", False))
    first, second = operators_in(rdds)
    assert keeper_of(rdds, [first]) == 2
    assert keeper_of(rdds, [second]) is None


def test_a_union_of_what_is_persisted_with_itself():
    rdds = chain(("", False), ("plan 3", False), ("", True))
    rdds |= {3: RDD(3, 4, (2,), False), 4: RDD(4, 4, (2,), False), 5: RDD(5, 8, (3, 4), False)}
    assert operators_in(rdds) == [1]
    assert keeper_of(rdds, [1]) == 2
