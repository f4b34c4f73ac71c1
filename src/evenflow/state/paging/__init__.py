"""Keyed state within a memory budget: units on disk, and their pending input."""
