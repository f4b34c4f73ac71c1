"""Who may see the page: read-only requests, to a name that is ours, with the token where one is needed."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenflow.errors import InvalidArgument

LEAST_TOKEN = 16
"""Characters of a token, at least."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""On every response."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_access(host: str, token: str | None) -> None:
    """Refuse a host that others can reach without a token, and a token that could be guessed."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidArgument(
            "the dashboard's token has characters that headers of HTTP cannot have: give letters, digits and signs of "
            "ASCII, such as those of `openssl rand -hex 16`"
        )
    if token is not None and len(token) < LEAST_TOKEN:
        raise InvalidArgument(f"the dashboard's token has {len(token)} characters: give at least {LEAST_TOKEN}")
    if token is None and not is_loopback(host):
        raise InvalidArgument(
            f"the dashboard would listen on {host}, where others can reach it: give a token of at least {LEAST_TOKEN} "
            "characters that only its readers know, or leave the host at 127.0.0.1 and forward the port (ssh -L)"
        )


class Guard:
    """Stands around the routes, and lets through what may pass.

    On loopback it checks the name that was asked for, against DNS rebinding: the page of a stranger that makes its own
    name point to 127.0.0.1 is refused. Elsewhere it asks for the token, which comes in the query once and from then on
    in a cookie, or as `Authorization: Bearer`.
    """

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app, self._token = app, token
        self._names = LOCAL_NAMES | {host.lower()} if is_loopback(host) else frozenset()
        digest = hashlib.sha256((token or "").encode()).hexdigest()
        self._cookie = f"evenflow-{digest[:8]}"
        self._proof = hmac.new((token or "").encode(), b"evenflow dashboard", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that does not go through; None if it does."""
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is read-only", 405, {"allow": "GET, HEAD"})
        headers = Headers(scope=scope)
        if self._names and _name_of(headers.get("host", "")) not in self._names:
            return PlainTextResponse("this name is not ours: open the address that was printed", 421)
        if self._token is None or self._known(headers):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get("token", "")
        if not self._same(given, self._token):
            return PlainTextResponse("the token is missing or wrong: open the address that was printed", 401)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        answer = RedirectResponse("/" + scope["path"].lstrip("/\\") + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(self._cookie, self._proof, httponly=True, samesite="strict")
        return answer

    def _known(self, headers: Headers) -> bool:
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._token is not None and self._same(bearer, self._token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._same(cookie.value, self._proof)

    @staticmethod
    def _same(given: str, wanted: str) -> bool:
        """Compared in a time that does not tell how much of it is right."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode("utf-8"))

    @staticmethod
    def _with_headers(send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        return sending


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
