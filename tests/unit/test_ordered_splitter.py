"""Frames of an ordered feeder from when they are made until they are answered: lost workers, late answers, bounds."""

from types import SimpleNamespace

import pytest

from evenflow.errors import ProtocolError
from evenflow.runtime.feeder import frame_size
from evenflow.runtime.feeder.frame_size import FrameSize
from evenflow.runtime.feeder.link import DEPTH, Link, Meter
from evenflow.runtime.feeder.ordered.splitter import LIMITS, LOSSES, RESEND_S, FeederLimits, OrderedSplitter
from tests.support.skew_rows import batch

COST_S = 0.001
"""Seconds a row takes, on every worker."""


class Region:
    """Workers that are sent frames of ten rows, and a splitter that knows what a row costs."""

    def __init__(self, workers=2, splitting="credits", limits=LIMITS):
        self.now = 0.0
        self.links, self.meter = {}, Meter()
        size = FrameSize(dict.fromkeys(range(workers), COST_S), 0.0)
        self.splitter = OrderedSplitter(self.links, splitting, size, self.meter, lambda: self.now, limits)
        for worker in range(workers):
            self.join(worker)
        self.splitter.set_weights(dict.fromkeys(range(workers), 1))

    def join(self, worker):
        channel = SimpleNamespace(open=True, unsent=0, peer="here")
        self.links[worker] = Link(worker, 1, 0, channel)
        self.splitter.opened(self.links[worker])

    def send(self):
        """Send as much as may be; who got which frame."""
        went = {}
        while (link := self.splitter.next(10, len(went))) is not None:
            sequence = self.splitter.add(batch(range(10)))
            self.splitter.sent(link, sequence)
            went[sequence] = link.worker
        return went

    def copies(self):
        """Send again what has to be; who got which frame."""
        went = []
        while (copy := self.splitter.copy()) is not None:
            link, sequence = copy
            self.splitter.sent(link, sequence)
            went.append((sequence, link.worker))
        return went

    def answer(self, worker, sequence, seconds=10 * COST_S):
        self.splitter.answered(self.links[worker], sequence, seconds)

    def lose(self, worker):
        return self.splitter.lost(self.links.pop(worker))


def test_frames_of_a_lost_worker_go_to_another_after_a_while():
    region = Region()
    assert region.send() == {0: 0, 1: 0, 2: 1, 3: 1}
    region.answer(0, 0)
    assert region.lose(0) is None
    assert region.copies() == []
    region.now += RESEND_S
    assert region.copies() == [(1, 1)]
    assert region.splitter.news() == (1, 0)
    assert region.splitter.unanswered(0) is None
    assert str(region.splitter.unanswered(1)) == "rows 10 to 19"
    region.answer(1, 1)
    assert region.splitter.unanswered(1) is None


