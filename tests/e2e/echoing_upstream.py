"""An upstream that refuses every request and repeats, wherever an answer has room, all that it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Echo,), {"status": status, "heard": heard}))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
