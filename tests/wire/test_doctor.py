"""What `evenflow doctor` finds out by connections."""

import socket

from evenflow.cli import checks


def test_loopback():
    assert checks.check_loopback().state == "good"


def test_an_address_that_is_not_ours():
    found = checks.check_loopback("192.0.2.1")  # kept free for documentation: no host has it
    assert found.state == "bad"
    assert "firewalls" in found.remedy


def test_a_database_that_does_not_answer():
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = checks.check_checkpoint(f"postgresql://user:secret@127.0.0.1:{port}/none?connect_timeout=3")
    assert found.state == "bad"
    assert "secret" not in found.found
    assert "check that the server runs" in found.remedy
