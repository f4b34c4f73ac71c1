"""The embedded session's own settings."""

LONG = 20_000
"""Characters: more than the text of a Java error with its stack."""


def test_java_has_room_for_the_patterns_by_which_spark_knows_errors(spark):
    """Those that a stopped query with `foreachBatch` raises; the pattern is of the kind that Spark uses."""
    assert spark._jvm.java.util.regex.Pattern.matches(r"(.|\r\n|\r|\n)*", "a" * LONG)


def test_spark_says_nothing_of_tasks_that_fail(spark):
    """The exception that ends the job does; a worker that is killed with its session would be told of by its blocks."""
    loggers = spark._jvm.org.apache.logging.log4j.LogManager
    for name in ("TaskContextImpl", "executor.Executor", "scheduler.TaskSetManager"):
        assert not loggers.getLogger(f"org.apache.spark.{name}").isErrorEnabled(), name
    assert loggers.getLogger("org.apache.spark.SparkContext").isErrorEnabled()
