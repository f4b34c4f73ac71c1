"""Movements of units from worker to worker, and what the controller knows of their progress."""
