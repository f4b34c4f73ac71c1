"""The claims about Flux."""
