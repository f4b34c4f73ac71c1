"""Durable state: stores of named blobs, and what the blobs hold. No sockets, no Spark, no decisions."""
