"""Jobs as an exporter tells them, written by hand, and pages that a Prometheus scrapes and a test may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from runwatch.exposition import escape_label_value
from tests.http_serving import serving_http

HOUR = 3600.0
SOURCES = ("scheduler", "history")

Page = Callable[[], str]
"""What a process of the exporter tells when it is scraped; an empty text when it cannot be."""


def sample(name: str, value: float, **labels: str) -> str:
    """Return one line of an exposition."""
    pairs = ",".join(f'{label}="{escape_label_value(text)}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}\n"


class Told:
    """What one replica of the exporter tells of one job.

    Args:
        run: The job's name.
        now: When its sources last answered, in Unix seconds.
        site: Its site.
        bucket: Its bucket.
        sources: The sources that it is asked of.
        blind: Those of them that last answered an hour before.
        state: The word of `mljob_state`.
        phase: The word of `mljob_phase`.
        verdict: The word of `mljob_trend`.
        owner: A label of `mljob_info`.
    """

    def __init__(
        self,
        run: str,
        now: float,
        *,
        site: str = "s",
        bucket: str = "sft",
        sources: tuple[str, ...] = SOURCES,
        blind: tuple[str, ...] = (),
        state: str = "running",
        phase: str = "stepping",
        verdict: str = "stable",
        owner: str = "ana",
    ) -> None:
        self._job = {"run": run, "bucket": bucket, "site": site}
        self.text = ""
        self.add("mljob_info", 1, kind="k", owner=owner)
        self.add("mljob_state", 1, state=state).add("mljob_phase", 1, phase=phase).add(
            "mljob_trend", 1, verdict=verdict
        )
        for source in sources:
            self.add("mljob_source_configured_timestamp_seconds", now - 2 * HOUR, source=source)
            self.add("mljob_observed_timestamp_seconds", now - HOUR if source in blind else now, source=source)

    def add(self, name: str, value: float, **labels: str) -> Told:
        """Tell of a metric more."""
        self.text += sample(name, value, **self._job, **labels)
        return self


@contextmanager
def served(pages: dict[str, Page]) -> Iterator[str]:
    """Serve pages by their names, as they are when they are asked for, and return the scrape target."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = pages[self.path.removeprefix("/")]().encode()
            self.send_response(200 if text else 503)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

    with serving_http(Handler) as url:
        yield url.removeprefix("http://")
