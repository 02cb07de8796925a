"""The server's routes: they hand out bytes that are ready and ask the pollers' process for a reload."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runwatch.server.authentication import WebAccess

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COMMON_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_STYLE = re.compile(rb"<style[^>]*>(.*?)</style>", re.DOTALL | re.IGNORECASE)

AskReload = Callable[[], Awaitable[tuple[bool, str]]]
"""Asks the pollers' process to reload its config; answers whether it did, and one line why not."""


@dataclass(frozen=True, slots=True)
class Page:
    """An HTML page with the content policy that fits it."""

    html: bytes
    policy: str

    @classmethod
    def of(cls, html: bytes) -> Page:
        """Make the policy for a page once, not at every request."""
        return cls(html, content_security_policy(html))


@dataclass(slots=True)
class Published:
    """What is served now. Each field is replaced as a whole."""

    metrics: tuple[bytes, bytes] | None = None
    page: Page | None = None
    ready: bool = False


def accepts_gzip(accept_encoding: str) -> bool:
    """Read an Accept-Encoding header (RFC 9110, section 12.5.3): gzip by name, else `*`, with a weight above 0."""
    weights: dict[str, float] = {}
    for element in accept_encoding.split(","):
        coding, *parameters = (part.strip().lower() for part in element.split(";"))
        weights[coding] = _weight(parameters)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return float(value) if re.fullmatch(r"\s*[01](\.[0-9]{0,3})?", value) else 0.0
    return 1.0


def content_security_policy(html: bytes) -> str:
    """Return a policy that lets the page's own style blocks through, by their hash, and nothing else."""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(style).digest()).decode()}'" for style in _STYLE.findall(html)]
    style = " ".join(hashes) or "'none'"
    return f"default-src 'none'; style-src {style}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Guarded:
    """Outermost layer: basic auth on every route, the common headers, and no connection kept after a body."""

    def __init__(self, app: ASGIApp, access: WebAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        request_headers = Headers(scope=scope)
        # No route takes a body, so none is read: a client that sends one gets its answer and is let go.
        has_body = request_headers.get("content-length", "0") != "0" or "transfer-encoding" in request_headers

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _COMMON_HEADERS.items():
                    headers.setdefault(name, value)
                for name, value in self._access.headers.items():
                    headers[name] = value
                if has_body:
                    headers["connection"] = "close"
            await send(message)

        allowed = await self._access.allows(request_headers.get("authorization"))
        served = self._app if allowed else _unauthorized()
        await served(scope, receive, send_with_headers)


def _unauthorized() -> Response:
    return _text("Unauthorized", 401, {"www-authenticate": 'Basic realm="runwatch", charset="UTF-8"'})


def _text(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers)


def make_app(published: Published, access: WebAccess, ask_reload: AskReload | None) -> Starlette:
    """Make the ASGI application.

    Args:
        published: What to serve; its fields are replaced from outside.
        access: Authentication.
        ask_reload: None when reloads over HTTP are turned off.
    """

    async def metrics(request: Request) -> Response:
        bodies = published.metrics
        if bodies is None:
            return _text("no poll has finished yet", 503, {"retry-after": "5"})
        plain, compressed = bodies
        headers = {"content-type": METRICS_CONTENT_TYPE, "vary": "Accept-Encoding"}
        if accepts_gzip(",".join(request.headers.getlist("accept-encoding"))):
            return Response(compressed, headers=headers | {"content-encoding": "gzip"})
        return Response(plain, headers=headers)

    async def page(_: Request) -> Response:
        shown = published.page
        if shown is None:
            return _text("no poll has finished yet", 503, {"retry-after": "5"})
        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": shown.policy}
        return Response(shown.html, headers=headers)

    async def healthy(_: Request) -> Response:
        return _text("healthy")

    async def ready(_: Request) -> Response:
        return _text("ready") if published.ready else _text("not ready: not every source was tried yet", 503)

    async def reload(_: Request) -> Response:
        if ask_reload is None:
            return _text("reload over HTTP is off: set enable_lifecycle: true", 403)
        succeeded, reason = await ask_reload()
        return _text("reloaded") if succeeded else _text(f"reload failed: {reason}", 400)

    app = Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/", page),
            Route("/-/healthy", healthy),
            Route("/-/ready", ready),
            Route("/-/reload", reload, methods=["POST"]),
        ],
        middleware=[Middleware(Guarded, access=access)],
    )
    app.router.redirect_slashes = False
    return app
