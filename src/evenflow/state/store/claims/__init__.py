"""Claims on a checkpoint, and the fence around it."""
