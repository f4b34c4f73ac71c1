"""Stores: the laws, what a killed writer leaves, what is said when the disk does not play along, and claims."""

import errno
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from evenflow.errors import InvalidArgument, StoreError, StoreInUse
from evenflow.state.store.base import CLAIM_S, FORMAT_FILE, is_name, part, unpart
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.disk import DiskStore
from evenflow.state.store.files import ABANDONED_S, FileStore
from evenflow.state.store.layout import FORMAT
from evenflow.state.store.opening import open_store
from evenflow.testing import check_store
from tests.support.state_memory import Memory


def stores(tmp_path):
    """Ways to open a store in an empty place, by name."""
    numbers = itertools.count()
    return {
        "path": lambda: open_store(tmp_path / f"{next(numbers)}"),
        "uri": lambda: open_store(f"file://{tmp_path}/u{next(numbers)}"),
        "local": lambda: open_store((fs.LocalFileSystem(), f"{tmp_path}/l{next(numbers)}")),
        "subtree": lambda: open_store((fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), f"s{next(numbers)}")),
        "mock": lambda: open_store((fs._MockFileSystem(), f"m{next(numbers)}")),
        "memory": Memory,
    }


@pytest.mark.parametrize("name", ["path", "uri", "local", "subtree", "mock", "memory"])
def test_the_laws(tmp_path, name):
    check_store(stores(tmp_path)[name], large=(100 if name in ("path", "local") else 2) * 1024 * 1024 + 17)


def test_a_path_and_a_file_uri_are_the_disk(tmp_path):
    made = stores(tmp_path)
    assert isinstance(made["path"](), DiskStore)
    assert isinstance(made["uri"](), DiskStore)
    assert isinstance(made["local"](), FileStore)


BROKEN = {
    "overwriting": {"put": lambda self, name, parts: Memory.put(self, name, parts) if name not in self.blobs else None},
    "ranges": {"get": lambda self, name, start=0, length=None: Memory.get(self, name, 0, length)},
    "listing": {"names": lambda self, prefix="": Memory.names(self, prefix.rpartition("/")[0])},
    "deleting": {"delete": lambda self, names: [self.blobs.pop(name, None) for name in list(names)[:1]]},
    "parts": {"put": lambda self, name, parts: Memory.put(self, name, list(parts)[:1000])},
}


@pytest.mark.parametrize("law", BROKEN)
def test_a_broken_law_is_named(law):
    with pytest.raises(AssertionError, match=f"law '{law}'"):
        check_store(type("Broken", (Memory,), BROKEN[law]), large=100)


def test_make_must_give_a_fresh_store():
    store = Memory()
    with pytest.raises(AssertionError, match="law 'fresh'"):
        check_store(lambda: store, large=100)


# -- names


@given(st.text(max_size=20), st.text(max_size=20))
def test_parts_of_names_are_reversible_and_apart(one, other):
    assert unpart(part(one)) == one
    assert is_name(part(one))
    assert (part(one) == part(other)) == (one == other)


@given(st.text(st.characters(), max_size=5))
def test_even_half_a_surrogate(text):
    assert unpart(part(text)) == text


def test_a_name_that_is_too_long():
    with pytest.raises(StoreError, match="takes 400 bytes, over 255: give a shorter one"):
        part("x" * 400)


# -- the disk


KILLED = """
import os, signal, sys
from pathlib import Path
from evenflow.state.store.disk import DiskStore
store = DiskStore(Path(sys.argv[1]))
store.put("a/old", [b"old"])
call = getattr(os, sys.argv[2])
def killed(*args):
    if sys.argv[2] == "writev":
        call(args[0], [args[1][0][:1000]])
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], killed)
store.put(sys.argv[3], [b"x" * 5000, b"y"])
"""


@pytest.mark.parametrize("name", ["a/old", "a/new", "b/c/new"])
@pytest.mark.parametrize("call", ["writev", "fsync", "replace"])
def test_a_writer_that_is_killed_leaves_what_was_there(tmp_path, call, name):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), call, name], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if (call, name) != ("fsync", "b/c/new"):  # there the directory is synced first
        assert list(tmp_path.rglob(".tmp-*"))
    for store in (DiskStore(tmp_path, create=False), DiskStore(tmp_path)):
        assert store.names() == [("a/old", 3)]
        assert bytes(store.get("a/old")) == b"old"
    assert not list(tmp_path.rglob(".tmp-*"))


