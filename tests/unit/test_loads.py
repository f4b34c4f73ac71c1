"""What a worker does about the state of evaluations, in every order in which things can happen."""

import pytest

from evenflow.errors import ProtocolError, StateGone
from evenflow.model.messages import DropState, ForgetEvaluation, LoadState, StateLoaded
from evenflow.runtime.worker.events import (
    ClearStateInstruction,
    DropLoadedInstruction,
    ForgetLogInstruction,
    LoadBegunEvent,
    LoadEndedEvent,
    LoopRoundEvent,
    StartLoadInstruction,
    TellInstruction,
    UseLoadedInstruction,
)
from evenflow.runtime.worker.saving.loads import Loads

KEY = "r", "query q"
STATE, OTHER = object(), object()
CLEAR = ClearStateInstruction(*KEY)


EARLIER = 1, 3
"""A batch and an attempt before those that state is loaded for."""


def load(number, evaluation="query q"):
    return LoadState("r", evaluation, "op", 9, number, 2, 1, (), (), ())


FIRST, SECOND = load(1), load(2)
ELSEWHERE = load(1, "query p")


def told(number=1, error="", evaluation="query q", **more):
    return TellInstruction(StateLoaded("r", evaluation, number, error, **more))


ORDERED = [(FIRST, [CLEAR])]
BEGUN = [
    *ORDERED,
    (LoopRoundEvent(), [StartLoadInstruction(FIRST)]),
    (LoadBegunEvent(FIRST), []),
    (LoopRoundEvent(), []),
]
SUPERSEDED = [
    *BEGUN,
    (SECOND, [CLEAR]),
    (LoopRoundEvent(), [StartLoadInstruction(SECOND)]),
    (LoadBegunEvent(SECOND), []),
]
USED = (
    LoadEndedEvent(FIRST, STATE, "", 7, 8, 0.5),
    [UseLoadedInstruction(FIRST, STATE), told(bytes=7, rows=8, seconds=0.5)],
)

SCRIPTS = {
    "state is loaded": [*BEGUN, USED, (LoopRoundEvent(), [])],
    "a load waits for its operator's code": [
        *ORDERED,
        (LoopRoundEvent(), [StartLoadInstruction(FIRST)]),
        (LoopRoundEvent(), [StartLoadInstruction(FIRST)]),
        (LoadBegunEvent(FIRST), []),
        (LoopRoundEvent(), []),
    ],
    "the operator's code cannot be loaded": [
        *ORDERED,
        (LoadBegunEvent(FIRST, "broken"), [told(error="broken")]),
        (LoopRoundEvent(), []),
        (SECOND, [CLEAR]),
        (LoopRoundEvent(), [StartLoadInstruction(SECOND)]),
    ],
    "a load fails": [*BEGUN, (LoadEndedEvent(FIRST, None, "damaged"), [told(error="damaged")]), (LoopRoundEvent(), [])],
    "a load is superseded before it begins": [
        *ORDERED,
        (SECOND, [CLEAR]),
        (LoopRoundEvent(), [StartLoadInstruction(SECOND)]),
    ],
    "the superseded load ends first": [
        *SUPERSEDED,
        (LoadEndedEvent(FIRST, STATE), [DropLoadedInstruction(STATE)]),
        (LoadEndedEvent(SECOND, OTHER), [UseLoadedInstruction(SECOND, OTHER), told(2)]),
    ],
    "the superseded load ends last": [
        *SUPERSEDED,
        (LoadEndedEvent(SECOND, OTHER), [UseLoadedInstruction(SECOND, OTHER), told(2)]),
        (LoadEndedEvent(FIRST, STATE), [DropLoadedInstruction(STATE)]),
    ],
    "the superseded load fails, and nobody is told": [
        *SUPERSEDED,
        (LoadEndedEvent(FIRST, None, "x"), [DropLoadedInstruction(None)]),
    ],
    "state is dropped while it is loaded": [*BEGUN, (DropState(*KEY), [CLEAR]), USED],
    "the evaluation ends before its load begins": [
        *ORDERED,
        (ForgetEvaluation(*KEY), [ForgetLogInstruction(*KEY), CLEAR]),
        (LoopRoundEvent(), []),
    ],
    "the evaluation ends while its state is loaded": [
        *BEGUN,
        (ForgetEvaluation(*KEY), [ForgetLogInstruction(*KEY), CLEAR]),
        (LoadEndedEvent(FIRST, STATE), [DropLoadedInstruction(STATE)]),
    ],
    "loads of two evaluations": [
        *BEGUN,
        (ELSEWHERE, [ClearStateInstruction("r", "query p")]),
        (LoopRoundEvent(), [StartLoadInstruction(ELSEWHERE)]),
        (LoadBegunEvent(ELSEWHERE), []),
        USED,
        (LoadEndedEvent(ELSEWHERE, OTHER), [UseLoadedInstruction(ELSEWHERE, OTHER), told(evaluation="query p")]),
    ],
}


def play(script):
    machine = Loads()
    for place, (event, wanted) in enumerate(script):
        assert machine.handle(event) == wanted, f"step {place}, {event}"
    return machine


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_loads(script):
    machine = Loads()
    assert [machine.handle(event) for event, _ in script] == [wanted for _, wanted in script]


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ([], ""),
        ([(DropState(*KEY), [CLEAR])], "whose state was dropped"),
        (ORDERED, "whose state was dropped"),
        (BEGUN, "whose state was dropped"),
        ([*BEGUN, USED], ""),
        ([*BEGUN, (LoadEndedEvent(FIRST, None, "x"), [told(error="x")])], "whose state was dropped"),
        ([*SUPERSEDED, (LoadEndedEvent(FIRST, STATE), [DropLoadedInstruction(STATE)])], "whose state was dropped"),
        ([(ForgetEvaluation(*KEY), [ForgetLogInstruction(*KEY), CLEAR])], "which is over"),
        ([*BEGUN, (ForgetEvaluation(*KEY), [ForgetLogInstruction(*KEY), CLEAR])], "which is over"),
    ],
)
def test_rows_are_taken_only_where_their_state_is(script, refused):
    machine = play(script)
    machine.check_rows("r", "another query", EARLIER)
    assert machine.is_dropped(*KEY) == ("dropped" in refused)
    if refused:
        with pytest.raises(StateGone, match=refused):
            machine.check_rows(*KEY, EARLIER)
    else:
        machine.check_rows(*KEY, EARLIER)


@pytest.mark.parametrize("attempt", [(2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize(
    "script",
    [
        ORDERED,
        BEGUN,
        [*BEGUN, (DropState(*KEY), [CLEAR])],
        [*BEGUN, (LoadEndedEvent(FIRST, None, "x"), [told(error="x")])],
    ],
    ids=["ordered", "begun", "dropped meanwhile", "failed"],
)
def test_rows_of_the_attempt_that_state_is_loaded_for_are_too_early(script, attempt):
    with pytest.raises(ProtocolError, match="before its state was loaded") as caught:
        play(script).check_rows(*KEY, attempt)
    assert not isinstance(caught.value, StateGone), "the controller is told"


def test_it_is_not_known_of_which_attempt_the_state_was_that_was_dropped():
    """A worker whose rows were on their way may not have had any of that attempt yet."""
    with pytest.raises(StateGone):
        play([*BEGUN, USED, (DropState(*KEY), [CLEAR])]).check_rows(*KEY, (3, 1))


def test_rows_of_what_is_not_stored_are_taken_after_a_drop():
    play([(DropState(*KEY), [CLEAR])]).check_rows(*KEY, None)
