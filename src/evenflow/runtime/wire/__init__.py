"""Connections: frames, the handshake, channels and the poller, messages."""
