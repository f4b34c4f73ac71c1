"""Mutual challenge-response: who holds the secret gets in, nobody else, whatever they send."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.errors import HandshakeError
from evenflow.runtime.wire.handshake import Handshake

secrets = st.binary(min_size=1, max_size=64)
nonces = st.binary(min_size=32, max_size=32)
HELLO, ANSWER, PROOF = 40, 64, 32
"""The lengths of the three messages."""


def pair(secret, nonce_c, nonce_s, other=None):
    client = Handshake(secret, nonce_c, server=False)
    return client, Handshake(secret if other is None else other, nonce_s, server=True)


def normal(secret):
    """HMAC pads a key with zeros, so these are one key."""
    return secret.rstrip(b"\0")


@given(secrets, nonces, nonces)
def test_both_get_in_and_agree(secret, nonce_c, nonce_s):
    client, server = pair(secret, nonce_c, nonce_s)
    hello = client.start()
    assert server.start() == b""
    answer = server.receive(hello)
    proof = client.receive(answer)
    assert server.receive(proof) == b""
    assert client.done
    assert server.done
    assert client.seeds() == tuple(reversed(server.seeds()))
    assert client.seeds()[0] != client.seeds()[1]


@given(secrets, nonces, nonces)
def test_lengths_are_fixed(secret, nonce_c, nonce_s):
    client, server = pair(secret, nonce_c, nonce_s)
    assert (client.expects, server.expects) == (ANSWER, HELLO)
    hello = client.start()
    answer = server.receive(hello)
    assert (len(hello), len(answer), server.expects) == (HELLO, ANSWER, PROOF)
    proof = client.receive(answer)
    assert (len(proof), client.expects) == (PROOF, 0)
    server.receive(proof)
    assert server.expects == 0


@given(secrets, secrets, nonces, nonces)
def test_another_secret_is_noticed_by_both(secret, other, nonce_c, nonce_s):
    assume(normal(secret) != normal(other))
    client, server = pair(secret, nonce_c, nonce_s, other)
    answer = server.receive(client.start())
    with pytest.raises(HandshakeError, match="the server does not hold this cluster's secret"):
        client.receive(answer)
    assert not client.done
    stubborn, friend = pair(secret, nonce_c, nonce_s)
    proof = stubborn.receive(friend.receive(stubborn.start()))
    with pytest.raises(HandshakeError, match="the client does not hold this cluster's secret"):
        server.receive(proof)
    assert not server.done


@given(secrets, nonces, nonces, st.integers(0, HELLO + ANSWER + PROOF - 1), st.integers(1, 255))
def test_any_byte_flipped(secret, nonce_c, nonce_s, place, flip):
    """In whichever message, at least one side refuses, and no side that received it damaged goes on."""
    client, server = pair(secret, nonce_c, nonce_s)

    def through(message, start):
        if not start <= place < start + len(message):
            return message
        return message[: place - start] + bytes([message[place - start] ^ flip]) + message[place - start + 1 :]

    with pytest.raises(HandshakeError):  # noqa: PT012 - any step may be the one that notices
        answer = server.receive(through(client.start(), 0))
        proof = client.receive(through(answer, HELLO))
        server.receive(through(proof, HELLO + ANSWER))
    assert not (client.done and server.done)


@given(secrets, nonces, nonces, st.binary(min_size=PROOF, max_size=PROOF))
def test_no_guess_gets_in(secret, nonce_c, nonce_s, guess):
    client, server = pair(secret, nonce_c, nonce_s)
    assume(guess != client.receive(server.receive(client.start())))
    with pytest.raises(HandshakeError, match="the client does not hold"):
        server.receive(guess)


@given(secrets, nonces, nonces)
def test_reflecting_the_servers_own_proof(secret, nonce_c, nonce_s):
    client, server = pair(secret, nonce_c, nonce_s)
    answer = server.receive(client.start())
    with pytest.raises(HandshakeError):
        server.receive(answer[32:])


@given(secrets, nonces, nonces, nonces)
def test_asking_the_server_on_a_second_connection(secret, nonce_c, nonce_s, nonce_t):
    """The attacker lets the server answer its own challenge, and hands that back."""
    first = Handshake(secret, nonce_s, server=True)
    answer = first.receive(Handshake(b"", nonce_c, server=False).start())
    second = Handshake(secret, nonce_t, server=True)
    borrowed = second.receive(Handshake(b"", answer[:32], server=False).start())
    for proof in (borrowed[:32], borrowed[32:]):
        with pytest.raises(HandshakeError):
            first.receive(proof)


@given(secrets, nonces)
def test_reflecting_the_client(secret, nonce_c):
    """The attacker poses as the server, and sends the client's own bytes back."""
    client = Handshake(secret, nonce_c, server=False)
    hello = client.start()
    for echo in (hello[8:] + hello[8:], (hello + hello)[:ANSWER]):
        with pytest.raises(HandshakeError, match="the server does not hold"):
            Handshake(secret, nonce_c, server=False).receive(echo)


@given(secrets, nonces, nonces, nonces)
def test_replaying_a_whole_conversation(secret, nonce_c, nonce_s, fresh):
    assume(fresh != nonce_s)
    client, server = pair(secret, nonce_c, nonce_s)
    hello = client.start()
    proof = client.receive(server.receive(hello))
    later = Handshake(secret, fresh, server=True)
    later.receive(hello)
    with pytest.raises(HandshakeError):
        later.receive(proof)


@given(secrets, nonces, nonces, nonces, nonces)
def test_seeds_differ_between_connections(secret, nonce_c, nonce_s, other_c, other_s):
    assume((nonce_c, nonce_s) != (other_c, other_s))

    def seeds(client, server):
        server.receive(client.receive(server.receive(client.start())))
        return set(client.seeds())

    assert not seeds(*pair(secret, nonce_c, nonce_s)) & seeds(*pair(secret, other_c, other_s))


@given(st.binary(min_size=HELLO, max_size=HELLO))
def test_whatever_opens_otherwise_is_no_process_of_ours(data):
    assume(not data.startswith(b"EVHS\x01\0\0\0"))
    with pytest.raises(HandshakeError, match=r"the peer opened with .* not an Evenflow process"):
        Handshake(b"secret", b"n" * 32, server=True).receive(data)
