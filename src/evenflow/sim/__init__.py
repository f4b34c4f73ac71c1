"""A discrete-event simulator: the real controller and balances on a virtual clock, over a compiled data plane."""
