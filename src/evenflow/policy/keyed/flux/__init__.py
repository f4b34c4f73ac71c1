"""The balances of the Flux paper, and those that follow from it."""
