"""The balances of the paper on complex event processing."""