def test_opening_leaves_alone_what_is_being_written(tmp_path):
    DiskStore(tmp_path)
    (tmp_path / "a").mkdir()
    with (tmp_path / "a" / ".tmp-1-1").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        DiskStore(tmp_path)
        assert (tmp_path / "a" / ".tmp-1-1").exists()
    DiskStore(tmp_path)
    assert not (tmp_path / "a" / ".tmp-1-1").exists()


def test_other_file_systems_lose_leftovers_after_a_day(tmp_path):
    where = (fs.LocalFileSystem(), str(tmp_path))
    open_store(where)
    young, old = tmp_path / ".tmp-young", tmp_path / ".tmp-old"
    young.touch()
    old.touch()
    os.utime(old, (0, old.stat().st_mtime - ABANDONED_S - 1))
    assert open_store(where).names() == []
    assert (young.exists(), old.exists()) == (True, False)


def test_everything_is_synced_before_it_counts(tmp_path, monkeypatch):
    store = DiskStore(tmp_path)
    log = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (log.append(os.readlink(f"/proc/self/fd/{file}")), sync(file)))
    monkeypatch.setattr(os, "replace", lambda old, new: (log.append(f"-> {new}"), replace(old, new)))
    store.put("a/b/c", [b"x"])
    temporary = log.pop(2)
    assert Path(temporary).parent == tmp_path / "a" / "b"
    assert log == [str(tmp_path), f"{tmp_path}/a", f"-> {tmp_path}/a/b/c", f"{tmp_path}/a/b"]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "no space left: free some, or put the checkpoint elsewhere"),
        (errno.EDQUOT, "no space left"),
        (errno.EROFS, "Read-only file system: give this user the right to it"),
        (errno.EACCES, "give this user the right to it"),
        (errno.EMFILE, "raise `ulimit -n`"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_put_that_fails_says_why_and_leaves_nothing(tmp_path, monkeypatch, number, said):
    store = DiskStore(tmp_path)

    def fail(*_args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "writev", fail)
    with pytest.raises(StoreError, match=said) as failure:
        store.put("a/b", [b"x"])
    assert f"cannot write {tmp_path}/a/b" in str(failure.value)
    assert not list(tmp_path.rglob(".tmp-*"))
    assert store.names() == []


def test_the_kernel_may_take_a_few_bytes_at_a_time(tmp_path, monkeypatch):
    store = DiskStore(tmp_path)
    write = os.writev
    monkeypatch.setattr(os, "writev", lambda file, parts: write(file, [parts[0][:7]]))
    store.put("a", [b"0123456789" * 3, b"", b"abc"])
    assert bytes(store.get("a")) == b"0123456789" * 3 + b"abc"


def test_empty_directories_go(tmp_path):
    store = DiskStore(tmp_path)
    store.put("a/b/c", [b"x"])
    store.put("a/d", [b"x"])
    store.delete(["a/b/c"])
    assert not (tmp_path / "a" / "b").exists()
    store.delete(["a/d"])
    assert [path.name for path in tmp_path.iterdir()] == [FORMAT_FILE]


# -- opening


def test_a_file_is_not_a_directory(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file and not a directory"):
        open_store(tmp_path / "file")
    with pytest.raises(StoreError, match="is a file and not a directory"):
        open_store(tmp_path / "file" / "below")


@pytest.mark.parametrize("kind", ["path", "local"])
def test_somebody_elses_directory(tmp_path, kind):
    (tmp_path / "offsets").mkdir()
    where = tmp_path if kind == "path" else (fs.LocalFileSystem(), str(tmp_path))
    with pytest.raises(StoreError, match=r"holds 'offsets' and no evenflow.json.*give a directory of its own"):
        open_store(where)


@pytest.mark.parametrize("kind", ["path", "local"])
def test_looking_makes_nothing(tmp_path, kind):
    def where(name):
        return tmp_path / name if kind == "path" else (fs.LocalFileSystem(), f"{tmp_path}/{name}")

    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="is empty: there is no state here"):
        open_store(where("empty"), create=False)
    with pytest.raises(StoreError, match="does not exist"):
        open_store(where("missing"), create=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize("kind", ["path", "local"])
@pytest.mark.parametrize(
    ("format", "remedy"), [(FORMAT + 1, "install a newer evenflow"), (1, "start the query with a new checkpoint and a")]
)
def test_another_format_is_refused_by_both_names(tmp_path, kind, format, remedy):
    (tmp_path / FORMAT_FILE).write_text(json.dumps({"format": format, "evenflow": "9.9"}))
    where = tmp_path if kind == "path" else (fs.LocalFileSystem(), str(tmp_path))
    said = rf"has format {format}, written by evenflow 9\.9; .* reads format {FORMAT}: .*{remedy}"
    with pytest.raises(StoreError, match=said):
        open_store(where)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "x"}', b"\xff"])
def test_a_format_file_that_says_nothing(tmp_path, content):
    (tmp_path / FORMAT_FILE).write_bytes(content)
    with pytest.raises(StoreError, match="not the format of a checkpoint"):
        open_store(tmp_path)


@pytest.mark.parametrize("where", ["nosuch://x/y", "://"])
def test_a_uri_nobody_knows(where):
    with pytest.raises(StoreError, match=r"cannot open .*give a path, a URI"):
        open_store(where)


def test_nowhere():
    with pytest.raises(InvalidArgument, match="empty string"):
        open_store("")


def test_what_was_put_is_there_when_opened_again(tmp_path):
    with open_store(tmp_path / "x" / "y") as store:
        store.put("a/b", [b"1", b"2"])
    with open_store(f"{tmp_path}/x/y", create=False) as store:
        assert bytes(store.get("a/b")) == b"12"


@pytest.mark.parametrize("bad", [(-1, None), (0, -1)])
@pytest.mark.parametrize("kind", ["path", "mock"])
def test_negative_ranges(tmp_path, kind, bad):
    store = stores(tmp_path)[kind]()
    store.put("a", [b"x"])
    with pytest.raises(InvalidArgument, match="negative"):
        store.get("a", *bad)


# -- who may read


def test_only_the_owner_can_read(tmp_path):
    """Whatever the umask; directories above the checkpoint are as others make them."""
    before = os.umask(0)
    try:
        with DiskStore(tmp_path / "above" / "state") as store:
            held = claim(store, "me")
            held.store.put("a/b/task/1", [b"x"])
            store.put("a/b/log/1.1.0.7.0", [b"x"])
    finally:
        os.umask(before)
    found = {path: path.stat().st_mode & 0o777 for path in [store.root, *store.root.rglob("*")]}
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}
    assert {FORMAT_FILE, ".lock", "1.1.0.7.0"} <= {path.name for path in found}
    assert (tmp_path / "above").stat().st_mode & 0o777 == 0o777
    held.release()


