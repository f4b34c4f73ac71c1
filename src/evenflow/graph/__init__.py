"""Operator graphs: what a user builds, what is bound to the columns of its inputs, and what runs on workers."""
