"""`evenflow state ls | show | verify`."""

import json

import pytest

from evenflow.state.checkpoint.manifest import Manifest, put_manifest
from evenflow.state.checkpoint.survey import verify
from evenflow.state.store.claims.claim import claim
from evenflow.state.store.opening import open_store
from evenflow.state.store.sealed import Place, key_of
from tests.support.state_cli import run, write_epoch


@pytest.fixture
def where(tmp_path):
    with open_store(tmp_path / "state") as store:
        for epoch in (3, 4, 5):
            write_epoch(store, "mean price", "q/1", epoch, rows=1000 + epoch)
        write_epoch(store, "mean price", "q2", 8)
        write_epoch(store, "count", "q/1", 9)
    return tmp_path / "state"


def test_ls(where):
    code, said = run("ls", where)
    assert code == 0
    said = said.replace(str(where), "")  # the number of the temporary directory may be any
    assert "mean price" in said
    assert "q/1" in said
    assert "3-5" in said
    assert "63" in said  # as given to keyed: the unit of null keys is ours
    assert "64" not in said
    assert "UTC" in said


def test_show(where):
    code, said = run("show", where, "mean price", "q/1")
    assert code == 0
    for expected in ("operator mean price, query q/1", "epochs 3-5", "63 units of RollingMean('x')", "1,005"):
        assert expected in said
    assert "units/5.0.5f.0" in said
    assert "log/5.1.0.5f.0" in said
    assert run("show", where, "count")[0] == 0


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["mean price"], "several queries for mean price"),
        (["nobody"], "no state for nobody"),
        (["count", "q/1", "more"], "give operator and query"),
    ],
)
def test_show_of_what_is_not_there_or_not_one(where, names, said):
    code, output = run("show", where, *names)
    assert code == 2
    assert said in output


def test_verify_a_sound_one(where):
    code, said = run("verify", where)
    assert code == 0
    assert "27 blobs" in said
    assert "all sound" in said


@pytest.mark.parametrize("kind", ["log/4.1.0.5f.0", "units/4.0.5f.0", "epoch/4"])
def test_verify_names_what_is_bad_and_what_can_be_restored(where, kind):
    path = where / "mean%20price" / "q%2F1" / kind
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    code, said = run("verify", where)
    assert code == 1
    assert f"BAD mean%20price/q%2F1/{kind} (epoch 4): blob" in said
    assert "epochs 3, 5 can still be restored" in said
    assert said.count("BAD") == 1


def test_verify_notices_what_is_missing(where):
    (where / "count" / "q%2F1" / "log" / "9.1.0.5f.0").unlink()
    code, said = run("verify", where)
    assert code == 1
    assert "BAD count/q%2F1/log/9.1.0.5f.0 (epoch 9): it is missing; the manifest of epoch 9 needs it" in said
    assert "no epoch can be restored" in said


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("count/q%2F1/begun/9.1", "BAD count/q%2F1/begun/9.1 (epoch 9): it is missing; every attempt leaves it"),
        ("evenflow.queries/q2", "BAD evenflow.queries/q2 (epoch -1): it is missing, or does not list mean price"),
    ],
)
def test_verify_notices_notes_that_are_missing(where, gone, said):
    (where / gone).unlink()
    code, output = run("verify", where)
    assert code == 1
    assert said in output


def test_verify_tells_what_only_spark_knows(where, tmp_path):
    """Whether the last note has vanished or never was, since Spark has that batch still to run."""
    with open_store(where) as store:
        begun = Manifest("count", "q/1", "RollingMean('x')", 64, 10, 1, (), kind="begun", before=(9, 1))
        put_manifest(store, begun)
    code, said = run("verify", where)
    assert code == 0
    assert "all sound" in said
    assert "batch 10 of operator count, query q/1 has begun and is not whole" in said
    assert "commits/10 in the query's checkpointLocation), count/q%2F1/whole/10.1 is missing" in said
    done = spark_checkpoint(tmp_path / "done", "q/1", {10: "10"}, [10])
    code, said = run("verify", where, "--spark", done)
    assert (code, "APART Spark has committed batch 10 of query q/1, and count/q%2F1/whole/10.1" in said) == (1, True)
    due = spark_checkpoint(tmp_path / "due", "q/1", {10: "10"}, [9])
    assert "has begun and is not whole" in run("verify", where, "--spark", due)[1]


