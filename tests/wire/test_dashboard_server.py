"""The live page over loopback: its routes, its frames as they come, its bounds, its end."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager

import pytest

from evenflow.dashboard.web import app as routes
from evenflow.dashboard.web.serving import DashboardServer
from evenflow.dashboard.web.sources import FileSource, MemorySource
from evenflow.errors import EvenflowError, InvalidArgument
from evenflow.model.entries import entry_of
from tests.support import event_logs as logs


@pytest.fixture
def log(tmp_path):
    return logs.write(tmp_path / "events.jsonl", logs.keyed_run(seconds=8))


@contextmanager
def served(source, **options):
    server = DashboardServer(source, **{"port": 0} | options)
    try:
        yield server
    finally:
        server.close()
    assert not server.alive


def get(server, path, method="GET", headers=None):
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        link.request(method, path, headers=headers or {})
        answer = link.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        link.close()


class Client:
    """Reads server-sent events; closed at the end of its block."""

    def __init__(self, server):
        self._link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self._link.request("GET", "/api/stream")
        self.answer = self._link.getresponse()

    def event(self):
        name = ""
        while line := self.answer.readline().decode().rstrip("\n"):
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
        return self.event() if not self.answer.isclosed() else ("", None)

    def until(self, name, wanted=lambda data: True):
        while True:
            got, data = self.event()
            if got == name and wanted(data):
                return data

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.answer.close()
        self._link.close()


def test_the_page_and_its_files_are_served(log):
    with served(FileSource(log)) as server:
        status, headers, body = get(server, "/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        for path in ("main.js", "style.css", "vendor/uPlot.iife.min.js", "icon.svg"):
            assert f"/static/{path}".encode() in body
            assert get(server, f"/static/{path}")[0] == 200
        assert headers["x-content-type-options"] == "nosniff"
        assert get(server, "/static/../view.py")[0] == 404
        assert get(server, "/static/%2e%2e/view.py")[0] == 404
        assert get(server, "/", "POST")[0] == 405
        assert get(server, "/", headers={"Host": "evil.example"})[0] == 421


def test_frames_come_as_the_log_grows(log):
    with served(FileSource(log, clock=lambda: logs.START + 8.5)) as server, Client(server) as client:
        assert client.answer.getheader("content-type").startswith("text/event-stream")
        history = client.until("history")
        assert history["from"] == 0
        assert history["times"][-1] == logs.START + 8.0
        first = client.until("frame")
        assert first["title"] == "events.jsonl"
        logs.write(log, logs.keyed_run(first=8, seconds=3, until_move=10))
        second = client.until("frame", lambda data: data["entries"] > first["entries"])
        assert second["figures"]["moved"] == first["figures"]["moved"] + 2


def test_the_past_can_be_asked_for(log):
    with served(FileSource(log)) as server:
        with Client(server) as client:
            client.until("frame")  # all that is there has been read
        early = json.loads(get(server, f"/api/frame?at={logs.START + 3.5}")[2])
        late = json.loads(get(server, f"/api/frame?at={logs.START + 7.5}")[2])
        assert [early["figures"]["moved"], late["figures"]["moved"]] == [0, 2]
        assert early["time"] == logs.START + 3.0
        history = json.loads(get(server, "/api/history")[2])
        assert len(history["columns"]["rows"]) == len(history["times"])
        for nonsense in ("", "?at=x", "?at=nan", "?at=inf"):
            assert get(server, f"/api/frame{nonsense}")[0] == 400
        assert get(server, "/api/frame?at=-1e308")[0] == 200


def test_clients_are_bounded(log, monkeypatch):
    monkeypatch.setattr(routes, "MOST_CLIENTS", 2)
    with served(FileSource(log)) as server:
        with Client(server), Client(server):
            assert get(server, "/api/stream", "HEAD")[0] == 200  # it takes no place
            status, headers, body = get(server, "/api/stream")
        assert (status, headers["retry-after"]) == (503, "5")
        assert b"2 pages are open already" in body


def test_a_client_that_goes_makes_room(log, monkeypatch, eventually):
    monkeypatch.setattr(routes, "MOST_CLIENTS", 1)
    with served(FileSource(log)) as server:

        def status():
            with Client(server) as another:
                return another.answer.status

        with Client(server) as client:
            client.until("frame")
            assert status() == 503
        eventually(lambda: status() == 200, what="room for another client")


def test_a_client_that_takes_nothing_is_dropped(log, monkeypatch, eventually):
    monkeypatch.setattr(routes, "SEND_S", 0.3)
    many = [logs.opened(f"r{number}", units=16_000) for number in range(12)]
    logs.write(log, [logs.joined(0), *many])
    logs.write(log, [logs.keyed_sample(9.0, [logs.consumer(0, 1.0, 0.5)], region=f"r{n}") for n in range(12)])
    with served(FileSource(log)) as server, socket.create_connection(("127.0.0.1", server.port), timeout=30) as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.sendall(b"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        stream = next(route.app for route in server._server.config.app.routes if route.path == "/api/stream")
        eventually(lambda: stream.clients == 1, what="the client to be served")
        eventually(lambda: stream.clients == 0, what="the slow client to be dropped")
        with Client(server) as client:
            assert len(client.until("frame")["regions"]) == 12  # others are served as before


def test_the_page_of_a_cluster_in_this_process():
    kept = [entry_of(entry) for entry in logs.keyed_run(seconds=4)]

    def since(number):
        return kept[number:], len(kept)

    with served(MemorySource("cluster x", since)) as server:
        with Client(server) as client:
            frame = client.until("frame", lambda data: data["entries"] == len(kept))
        assert frame["title"] == "cluster x"


def test_a_port_that_is_taken(log):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(InvalidArgument, match=f"cannot listen on 127.0.0.1, port {taken}"):
            DashboardServer(FileSource(log), port=taken)


def test_without_a_port_any_free_one_is_taken_if_the_usual_is_in_use(log, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr("evenflow.dashboard.web.serving.PORT", other.getsockname()[1])
        with served(FileSource(log), port=None) as server:
            assert server.port != other.getsockname()[1]
            assert get(server, "/")[0] == 200


def test_elsewhere_than_on_loopback_the_token_is_needed(log):
    with pytest.raises(InvalidArgument, match="give a token"):
        DashboardServer(FileSource(log), host="0.0.0.0", port=0)
    with served(FileSource(log), host="0.0.0.0", token="a token for readers") as server:
        assert server.link.endswith("/?token=a token for readers".replace(" ", "%20"))
        assert get(server, "/api/history")[0] == 401
        assert get(server, "/api/history", headers={"Authorization": "Bearer a token for readers"})[0] == 200


def test_a_source_that_fails_is_heard(caplog):
    def since(_number):
        raise RuntimeError("no more entries")

    server = DashboardServer(MemorySource("x", since), port=0)
    assert server.join(20)
    with pytest.raises(EvenflowError, match="no more entries"):
        server.close()
    assert "evenflow's dashboard has failed" in caplog.text


def test_the_end_does_not_wait_for_open_pages(log):
    with served(FileSource(log)) as server, Client(server) as client:
        client.until("frame")
        server.end(10)  # the page is still open
        assert not [thread for thread in threading.enumerate() if thread.name == server.name]


def test_the_command_line_serves_a_log_until_it_is_interrupted(log):
    command = [sys.executable, "-m", "evenflow", "dashboard", str(log), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            link = process.stdout.readline().split()[1]
            with urllib.request.urlopen(f"{link}api/frame?at=0", timeout=30) as answer:
                assert json.load(answer)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
            assert process.stderr.read() == "interrupted\n"
        finally:
            process.kill()


def test_the_command_line_says_what_is_wrong(tmp_path):
    command = [sys.executable, "-m", "evenflow", "dashboard", str(tmp_path / "none.jsonl")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert "there is no event log" in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr
