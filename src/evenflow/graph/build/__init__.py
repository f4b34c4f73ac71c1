"""How a graph is built and bound to the columns of its inputs."""
