"""Types and values of expressions: arithmetic, casts, decimals, times."""
