from types import SimpleNamespace

import evenflow

spark = evenflow.local_session(workers=1)
token = "a token for this test alone"
links = []


def start(spark, workers, dashboard, **given):
    """A cluster as the page has it, but of one worker, at any free port, and stopped again."""
    where = dashboard if dashboard is True else dashboard.replace("8899", "0")
    with evenflow.Cluster(spark, workers=1, dashboard=where, **given) as cluster:
        links.append(cluster.dashboard_link)
        cluster.keyed(orders, "customer", evenflow.RollingMean("amount", rows=2), keys=True)
    return SimpleNamespace(keyed=lambda *given, **more: asked.update(more))


asked = {}
orders = spark.range(1).selectExpr("id as customer", "1.0 as amount")
ef = SimpleNamespace(Cluster=start, RollingMean=evenflow.RollingMean)
# The blocks of the page run here.
assert len(links) == 2
assert asked == {"keys": True}
assert all(link.startswith("http://") for link in links)
