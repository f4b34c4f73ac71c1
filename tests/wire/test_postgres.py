"""The store in a PostgreSQL database, on a server that the tests start: laws, lost connections, claims, messages."""

import contextlib
import gc
import itertools
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import psutil
import pytest

from evenflow.errors import BlobMissing, EvenflowError, InvalidArgument, StoreError, StoreInUse
from evenflow.state.store import postgres, postgres_link
from evenflow.state.store.base import part
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.claims.fence import FencedView
from evenflow.state.store.opening import open_store
from evenflow.testing import check_store
from tests.support.postgres_server import Server
from tests.support.rig import until
from tests.support.state_cli import run, write_epoch

LOG = "op/q1/log/{}.1.0.77.0"
_schemas = itertools.count()


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def uri(server):
    """The address of a schema that is not there yet."""
    return server.uri(f"s{next(_schemas)}")


def connections(server):
    return server.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'evenflow'")[0][0]


def test_the_laws(server):
    check_store(lambda: open_store(server.uri(f"law{next(_schemas)}")), large=200 * 1024 * 1024 + 17)
    until(lambda: connections(server) == 0, "the end of all connections")


def test_one_table_for_each_query(server, uri):
    schema = uri.partition("schema=")[2]
    with open_store(uri) as store:
        for query in ("q1", "q2"):
            store.put(f"Op/{query}/log/7.1.3.77.0", [b"abc"])
            store.put(f"Op/{query}/epoch/7", [b"m"])
    tables = dict(server.execute(f"SELECT prefix, name FROM {schema}.evenflow_tables"))
    assert tables.keys() == {"", "Op/q1/", "Op/q2/"}
    assert all(name.startswith("op_") for prefix, name in tables.items() if prefix)
    rows = server.execute(
        f"SELECT name, part, size, kind, epoch, worker FROM {schema}.{tables['Op/q1/']} ORDER BY name"
    )
    assert rows == [("Op/q1/epoch/7", 0, 1, "epoch", 7, None), ("Op/q1/log/7.1.3.77.0", 0, 3, "log", 7, 3)]
    indexes = server.execute("SELECT indexdef FROM pg_indexes WHERE tablename = %s", tables["Op/q1/"])
    assert any("(epoch, worker)" in index for (index,) in indexes)


def test_any_range_of_a_blob_in_parts(uri, monkeypatch):
    monkeypatch.setattr(postgres, "PART_BYTES", 10)
    random = Random(0)
    with open_store(uri) as store:
        for size in (0, 9, 10, 11, 45):
            content = random.randbytes(size)
            cut = sorted(random.randint(0, size) for _ in range(5))
            parts = [content[start:stop] for start, stop in itertools.pairwise([0, *cut, size])]
            store.put("x/y/z", parts)
            for start in range(0, size + 12):
                for length in (None, 0, 1, 9, 10, 11, 30):
                    expected = content[start:] if length is None else content[start : start + length]
                    assert bytes(store.get("x/y/z", start, length)) == expected
            assert store.names("x/") == [("x/y/z", size)]


def test_far_beyond_the_end(uri):
    with open_store(uri) as store:
        store.put("a", [b"x"])
        assert store.get("a", 2**40, 2**41).nbytes == 0
        with pytest.raises(InvalidArgument, match="negative"):
            store.get("a", -1)


def test_few_connections(server, uri):
    """However many stores and threads a process has."""
    until(lambda: connections(server) == 0, "the end of those of other tests")
    seen = []
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(16) as pool:
        stores = [stack.enter_context(open_store(uri)) for _ in range(3)]

        def work(number):
            stores[number % 3].put(f"c/d/{number}", [bytes(100_000)])
            seen.append(connections(server))

        list(pool.map(work, range(48)))
        assert len(stores[0].names("c/d/")) == 48
    assert max(seen) <= postgres_link.MOST
    until(lambda: connections(server) == 0, "the end of all connections")


_WRITER = """
import sys
from evenflow.state.store.opening import open_store
with open_store(sys.argv[1]) as store:
    for number in range(8):
        store.put(f"w/q/{sys.argv[2]}.{number}", [sys.argv[2].encode() * 1000])
        store.put("w/q/all", [sys.argv[2].encode() * 9_000_000])
        content = bytes(store.get("w/q/all"))
        assert len(content) == 9_000_000 and len(set(content)) == 1, "a mixture"
"""


def test_several_processes(uri):
    """They make the schema and its tables at the same time, too."""
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, uri, f"{number}"]) for number in range(3)]
    assert [writer.wait(120) for writer in writers] == [0] * 3
    with open_store(uri, create=False) as store:
        assert len(store.names("w/q/")) == 3 * 8 + 1


