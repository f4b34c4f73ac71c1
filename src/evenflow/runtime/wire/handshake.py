"""The handshake: both sides prove that they hold the cluster's secret; no I/O.

    client -> server   magic, version, nonce_c
    server -> client   nonce_s, HMAC(secret, "server" nonce_c nonce_s)
    client -> server   HMAC(secret, "client" nonce_c nonce_s)

All messages have a fixed length: nothing that a stranger sends is parsed, and at most 40 bytes of it are kept. The
labels keep an answer from being sent back as one's own. The checksums of frames are seeded from the nonces.
"""

from __future__ import annotations

import hashlib
import hmac

from evenflow.errors import HandshakeError

MAGIC = b"EVHS"
VERSION = 2
NONCE_BYTES = 32
MAC_BYTES = 32
_HELLO = MAGIC + bytes([VERSION, 0, 0, 0])
_HELLO_BYTES = len(_HELLO) + NONCE_BYTES


class Handshake:
    """One side of a handshake: call `start()`, then `receive()` with exactly `expects` bytes until `done`."""

    def __init__(self, secret: bytes, nonce: bytes, server: bool) -> None:
        self._secret = secret
        self._nonce = nonce
        self._server = server
        self._nonces = b""
        self.expects = _HELLO_BYTES if server else NONCE_BYTES + MAC_BYTES
        self.done = False

    def start(self) -> bytes:
        """The first message to send; empty for the server."""
        return b"" if self._server else _HELLO + self._nonce

    def receive(self, data: bytes) -> bytes:
        """Take the peer's next message; returns the answer to send."""
        if self._server and not self._nonces:
            if data[: len(_HELLO)] != _HELLO:
                raise HandshakeError(f"the peer opened with {data[: len(_HELLO)]!r}: not an Evenflow process")
            self._nonces = data[len(_HELLO) :] + self._nonce
            self.expects = MAC_BYTES
            return self._nonce + self._mac(b"server")
        if self._server:
            self._check(data, b"client")
            answer = b""
        else:
            self._nonces = self._nonce + data[:NONCE_BYTES]
            self._check(data[NONCE_BYTES:], b"server")
            answer = self._mac(b"client")
        self.expects = 0
        self.done = True
        return answer

    def seeds(self) -> tuple[int, int]:
        """Checksum seeds: of what this side sends, and of what it receives."""
        upward, downward = (int.from_bytes(self._mac(label)[:8], "little") for label in (b"c2s", b"s2c"))
        return (downward, upward) if self._server else (upward, downward)

    def _check(self, mac: bytes, label: bytes) -> None:
        if not hmac.compare_digest(mac, self._mac(label)):
            raise HandshakeError(f"the {label.decode()} does not hold this cluster's secret")

    def _mac(self, label: bytes) -> bytes:
        return hmac.new(self._secret, label + self._nonces, hashlib.sha256).digest()
