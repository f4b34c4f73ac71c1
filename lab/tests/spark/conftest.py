"""The session and the cluster of Evenflow's own tests on Spark."""

from tests.spark.conftest import _ship_by_value, shared_cluster, spark

__all__ = ["_ship_by_value", "shared_cluster", "spark"]