class Putting(threading.Thread):
    """Puts blob after blob until told to stop, or until one fails."""

    def __init__(self, store):
        super().__init__()
        self.store, self.done, self.error, self.over = store, 0, None, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                self.store.put(LOG.format(self.done), [b"%d" % self.done, bytes(200_000)])
                self.done += 1
        except EvenflowError as error:
            self.error = error

    def stop(self):
        self.over.set()
        self.join(60)

    def check(self, store):
        """All that was acknowledged is there, and nothing is half there."""
        found = dict(store.names("op/q1/log/"))
        assert self.done - 1 <= len(found) - 1 <= self.done
        for number in range(self.done):
            name = LOG.format(number)
            assert found[name] == 200_000 + len(f"{number}")
            assert bytes(store.get(name, 0, 8)).rstrip(b"\0") == b"%d" % number


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "crash"])
def test_a_restart_is_waited_for(server, uri, monkeypatch, how):
    monkeypatch.setattr(postgres_link, "LONGEST_PAUSE_S", 4.0)  # a server on a busy machine takes its time
    monkeypatch.setattr(postgres_link, "PATIENCE_S", 60.0)
    with open_store(uri) as store:
        putting = Putting(store)
        for _ in range(2):
            before = putting.done
            until(lambda before=before: putting.done > before + 5, "some puts")
            server.stop(how)
            server.start()
        before = putting.done
        until(lambda: putting.done > before + 5 or putting.error, "some puts after the restart")
        putting.stop()
        assert putting.error is None
        putting.check(store)


def test_gone_for_good(server, uri, monkeypatch):
    monkeypatch.setattr(postgres_link, "LONGEST_PAUSE_S", 0.2)
    with open_store(uri) as store:
        putting = Putting(store)
        until(lambda: putting.done > 5, "some puts")
        server.stop()
        putting.join(60)
        try:
            assert isinstance(putting.error, StoreError)
            assert re.search(
                rf"cannot write blob op/q1/log/.*: PostgreSQL at 127.0.0.1:{server.port}, database postgres did not "
                r"answer in 8 tries over .* s \(.*\); see that the server runs",
                str(putting.error),
            )
            with pytest.raises(StoreError, match="cannot read blob"):
                store.get(LOG.format(0))
        finally:
            server.start()
        putting.check(store)
        store.put("op/q1/log/again", [b"x"])


def test_a_server_that_is_frozen(server, uri, monkeypatch):
    """Its kernel goes on acknowledging, so nothing else tells."""
    with open_store(f"{uri}&connect_timeout=2") as store:
        held = claim(store, "me")
        store.put("a", [b"before"])
        tell(server, signal.SIGSTOP)
        try:
            with monkeypatch.context() as soon:
                soon.setattr(postgres_link, "SILENT_S", 0.3)
                soon.setattr(postgres_link, "PATIENCE_S", 1.0)
                with pytest.raises(StoreError, match=r"cannot .*: PostgreSQL at .* did not answer in \d tries"):
                    store.put("a", [b"while"])
        finally:
            tell(server, signal.SIGCONT)
        store.put("a", [b"after"])
        assert bytes(store.get("a")) == b"after"
        held.release()
    gc.collect()  # psycopg leaves it to the collector to close what did not get through


def tell(server, number):
    """Send a signal to the server and all its processes, some of which may just be going."""
    parent = psutil.Process(server.process.pid)
    for process in (parent, *parent.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def test_down_at_start(server):
    server.stop()
    try:
        with pytest.raises(
            StoreError, match=f"PostgreSQL at 127.0.0.1:{server.port}.* in 5 tries .*see that the server runs"
        ) as said:
            open_store(server.uri("down", user="someone:hunter2"))
    finally:
        server.start()
    assert "hunter2" not in str(said.value)


def test_what_does_not_pass_is_said_at_once(server):
    address = server.uri("x").replace("/postgres?", "/nowhere?")
    with pytest.raises(StoreError, match=r'database "nowhere" does not exist; check host, port, database'):
        open_store(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:hunter2@host:port/db",
        "postgresql://u:hunter2/x@host/db",
        "postgresql://u:hunter2?x@host/db",
        "postgresql://u:1?hunter2@host/db",
        "postgresql://u:hunter2@host/db?colour=red",
        "postgresql://u:hunter2@[::1/db",
    ],
)
def test_wrong_addresses(address):
    with pytest.raises(InvalidArgument, match="write postgresql://user@host") as said:
        open_store(address)
    assert "hunter2" not in "".join(map(str, (said.value, said.value.__cause__)))


def test_wrong_schemas(server):
    for schema in ("", "x" * 64):
        with pytest.raises(InvalidArgument, match="give a name of 1 to 63 bytes"):
            open_store(server.uri(schema))
    with pytest.raises(StoreError, match="is empty: there is no state here"):
        open_store(server.uri("nothing"), create=False)
    assert not server.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'nothing'")
    server.execute("CREATE SCHEMA theirs; CREATE TABLE theirs.orders (id int)")
    with pytest.raises(StoreError, match=r"holds table 'orders' and no evenflow_about.*give a schema of its own"):
        open_store(server.uri("theirs"))
    open_store(server.uri("later")).close()
    server.execute("UPDATE later.evenflow_about SET content = %s", b'{"format": 99}')
    with pytest.raises(StoreError, match="has format 99"):
        open_store(server.uri("later"))


