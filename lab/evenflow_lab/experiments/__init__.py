"""The papers' claims beside ours: what is simulated for each, the criterion by which it holds, and the report."""
