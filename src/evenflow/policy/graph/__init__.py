"""Placements of operator graphs: which operator runs on which worker."""
