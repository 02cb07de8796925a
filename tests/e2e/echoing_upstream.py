"""An upstream that refuses every request and repeats, wherever an answer has room, all that it was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.http_serving import serving_http


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status = 401
    heard: list[str]

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        said = f"{self.command} {self.path} {dict(self.headers)} {self.rfile.read(length).decode(errors='replace')}"
        self.heard.append(said)
        answer = json.dumps(
            {"message": said, "error": said, "code": said, "errors": [{"message": said}], "status": "Failure"}
        ).encode()
        self.send_response(self.status, self.headers.get("authorization", "refused"))
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.send_header("www-authenticate", f'Basic realm="{self.headers.get("authorization", "")}"')
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815 - named by the standard library

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def echoing(status: int) -> Iterator[tuple[str, list[str]]]:
    """Serve on a free port; gives its address and the list of all that it heard."""
    heard: list[str] = []
    with serving_http(type("Handler", (_Echo,), {"status": status, "heard": heard})) as url:
        yield url, heard
