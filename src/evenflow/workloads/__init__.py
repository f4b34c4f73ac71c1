"""Seeded input of the demo: texts, and graphs of operators with their rows."""