# -- claims


def test_the_second_cluster_is_told_who_the_first_is(tmp_path):
    first = claim(DiskStore(tmp_path), "app-1")
    with pytest.raises(StoreError, match=rf"in use by app-1 \(host .*, process {os.getpid()}, since 20.* UTC\): stop"):
        claim(DiskStore(tmp_path), "app-2")
    first.beat()
    first.release()
    first.release()
    second = claim(DiskStore(tmp_path), "app-2")
    with pytest.raises(StoreError, match="app-2"):
        claim(DiskStore(tmp_path), "app-3")
    second.release()
    assert DiskStore(tmp_path).names()[-1][0] == f"evenflow.claims/{second.store.mark}"


def test_death_frees_the_disk(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from evenflow.state.store.disk import DiskStore; from evenflow.state.store.claims.claim import claim\n"
        "kept = claim(DiskStore(Path(sys.argv[1])), 'dead'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -signal.SIGKILL
    claim(DiskStore(tmp_path), "next").release()


@pytest.mark.parametrize("kind", ["mock", "memory"])
def test_elsewhere_a_claim_lives_by_its_beats(tmp_path, kind):
    store, time = stores(tmp_path)[kind](), [1e9]
    first = claim(store, "app-1", lambda: time[0])
    time[0] += CLAIM_S - 1
    with pytest.raises(StoreError, match="in use by app-1"):
        claim(store, "app-2", lambda: time[0])
    first.beat()
    time[0] += CLAIM_S - 1
    with pytest.raises(StoreError, match="in use by app-1"):
        claim(store, "app-2", lambda: time[0])
    time[0] += 2
    second = claim(store, "app-2", lambda: time[0])
    with pytest.raises(StoreInUse, match="taken over by app-2"):
        first.beat()
    first.release()
    second.beat()
    second.release()
    third = claim(store, "app-3", lambda: time[0])
    third.release()
    assert store.names()[-1][0] == f"evenflow.claims/{third.store.mark}"
