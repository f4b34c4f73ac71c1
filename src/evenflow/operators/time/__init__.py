"""Rows in the order of their time: rows that wait, ticks, late rows."""
