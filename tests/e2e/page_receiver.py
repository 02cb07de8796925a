"""What stands at the other end of Alertmanager's receivers: one HTTP server that keeps all that is posted to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_serving import serving_http

ANSWERS = {
    "/slack": (200, b"ok"),
    "/pagerduty": (202, b'{"status": "success", "message": "Event processed", "dedup_key": "key"}'),
}
"""What Slack and PagerDuty answer to what they take; any other receiver says 200."""


@dataclass(frozen=True)
class Post:
    """One request: where to, with which `Authorization`, what, and when (`time.monotonic()`)."""

    path: str
    authorization: str | None
    body: dict[str, Any]
    at: float


@dataclass
class PageReceiver:
    """All posts up to now, oldest first."""

    url: str
    posts: list[Post] = field(default_factory=list)

    def to(self, path: str) -> list[Post]:
        return [post for post in list(self.posts) if post.path == path]


@contextmanager
def receiving() -> Iterator[PageReceiver]:
    """Serve on a free port of 127.0.0.1."""
    receiver = PageReceiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.posts.append(Post(self.path, self.headers["Authorization"], body, time.monotonic()))
            status, answer = ANSWERS.get(self.path, (200, b""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving_http(Handler) as url:
        receiver.url = url
        yield receiver