def spark_checkpoint(folder, query, offsets, committed):
    """What Spark leaves of a query: by batch, the offsets of its sources."""
    (folder / "commits").mkdir(parents=True)
    (folder / "offsets").mkdir()
    (folder / "metadata").write_text(json.dumps({"id": query}))
    for batch, end in offsets.items():
        (folder / "offsets" / f"{batch}").write_text(f'v1\n{{"batchTimestampMs":{batch}}}\n{end}')
        (folder / "offsets" / f".{batch}.crc").write_text("")
    for batch in committed:
        (folder / "commits" / f"{batch}").write_text("v1\n{}")
    return folder


@pytest.fixture
def alone(tmp_path):
    """A query with one operator, which is at batch 9."""
    with open_store(tmp_path / "state") as store:
        write_epoch(store, "count", "q/1", 9)
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("offsets", "committed", "said"),
    [
        ({8: "8", 9: "9"}, [8, 9], ""),
        ({8: "8", 9: "9", 10: "10"}, [8, 9], ""),
        ({9: "9", 10: "9"}, [9, 10], ""),  # batch 10 had no rows
        (
            {9: "9", 10: "10"},
            [9, 10],
            "APART Spark is at batch 11 of query q/1, and in this checkpoint the state",
        ),
        ({8: "8"}, [7], "APART batch 8 of query q/1 is older than the state in the checkpoint, which is of batch 9"),
    ],
)
def test_verify_compares_with_the_checkpoint_of_spark(alone, tmp_path, offsets, committed, said):
    there = spark_checkpoint(tmp_path / "spark", "q/1", offsets, committed)
    code, output = run("verify", alone, "--spark", there)
    assert code == bool(said)
    assert said in output
    assert ("all sound" in output) == (not said)


@pytest.mark.parametrize(
    ("offsets", "code", "said"),
    [
        ({5: "5\n0", 9: "5\n4"}, 0, "cannot be told from here: whether operator mean price of query q/1 lacks rows"),
        (
            {5: "5\n0", 9: "9\n4"},
            1,
            "operator mean price is of batch 5: nothing of it is of batches 6 to 9, so it is an",
        ),
        ({5: "5\n0", 9: "5\n0"}, 0, "all sound"),
        ({9: "9\n4"}, 1, "operator mean price is of batch 5: nothing of it is of batches 6 to 9, so it is an"),
    ],
)
def test_verify_compares_each_operator(where, tmp_path, offsets, code, said):
    """Operator count has notes of batches that mean price has none of; only some sources may feed that one."""
    there = spark_checkpoint(tmp_path / "spark", "q/1", offsets, [9])
    found, output = run("verify", where, "--spark", there)
    assert (found, said in output) == (code, True)
    assert ("so it is an older copy" in output) == bool(code)


def test_verify_says_what_it_cannot_know(where, tmp_path):
    assert "not known from here: whether it is of the same time as Spark's checkpoint" in run("verify", where)[1]
    code, said = run("verify", where, "--spark", tmp_path)
    assert (code, "is not the checkpointLocation of a query" in said) == (2, True)
    there = spark_checkpoint(tmp_path / "spark", "q9", {0: "0"}, [0])
    code, said = run("verify", where, "--spark", there)
    assert (code, "APART query q9 is not known in this checkpoint" in said) == (1, True)


def test_batches_that_were_run_without_our_operators_are_noted(alone, tmp_path):
    there = spark_checkpoint(tmp_path / "spark", "q/1", {9: "9", 12: "12"}, [9, 12])
    assert "`evenflow state absent DIR q/1 12`" in run("verify", alone, "--spark", there)[1]
    code, said = run("absent", alone, "q/1", 12)
    assert (code, "noted: batches 10 to 12 of query q/1" in said) == (0, True)
    assert run("verify", alone, "--spark", there)[0] == 0
    code, said = run("absent", alone, "q/1", 9)
    assert (code, "taken back: that batches of query q/1 after 9 were run without operators" in said) == (0, True)
    assert "`evenflow state absent DIR q/1 12`" in run("verify", alone, "--spark", there)[1]
    for query, batch, why in (("q/1", 9, "is known here, up to 9"), ("q9", 3, "there are: q/1")):
        code, said = run("absent", alone, query, batch)
        assert (code, why in said) == (2, True)


