"""Texts of upstreams that are meant to harm, through the real commands: they stay texts wherever they come out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.running_exporter import serving
from tests.e2e.running_server import eventually
from tests.peers.wandb_server import KEY, WandbServer
from tests.peers.wandb_server_runs import PeerRun
from tests.unit.trial_trees import job_result, trial

INJECTED = 'x"} 1\nmljob_step{run="forged",bucket="rl",site="none"} 666\nmljob_loss{run="y'
NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b]0;owned\x07\x1b[2Jcleared",
    INJECTED,
    'back\\slash\\n and \\"quotes\\"',
    "{{ template }} ${jndi:ldap://x} %s %n $(id) `id`",
    "right\u202eto-left and zero\u200bwidth",
    "long-" + "n" * 5000,
    "../../../etc/passwd",
    "=cmd|' /C calc'!A0",
)


class Tags(HTMLParser):
    """Collects the tags, attributes and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def wandb_server() -> Iterator[WandbServer]:
    server = WandbServer()
    yield server
    server.close()


@pytest.fixture
def config(wandb_server: WandbServer, tmp_path: Path) -> Path:
    """A fleet of runs that were found under hostile names, a log and trials full of hostile texts."""
    now = time.time()
    for number, name in enumerate(NAMES):
        run = wandb_server.add(
            PeerRun("lab", "p", f"id{number}", created_at=now - 900, heartbeat_at=now, display_name=name, username=name)
        )
        for step in range(20):
            run.log({"_step": step, "_timestamp": now - 600 + 10 * step, "train/loss": 2.0, name: name})
    job_result(tmp_path / "trials" / "job", 99, written=now - 60)
    for number, name in enumerate(NAMES):
        trial(tmp_path / "trials" / "job" / f"task__{number}", None, exception=name, written=now - 60)
    log = ["Total optimization steps = 100\n"]
    log += [f'Traceback (most recent call last):\n  File "x", line 1\nRuntimeError: {name}\n' for name in NAMES]
    log += [json.dumps({"loss": name, "step": name}) + "\n" for name in NAMES]
    (tmp_path / "run.out").write_text("".join(log))
    (tmp_path / "key").write_text(KEY)
    path = tmp_path / "runwatch.yaml"
    note = json.dumps(NAMES[0] + NAMES[2])
    path.write_text(
        "listen: 127.0.0.1:0\npoll_interval: 1s\n"
        f"wandb: {{base_url: '{wandb_server.url}', api_key_file: key, requests_per_minute: 6000}}\n"
        "jobs:\n"
        "  - {run: evaluated, bucket: eval, trials: {path: trials, target: 99}}\n"
        f"  - {{run: logged, bucket: sft, history: {{log: run.out}}, labels: {{owner: {note}, note: {note}}}}}\n"
        "discover: [{wandb: lab/p, bucket: sft}]\n"
    )
    return path


def test_the_exposition_and_the_page_hold_hostile_names_as_text(config: Path) -> None:
    with serving(config) as exporter:
        address = f"http://127.0.0.1:{exporter.port}"
        eventually(lambda: exporter.metrics().count("\nmljob_step{") >= len(NAMES), "all runs are read", 60)
        families = {family.name: family for family in text_string_to_metric_families(exporter.metrics())}
        steps = {sample.labels["run"]: sample.value for sample in families["mljob_step"].samples}
        assert "forged" not in steps
        assert INJECTED in steps
        assert set(steps.values()) == {19.0}
        assert {name for name in NAMES if name in steps} >= set(NAMES[:6])
        escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
        eventually(lambda: escaped in httpx.get(address, timeout=60).text, "the page is made anew", 60)
        answer = httpx.get(address, timeout=60)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        page = Tags(answer.text)
        assert not {"script", "img", "iframe", "form"} & page.tags
        assert not {attribute for attribute in page.attributes if attribute.startswith("on")}
        assert "<script>alert(1)</script>" in page.text
        assert "\x1b" not in answer.text
        assert httpx.get(f"{address}/-/healthy", timeout=60).status_code == 200


@pytest.mark.parametrize("command", [("tables",), ("line",), ("explain", "logged"), ("explain", "evaluated")])
def test_what_is_printed_cannot_move_the_cursor(config: Path, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runwatch", command[0], "--config", str(config), *command[1:]],
        env={**os.environ, "HOME": str(config.parent)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    for text in (done.stdout.decode(), done.stderr.decode()):
        assert 'Traceback (most recent call last):\n  File "/' not in text
        odd = {character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Cs")} - {"\n"}
        assert not odd, odd
    if command[0] == "line":
        lines = done.stdout.decode().splitlines()
        assert len([line for line in lines if " state=" in line]) == len(lines)
