"""The claims about ordered regions."""
