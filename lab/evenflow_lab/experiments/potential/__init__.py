"""The claims about potential-driven placement."""
