"""Checkpoints as a worker writes and reads them."""