def test_odd_schemas_and_users_without_rights(server):
    for schema in ("Größe", "a b", 'q"x', "x; DROP TABLE y"):
        with open_store(server.uri(part(schema))) as store:
            store.put("a/b/c", [b"x"])
            assert store.names() == [("a/b/c", 1)]
    server.execute("CREATE ROLE guest LOGIN")
    with pytest.raises(StoreError, match=r"permission denied.*grant it to this user"):
        open_store(server.uri("guests", user="guest"))
    server.execute("CREATE SCHEMA guests AUTHORIZATION guest")
    with open_store(server.uri("guests", user="guest")) as store:
        store.put("a/b/c", [b"x"])


def test_the_schema_is_dropped_meanwhile(server, uri):
    with open_store(uri) as store:
        store.put("a/b/c", [b"x"])
        server.execute(f"DROP SCHEMA {uri.partition('schema=')[2]} CASCADE")
        with pytest.raises(StoreError, match="it was dropped while in use"):
            store.put("a/b/c", [b"x"])
        with pytest.raises(BlobMissing):
            store.get("a/b/c")


def test_rows_that_are_missing_are_noticed(server, uri):
    with open_store(uri) as store:
        store.put("a", [bytes(9_000_000)])
        server.execute(f"DELETE FROM {uri.partition('schema=')[2]}.blobs WHERE part = 1")
        with pytest.raises(StoreError, match="has 4805696 of 9000000 bytes"):
            store.get("a")


def test_the_command_line(server, uri):
    with open_store(uri) as store:
        for epoch in (3, 4):
            write_epoch(store, "mean price", "q/1", epoch)
    address = uri.replace("evenflow@", "evenflow:hunter2@")
    for command, wanted in (("ls", "3-4"), ("verify", "all sound"), ("show", "mean price")):
        code, said = run(command, address, *(["mean price"] if command == "show" else []))
        assert code == 0
        assert wanted in said
        assert "hunter2" not in said
    name = store_name(server, uri)
    server.execute(f"UPDATE {name} SET data = set_byte(data, 40, 255 - get_byte(data, 40)) WHERE kind = 'units'")
    code, said = run("verify", address)
    assert code == 1
    assert "mean%20price/q%2F1/units/3.0.5f.0" in said


def store_name(server, uri):
    """The one table with blobs of a query."""
    schema = uri.partition("schema=")[2]
    [(name,)] = server.execute(f"SELECT name FROM {schema}.evenflow_tables WHERE prefix <> ''")
    return f"{schema}.{name}"


# -- claims

_HOLDER = """
import sys, time
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.opening import open_store
held = claim(open_store(sys.argv[1]), "the other")
print("held", flush=True)
time.sleep(600)
"""


def test_two_claims(uri):
    with open_store(uri) as first, open_store(uri) as second:
        held = claim(first, "the first")
        with pytest.raises(StoreError, match=r"schema s\d+ is in use by the first \(host .*, process \d+, since"):
            claim(second, "the second")
        held.release()
        held.release()
        claim(second, "the second").release()
        assert not FencedView(first).names()


def test_a_claim_ends_with_its_process(uri):
    with subprocess.Popen([sys.executable, "-c", _HOLDER, uri], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with open_store(uri) as store:
            with pytest.raises(StoreError, match="is in use by the other"):
                claim(store, "me")
            holder.kill()
            holder.wait()

            def taken():
                with contextlib.suppress(StoreError):
                    return claim(store, "me")

            until(taken, "the end of the claim").release()


def test_a_claim_survives_a_restart(server, uri):
    with open_store(uri) as first, open_store(uri) as second:
        held = claim(first, "the first")
        server.stop()
        server.start()
        first.put("a/b/c", [b"x"])
        with pytest.raises(StoreError, match="is in use by the first"):
            claim(second, "the second")
        held.beat()
        held.release()


def test_a_claim_that_another_has_taken_after_a_restart(server, uri):
    """Whoever comes first has it; the other one cannot go on as if nothing had been."""
    with open_store(uri) as first, open_store(uri) as second:
        claim(first, "the first")
        server.stop()
        server.start()
        held = claim(second, "the second")
        with pytest.raises(StoreError, match="is in use by the second"):
            first.put("a/b/c", [b"x"])
        held.release()


def test_a_claim_that_another_has_had_after_a_restart(server, uri):
    """The lock is free again, and could be had again: but what the other has put would be overwritten."""
    with open_store(uri) as first, open_store(uri) as second:
        held = claim(first, "the first")
        held.store.put("a/b/task/1", [b"first"])
        server.stop()
        server.start()
        other = claim(second, "the second")
        other.store.put("a/b/task/1", [b"second"])
        other.release()
        with pytest.raises(StoreInUse, match="taken over by the second"):
            held.store.put("a/b/task/1", [b"late"])
        with pytest.raises(StoreInUse, match="taken over by the second"):
            held.beat()
        assert bytes(FencedView(second).get("a/b/task/1")) == b"second"
        held.release()
