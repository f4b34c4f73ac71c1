"""The blocking-rate function, step by step."""

import numpy as np
import pytest

from evenflow.policy.ordered.function import BlockingFunction, mean_curve


def function(*samples, memory=4):
    f = BlockingFunction()
    for weight, sample in samples:
        f = f.observe(weight, sample, memory)
    return f


def test_nothing_known_is_nothing_but_delta():
    assert BlockingFunction().values(1e-6)[[0, 1, 1000]] == pytest.approx([0, 1e-6, 1e-3])


def test_origin_is_given():
    f = function((0, 0.9))
    assert f.points == ()
    assert function((5, 0.2)).values(0)[0] == 0


def test_samples_are_averaged_and_then_smoothed_exponentially():
    f = function((5, 1.0), (5, 0.0))
    assert f.points[0].value == 0.5
    for _ in range(20):
        f = f.observe(5, 0.8, 4)
    assert f.points[0].value == pytest.approx(0.8, abs=1e-3)
    assert f.observe(5, 0.0, 4).points[0].value == pytest.approx(0.6, abs=1e-3)


def test_linear_between_points_and_beyond_them():
    values = function((100, 0.2), (200, 0.6)).values(0)
    assert values[[50, 100, 150, 200, 300]] == pytest.approx([0.1, 0.2, 0.4, 0.6, 1.0])


def test_one_point_goes_on_along_its_ray():
    assert function((100, 0.2)).values(0)[[50, 500]] == pytest.approx([0.1, 1.0])


def test_points_out_of_order_are_pooled_by_how_much_data_they_have():
    f = function((100, 0.8), (200, 0.2), (200, 0.2), (200, 0.2))
    assert f.values(0)[[100, 150, 200]] == pytest.approx([0.35] * 3)


def test_delta_where_the_function_would_be_flat_and_only_there():
    values = function((100, 0.0), (200, 0.5)).values(1e-4)
    assert np.diff(values[:101]) == pytest.approx([1e-4] * 100)
    assert values[[150, 200]] == pytest.approx([0.25, 0.5])


def test_decay_flattens_what_lies_beyond_the_present_weight():
    f = function((100, 0.2), (200, 0.6), (400, 0.9))
    for _ in range(22):
        f = f.decay(100, 0.1)
    values = f.values(0)
    assert values[[100, 200, 400]] == pytest.approx([(0.2 + (0.6 + 0.9) * 0.9**22) / 3] * 3), "pooled, and so flat"
    assert f.seen(0)[[200, 400]] == pytest.approx([0.6, 0.9]), "what was seen is not forgotten"


def test_fresh_data_end_the_decay():
    f = function((200, 0.6)).decay(100, 0.1).decay(100, 0.1)
    assert f.points[0].value == pytest.approx(0.486)
    assert f.observe(200, 0.6, 1).points[0].value == pytest.approx(0.6)


def test_decay_works_where_no_point_lies_beyond_the_present_weight():
    """§5.4 lowers the fitted function: what is only extrapolated becomes flat, too."""
    f = function((300, 0.5))
    assert f.values(0)[600] == pytest.approx(1.0)
    once = f.decay(300, 0.1).values(0)
    assert once[[300, 500, 600, 900]] == pytest.approx([0.5, 0.75, 0.9, 1.35])
    for _ in range(50):
        f = f.decay(300, 0.1).observe(300, 0.5, 4)
    assert f.values(0)[[300, 301, 600, 1000]] == pytest.approx([0.5] * 4)
    assert f.seen(0)[600] == pytest.approx(1.0)


def test_each_weight_beyond_loses_its_share_between_points_too():
    f = function((100, 0.1), (500, 0.9))
    before, after = f.values(0), f.decay(100, 0.1).values(0)
    assert after[[200, 300, 500]] == pytest.approx(0.9 * before[[200, 300, 500]])
    assert after[:101] == pytest.approx(before[:101])


def test_what_is_tried_again_is_known_by_its_data():
    f = function((300, 0.5))
    for _ in range(50):
        f = f.decay(300, 0.1)
    assert f.observe(600, 0.8, 4).values(0)[[300, 450, 600, 900]] == pytest.approx([0.5, 0.65, 0.8, 0.8])


def test_a_cluster_decays_as_its_members_do():
    member = function((300, 0.5)).decay(300, 0.1)
    assert mean_curve([member, member], 0) == pytest.approx(member.values(0))


def test_knots_are_the_corners():
    f = function((100, 0.1), (200, 0.2), (300, 0.9), (400, 0.4))
    assert f.knots() == [(0, 0.0), (200, pytest.approx(0.2)), (300, pytest.approx(0.65)), (1000, pytest.approx(0.65))]
    assert BlockingFunction().knots() == [(0, 0.0), (1000, 0.0)]


def test_a_cluster_expects_the_mean_of_what_its_members_expect():
    """§5.3, step 4.3: the functions are averaged, so a member counts once however much data it has."""
    curve = mean_curve([function((100, 0.9)), function((100, 0.0), (100, 0.0)), function((50, 0.3))], 0)
    assert curve[[50, 100, 200]] == pytest.approx([(0.45 + 0 + 0.3) / 3, (0.9 + 0 + 0.6) / 3, (1.8 + 0 + 1.2) / 3])
