"""The arrays in which operators keep the values of their windows."""
