"""Sessions of a worker and keyed operators: rows come in, results go out."""
