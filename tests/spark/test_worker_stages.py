"""How the workers look in Spark's own pages: jobs and stages with names, in a group of their own."""

from evenflow.runtime.cluster.spark.session import stop_progress_bar


def test_workers_have_names_and_a_job_group(spark, cluster):
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(f"evenflow-{cluster._settings.cluster}")
    running = {job for job in jobs if tracker.getJobInfo(job).status == "RUNNING"}
    stages = [tracker.getStageInfo(stage) for job in running for stage in tracker.getJobInfo(job).stageIds]
    names = sorted(stage.name for stage in stages if stage is not None)
    assert names == [f"evenflow worker {worker.id}" for worker in cluster.workers()]
    assert not set(tracker.getActiveJobsIds()) - running


def test_jobs_of_queries_are_not_in_the_group(spark, cluster):
    before = set(spark.sparkContext.statusTracker().getJobIdsForGroup(f"evenflow-{cluster._settings.cluster}"))
    assert spark.range(10).count() == 10
    after = set(spark.sparkContext.statusTracker().getJobIdsForGroup(f"evenflow-{cluster._settings.cluster}"))
    assert after == before


def test_a_progress_bar_is_stopped(spark):
    """The timer of Spark's own class, which nothing but its `stop` ends."""
    threads = spark._jvm.java.lang.Thread
    bar = spark._jvm.org.apache.spark.ui.ConsoleProgressBar(spark.sparkContext._jsc.sc())

    class Context:
        class _jsc:
            @staticmethod
            def sc():
                return Context

        @staticmethod
        def progressBar():
            return spark._jvm.scala.Option.apply(bar)

    def refreshing():
        return [t for t in threads.getAllStackTraces().keySet() if t.getName() == "refresh progress" and t.isAlive()]

    assert refreshing()
    stop_progress_bar(Context)
    for thread in refreshing():
        thread.join(5000)
    assert not refreshing()
