"""Who may see the live page, and what every answer carries."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse

from evenflow.dashboard.web import serving
from evenflow.dashboard.web.guard import HEADERS, Guard, check_access
from evenflow.errors import InvalidArgument

TOKEN = "a token of some length"


def ask(path="/", host="127.0.0.1", token=None, method="GET", query="", name="127.0.0.1:8899", **headers):
    """Ask an application that is guarded, on a host and by a name; status, headers and body."""
    told = []

    async def send(message):
        told.append(message)

    async def receive():
        return {"type": "http.disconnect"}

    raw = [(each.encode(), value.encode("latin-1")) for each, value in {"host": name, **headers}.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": raw}
    asyncio.run(Guard(PlainTextResponse("inside"), host, token)(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    return told[0]["status"], found, told[1]["body"].decode()


def test_a_reader_on_this_machine_gets_in():
    assert ask()[::2] == (200, "inside")
    assert ask(method="HEAD")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(method):
    assert ask(method=method)[0] == 405


@pytest.mark.parametrize("name", ["localhost:8899", "127.0.0.1", "[::1]:8899", "LOCALHOST"])
def test_names_of_this_machine_are_ours(name):
    assert ask(name=name)[0] == 200


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8899", ""])
def test_other_names_are_refused_against_rebinding(name):
    assert ask(name=name)[0] == 421


def test_elsewhere_the_token_is_asked_for():
    assert ask(host="0.0.0.0", token=TOKEN)[0] == 401
    assert ask(host="0.0.0.0", token=TOKEN, query="token=wrong")[0] == 401
    assert ask(host="0.0.0.0", token=TOKEN, authorization=f"Bearer {TOKEN}")[0] == 200
    assert ask(host="0.0.0.0", token=TOKEN, authorization="Bearer \xff")[0] == 401
    assert ask(host="0.0.0.0", token=TOKEN, cookie="evenflow-x=;;=\x7f")[0] == 401


def test_the_token_is_given_once_and_then_kept_in_a_cookie():
    status, headers, _ = ask(host="0.0.0.0", token=TOKEN, path="/", query=f"token={TOKEN.replace(' ', '+')}&at=3")
    assert (status, headers["location"]) == (303, "/?at=3")
    for path in ("//evil.example/x", "/\\evil.example/x", "\\\\evil.example/x"):
        _, elsewhere, _ = ask(host="0.0.0.0", token=TOKEN, path=path, query=f"token={TOKEN.replace(' ', '+')}")
        assert elsewhere["location"] == "/evil.example/x"
    cookie = headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert ask(host="0.0.0.0", token=TOKEN, cookie=cookie.partition(";")[0])[0] == 200
    assert ask(host="0.0.0.0", token="another token of length", cookie=cookie.partition(";")[0])[0] == 401


@pytest.mark.parametrize(
    ("asked", "status"), [({}, 200), ({"method": "POST"}, 405), ({"name": "evil.example"}, 421)], ids=str
)
def test_every_answer_has_the_headers(asked, status):
    found = ask(**asked)
    assert found[0] == status
    assert HEADERS.items() <= found[1].items()
    assert "unsafe" not in found[1]["content-security-policy"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.2.1"])
def test_loopback_needs_no_token(host):
    check_access(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", ""])
def test_others_need_one(host):
    with pytest.raises(InvalidArgument, match="give a token of at least 16 characters"):
        check_access(host, None)
    with pytest.raises(InvalidArgument, match="has 5 characters"):
        check_access(host, "short")
    check_access(host, TOKEN)


@pytest.mark.parametrize("token", ["tok-én-of-some-length", "a token\nof some length", "\u202ea token of some length"])
def test_a_token_that_no_header_can_have_is_refused(token):
    with pytest.raises(InvalidArgument, match="characters that headers of HTTP cannot have: give letters, digits"):
        check_access("127.0.0.1", token)


@pytest.mark.parametrize(
    ("host", "link"),
    [
        ("127.0.0.1", "http://127.0.0.1:80/"),
        ("::1", "http://[::1]:80/"),
        ("0.0.0.0", "http://worker-7:80/"),
        ("::", "http://worker-7:80/"),
    ],
)
def test_the_link_is_one_that_can_be_opened(host, link, monkeypatch):
    monkeypatch.setattr(serving.socket, "gethostname", lambda: "worker-7")
    assert serving.link_to(host, 80, None) == link
    assert serving.link_to(host, 80, "a/token&more") == f"{link}?token=a%2Ftoken%26more"
