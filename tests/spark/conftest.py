"""One Spark session and one cluster for all tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import evenflow as ef
from tests.support import stored_stream
from tests.support.stored_names import own_names_below

WORKERS = 4
SLOTS = 6
"""For queries, and for the clusters that some tests start beside the shared one."""


@pytest.fixture(scope="module", autouse=True)
def _ship_by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers cannot import test modules, so the functions in them travel whole."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(autouse=True)
def _stored_state_names_no_module_of_ours(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unit snapshots that a test leaves behind can be read wherever Evenflow's modules have moved to."""
    folder: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    assert folder is None or not own_names_below(folder)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = ef.local_session(
        workers=WORKERS,
        slots=SLOTS,
        conf={"spark.sql.session.timeZone": "America/New_York", "spark.driver.memory": "2g"},
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_cluster(spark: SparkSession) -> Iterator[ef.Cluster]:
    with ef.Cluster(spark, workers=WORKERS, start_timeout=150) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: ef.Cluster) -> Iterator[ef.Cluster]:
    """The shared cluster; whatever a test does with it, its workers must be the same ones afterwards."""
    before = [(worker.id, worker.pid, worker.state) for worker in shared_cluster.workers()]
    yield shared_cluster
    assert [(worker.id, worker.pid, worker.state) for worker in shared_cluster.workers()] == before
    assert {worker.state for worker in shared_cluster.workers()} == {"live"}


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Set Spark SQL settings for one test."""
    old: dict[str, str | None] = {}

    def change(key: str, value: str) -> None:
        old.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield change
    for key, value in old.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the micro-batches of `stored_stream`."""
    return stored_stream.write_files(tmp_path / "in")