def test_frames_of_a_lost_worker_that_are_answered_or_that_others_have_are_not_sent_again():
    region = Region(3)
    assert region.send() == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}
    for sequence in range(2, 6):
        region.answer(sequence // 2, sequence)
    region.now += overdue(region, 1)
    region.splitter.find_overdue()
    assert region.copies() == [(0, 1), (1, 2)]
    region.answer(2, 1)
    region.lose(0)
    region.now += RESEND_S
    assert region.copies() == []  # 1 has frame 0, and 2 has answered frame 1
    region.lose(1)
    region.now += RESEND_S
    assert region.copies() == [(0, 2)]


def test_without_workers_frames_wait_for_the_next_one():
    region = Region(1)
    region.send()
    region.lose(0)
    region.now += RESEND_S
    assert region.copies() == []
    region.join(5)
    assert region.copies() == [(0, 5), (1, 5)]


def test_a_frame_that_is_lost_too_often_is_taken_to_be_the_cause():
    region = Region(3)
    assert region.send()[0] == 0
    assert region.lose(0) is None
    for sequence in (2, 3):
        region.answer(1, sequence)
    region.now += RESEND_S
    assert region.copies()[0] == (0, 1)
    culprit = region.lose(1)
    assert (str(culprit), culprit.losses) == ("rows 0 to 9", LOSSES)


def test_frames_behind_the_one_that_a_worker_was_at_are_not_to_blame():
    region = Region(1)
    region.send()
    for _ in range(LOSSES):
        (worker,) = region.links
        region.links[worker].under_way = {99: 1, **region.links[worker].under_way}
        assert region.lose(worker) is None
        region.join(worker + 1)
        region.now += RESEND_S
        assert [sequence for sequence, _ in region.copies()] == [0, 1]


def test_a_frame_that_never_went_out_blames_nobody():
    region = Region(1)
    for _ in range(LOSSES):
        (link,) = region.links.values()
        sequence = region.splitter.add(batch(range(10))) if not link.worker else region.splitter.copy()[1]
        region.splitter.sent(link, sequence)
        region.splitter.unsent(link, sequence)
        assert region.lose(link.worker) is None
        region.join(link.worker + 1)
        region.now += RESEND_S


# -- frames that are late


def overdue(region, copies):
    """Just more than `copies` copies of a frame may take."""
    return LIMITS.overdue**copies * max(10 * COST_S, 0.01) + 0.001


def test_a_late_frame_is_given_to_others_as_well_ever_more_slowly():
    region = Region(3)
    region.send()
    for sequence in range(1, 6):
        region.answer(sequence // 2, sequence)
    for copies, worker in ((1, 1), (2, 2)):
        region.now += overdue(region, copies) - 0.002
        region.splitter.find_overdue()
        assert region.copies() == []
        region.now += 0.002
        region.splitter.find_overdue()
        assert region.copies() == [(0, worker)]
    region.now += 1000.0
    region.splitter.find_overdue()
    assert region.copies() == []  # everybody has it


def test_late_frames_are_copied_under_credits_only():
    region = Region(2, "reroute")
    region.send()
    region.now += 1000.0
    region.splitter.find_overdue()
    assert region.copies() == []


def test_a_copy_earns_no_credit_whether_answered_or_failed():
    region = Region(2)
    region.send()
    region.answer(1, 2)
    region.answer(1, 3)
    region.now += overdue(region, 1)
    region.splitter.find_overdue()
    assert region.copies() == [(0, 1), (1, 1)]
    region.answer(0, 0)
    region.splitter.failed(region.links[1], 0)
    region.answer(1, 1)
    assert list(region.send().values()) == [1, 1, 0]  # what 1 and 0 have earned by their own frames


def test_copies_wait_for_a_worker_that_has_room():
    region = Region(2)
    region.send()
    region.lose(0)
    region.now += RESEND_S
    region.links[1].under_way |= dict.fromkeys(range(90, 99), 1)
    assert region.copies() == []
    region.links[1].under_way = {2: 10, 3: 10}
    assert len(region.links[1].under_way) <= DEPTH
    assert region.copies() == [(0, 1)]


# -- whom the splitter waits for


def blocked(region):
    region.meter.charge(region.now)
    return [link.blocked_s for link in region.links.values()]


def test_a_wait_for_room_is_charged_to_the_connection_in_turn():
    region = Region(2, "block")
    assert list(region.send().values()) == [0, 1, 0, 1]
    region.now = 4.0
    region.answer(1, 1)  # not the one in turn
    assert region.send() == {}
    assert blocked(region) == [4.0, 0.0]
    region.answer(0, 0)
    assert list(region.send().values()) == [0, 1]
    region.now = 9.0
    assert blocked(region) == [9.0, 0.0]  # 0 is full again at once, and in turn


def test_connections_that_are_full_at_once_are_waited_for_one_at_a_time():
    """Frames above the socket buffers: bytes are left over everywhere, and the splitter waits for one of them."""
    region = Region(3, "block")
    for link in region.links.values():
        link.channel.unsent = 7
    for region.now in range(10):
        assert region.send() == {}
    assert blocked(region) == [9.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("limits", "about"),
    [(FeederLimits(window_bytes=1), {}), (LIMITS, {"full": True})],
    ids=["too much is under way", "the reorder buffer is full"],
)
def test_a_wait_for_all_of_them_is_nobodys(limits, about):
    region = Region(2, "block", limits)
    region.send()
    for link in region.links.values():
        link.channel.unsent = 7
    region.now = 5.0
    assert region.splitter.next(10, 0, **about) is None
    before = sum(blocked(region))
    region.now = 9.0
    assert sum(blocked(region)) == before


def test_before_the_splitter_turns_to_a_slow_source_it_waits_for_the_oldest_frame_first():
    region = Region(3, "credits")
    assert region.send() == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}
    for worker in (2, 0):
        region.links[worker].channel.unsent = 7
    assert region.splitter.settling()
    region.now = 3.0
    region.links[0].channel.unsent = 0
    assert region.splitter.settling()
    region.now = 4.0
    region.links[2].channel.unsent = 0
    assert not region.splitter.settling()
    region.now = 9.0
    assert blocked(region) == [3.0, 0.0, 1.0]


# -- bounds and weights


def test_no_more_than_a_window_is_under_way():
    region = Region(4, limits=FeederLimits(window_bytes=1))
    assert region.send() == {0: 0}
    region.answer(0, 0)
    assert len(region.send()) == 1


def test_one_frame_each_until_it_is_known_what_a_row_costs():
    region = Region(3, "block")
    region.splitter.use(FrameSize())
    assert region.send() == {0: 0, 1: 1, 2: 2}
    assert region.splitter.rows(region.links[0]) == 1


def test_weights_are_spread_over_the_workers_that_are_there():
    region = Region(2, "reroute")
    region.splitter.set_weights({0: 1, 1: 1, 2: 8})
    region.links[2] = Link(2, 1, 0, region.links[0].channel)
    region.splitter.set_weights()
    assert region.splitter.next(10, 0).worker == 2


def test_rows_that_do_not_fit_into_a_frame(monkeypatch):
    monkeypatch.setattr(frame_size, "MAX_BODY", 100)
    with pytest.raises(ProtocolError, match=r"rows 0 to 9 take .* over the 100 bytes .* before they reach ordered_map"):
        Region().splitter.add(batch(range(10)))
