"""Metrics for Prometheus, counted from the entries of an event log, and a dashboard of Grafana that shows them."""
