"""The embedded session's own settings."""

LONG = 20_000
"""Characters: more than the text of a Java error with its stack."""


def test_java_has_room_for_the_patterns_by_which_spark_knows_errors(spark):
    """Those that a stopped query with `foreachBatch` raises; the pattern is of the kind that Spark uses."""
    assert spark._jvm.java.util.regex.Pattern.matches(r"(.|\r\n|\r|\n)*", "a" * LONG)
