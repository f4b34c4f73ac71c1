"""Stores of named blobs: disk, object stores, PostgreSQL; claims on them, fences and seals."""
