"""What a reload of `runwatch serve` says of what it cannot change."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.e2e.running_exporter import serving
from tests.e2e.running_server import written_so_far
from tests.e2e.test_ending import config_of_one_job

LISTEN = "WARNING listen is another than at the start: it takes effect at the next start"


def test_what_needs_a_restart_is_told_as_long_as_it_does_and_no_longer(tmp_path: Path) -> None:
    config = config_of_one_job(tmp_path)
    started_with = f"enable_lifecycle: true\n{config.read_text()}"
    config.write_text(started_with)
    elsewhere = started_with.replace("127.0.0.1:0", "127.0.0.1:9877")
    with serving(config) as exporter:
        told = []
        for text in (elsewhere, f"{elsewhere}# once more\n", started_with):
            config.write_text(text)
            assert httpx.post(f"http://127.0.0.1:{exporter.port}/-/reload", timeout=60).text == "reloaded\n"
            told.append(written_so_far(config.with_suffix(".log")).count(LISTEN))
    assert told == [1, 2, 2]
