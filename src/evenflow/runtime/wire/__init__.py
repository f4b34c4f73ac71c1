"""What goes over a connection: frames, the handshake, channels and the poller, messages."""
