"""Servers of stores: an S3 bucket, a PostgreSQL database."""
