"""Recall: when to go back to weights that gave a better pace, and when to forget them."""

from evenflow.policy.ordered.recall import Recall

BEST, LATER = [500, 500], [600, 400]


def settled():
    recall = Recall()
    assert recall.keep(BEST, 100.0) is None
    return recall


def test_a_good_pace_leaves_the_choice_free():
    recall = settled()
    assert all(recall.keep(LATER, 99.0) is None for _ in range(20))


def test_a_worse_pace_takes_the_best_weights_back():
    recall = settled()
    answers = [recall.keep(LATER, 80.0) for _ in range(3)]
    assert answers[-1] == BEST


def test_a_pace_that_comes_back_leaves_weights_alone_longer_each_time():
    recall = settled()
    stays = []
    for _ in range(4):
        while recall.keep(LATER, 80.0) is None:
            pass
        stayed = 1
        while recall.keep(BEST, 100.0) == BEST:
            stayed += 1
        stays.append(stayed)
    assert stays == sorted(stays)
    assert stays[-1] > stays[0]
    assert stays[-1] <= Recall.PROBE + Recall.PATIENCE


def test_a_pace_that_does_not_come_back_is_forgotten():
    recall = settled()
    while recall.keep(LATER, 60.0) is None:
        pass
    while recall.keep(BEST, 60.0) is not None:
        pass
    assert all(recall.keep(LATER, 60.0) is None for _ in range(10))


def test_the_same_weights_are_not_gone_back_to():
    recall = settled()
    assert all(recall.keep(BEST, 50.0) is None for _ in range(10))
