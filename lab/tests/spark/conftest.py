"""The session of Evenflow's own tests on Spark."""

from tests.spark.conftest import _ship_by_value, spark

__all__ = ["_ship_by_value", "spark"]
