"""The claims about complex event processing."""
