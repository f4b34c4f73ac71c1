"""Movements of units from worker to worker, as the controller sees them."""