def test_a_note_of_too_many_batches_is_seen_and_corrected(alone, tmp_path):
    there = spark_checkpoint(tmp_path / "spark", "q/1", {9: "9", 12: "12"}, [9, 12])
    code, said = run("absent", alone, "q/1", 13, "--spark", there)
    assert (code, "Spark is at batch 13, give one before it" in said) == (2, True)
    assert run("absent", alone, "q/1", 1_000_000)[0] == 0
    code, said = run("verify", alone, "--spark", there)
    assert (code, "up to batch 1000000, and Spark is at batch 13 only" in said) == (1, True)
    assert run("absent", alone, "q/1", 12, "--spark", there)[0] == 0
    assert run("verify", alone, "--spark", there)[0] == 0
    other = spark_checkpoint(tmp_path / "other", "q2", {9: "9"}, [9])
    assert "is the checkpointLocation of query q2, not of q/1" in run("absent", alone, "q/1", 12, "--spark", other)[1]


def test_batches_that_were_run_without_one_operator_are_noted(where, tmp_path):
    there = spark_checkpoint(tmp_path / "spark", "q/1", {9: "9"}, [9])
    code, said = run("absent", where, "q/1", 9, "--operator", "mean price")
    assert (code, "batches 6 to 9 of query q/1 were run without operator mean price" in said) == (0, True)
    assert run("verify", where, "--spark", there)[0] == 0
    code, said = run("absent", where, "q/1", 5, "--operator", "mean price")
    assert (code, "after 5 were run without operator mean price" in said) == (0, True)
    assert run("verify", where, "--spark", there)[0] == 1
    code, said = run("absent", where, "q/1", 9, "--operator", "mean")
    assert (code, "query q/1 has no operator 'mean'" in said) == (2, True)


def test_verify_tells_how_far_it_is(where):
    with open_store(where, create=False) as store:
        seen = []
        assert verify(store, seen.append) == []
        assert sum(seen) == sum(nbytes for _, nbytes in store.names())


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_no_store_at_all(tmp_path, command):
    code, said = run(command, tmp_path / "nowhere")
    assert code == 2
    assert "does not exist" in said
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_store(tmp_path):
    open_store(tmp_path / "state").close()
    assert "holds no state yet" in run("ls", tmp_path / "state")[1]
    assert run("verify", tmp_path / "state")[0] == 0


def test_a_checkpoint_with_a_key(tmp_path, monkeypatch):
    secret = "correct horse battery staple"
    with open_store(Place(tmp_path / "state", key_of(secret))) as store:
        write_epoch(store, "mean", "q", 3)
    code, said = run("verify", tmp_path / "state")
    assert (code, "give it" in said, "EVENFLOW_CHECKPOINT_KEY or --key-file" in said) == (1, True, True)
    (tmp_path / "key").write_text(f"{secret}\n")
    (tmp_path / "wrong").write_text("some other words, and enough")
    assert "6 blobs" in run("verify", "--key-file", tmp_path / "key", tmp_path / "state")[1]
    code, said = run("ls", "--key-file", tmp_path / "wrong", tmp_path / "state")
    assert (code, "the checkpoint_key is not the one that" in said, "words" in said) == (1, True, False)
    code, said = run("ls", "--key-file", tmp_path / "none", tmp_path / "state")
    assert (code, "there is no key file" in said) == (2, True)
    monkeypatch.setenv("EVENFLOW_CHECKPOINT_KEY", secret)
    assert run("show", tmp_path / "state", "mean")[0] == 0


def test_what_came_too_late_is_not_shown(where):
    with open_store(where) as store:
        claim(store, "first").release()
        claim(store, "second").release()
        before = len(store.names())
        store.put("mean%20price/q%2F1/epoch/6~1.aaaaaaaa.1", [b"of a driver that was frozen"])
        assert len(store.names()) == before + 1
    assert "3-5" in run("ls", where)[1]
    assert run("verify", where)[0] == 0
