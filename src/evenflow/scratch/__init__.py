"""Scratch files: state and rows that do not fit into memory."""
