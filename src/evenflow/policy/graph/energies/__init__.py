"""What a placement costs: energies, latency, traffic."""
