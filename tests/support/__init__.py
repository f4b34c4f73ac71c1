"""What several tests use: models, simulated worlds, rigs, servers."""
