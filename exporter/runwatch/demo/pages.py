"""Who the demo's Alertmanager calls: a receiver that writes each notification to the terminal."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from textwrap import wrap
from types import TracebackType
from typing import Any

from runwatch.config.faults import one_line
from runwatch.demo.children import LOOPBACK

_INDENT = 6 * " "
_WIDTH = 110


def page_text(receiver: str, notification: Mapping[str, Any]) -> str:
    """Return a notification as lines for a terminal.

    Args:
        receiver: Name of the receiver that it was for.
        notification: What Alertmanager posts to a webhook, version 4:
            https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
    """
    calls = "pages" if receiver.endswith("-page") else "notifies"
    lines = [f"Alertmanager {calls} {receiver}:"]
    for alert in notification["alerts"]:
        labels, annotations = alert["labels"], alert["annotations"]
        word = labels["severity"] if alert["status"] == "firing" else "resolved"
        lines.append(one_line(f"  [{word}] {labels['alertname']}: {annotations['summary']}"))
        if alert["status"] == "firing":
            lines += wrap(
                one_line(annotations["description"]), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT
            )
    return "\n".join(lines)


class Pages:
    """Listens on a free port of the loopback address, from entering the context to leaving it."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler_that_keeps(self._arrived))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1})

    @property
    def url(self) -> str:
        """Where receivers post to; the path is the receiver's name."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def take(self) -> list[str]:
        """Return the notifications that arrived since the last call, oldest first."""
        return [self._arrived.get() for _ in range(self._arrived.qsize())]

    def __enter__(self) -> Pages:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_that_keeps(arrived: queue.SimpleQueue[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            arrived.put(page_text(self.path.strip("/"), json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the terminal is for the notifications."""

    return Handler
