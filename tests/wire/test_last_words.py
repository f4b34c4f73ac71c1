"""What a peer said before it left is heard, also by one that was just about to tell it something."""

import time

from evenflow.model.messages import FeederBegan, Loading
from evenflow.runtime.wire.channel import PeerGone
from evenflow.runtime.wire.messages import TO_CONTROLLER, control
from evenflow.runtime.wire.poller import Lost, Opened, Poller, Received

SECRET = b"s" * 32


def test_frames_before_the_end_are_handed_out_though_sending_failed():
    here, there = Poller(SECRET), Poller(SECRET)
    try:
        channel = there.connect("127.0.0.1", here.listen("127.0.0.1"), "here")
        met = []
        while not met:
            list(there.poll(0.01))
            met = [happening.channel for happening in here.poll(0.01) if isinstance(happening, Opened)]
        said = 0
        while said < 10:  # more would not fit into the receiver's buffer, small as they are
            channel.send(control(FeederBegan(said)))
            if channel.unsent:  # the kernel takes no more: this one will not arrive
                break
            said += 1
        assert said > 8, "more words than are handed out at a time"
        there.close()
        refused = 0
        deadline = time.monotonic() + 60
        while not refused and time.monotonic() < deadline:
            try:
                met[0].send(control(Loading()))
            except PeerGone:
                refused += 1
            time.sleep(0.01)
        assert refused
        heard = []
        while not any(isinstance(happening, Lost) for happening in heard):
            heard += here.poll(0.1)
        words = [
            TO_CONTROLLER.read(happening.frame).partition for happening in heard if isinstance(happening, Received)
        ]
        assert words == list(range(said))
    finally:
        here.close()
        there.close()
