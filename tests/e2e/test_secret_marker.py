"""Every secret that the exporter is given is a marker, and the marker is in nothing that it says, serves or writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.e2e.echoing_upstream import echoing
from tests.e2e.running_server import eventually, written_so_far
from tests.ending_processes import end
from tests.peers.wandb_server import WandbServer
from tests.peers.wandb_server_runs import PeerRun

MARKER = "marker1t2hat3no4one5may6see"
KEY = MARKER.ljust(40, "k")
"""What the wandb client takes for a key has 40 characters."""

COMMANDS = {
    401: (("check",), ("metrics", "--config"), ("tables", "--config")),
    500: (("tables", "--json", "--config"),),
}
EXPLAINED = {401: "ad", 500: "c"}
"""One command is a process that asks all upstreams: which of them are run where."""


@dataclass
class Rig:
    """A home folder with every kind of secret in it, and all that came out."""

    folder: Path
    upstream: str
    wandb_by_file: bool
    said: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config" / "runwatch.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the exporter; its home, caches and temporary files are looked through later."""
        given = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(self.folder / "left"),
            "TMPDIR": str(self.folder / "left"),
            "KUBECONFIG": str(self.folder / "secrets" / "kubeconfig"),
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.folder / "secrets" / "google.json"),
        }
        if not self.wandb_by_file:
            given["TRACKER_KEY"] = KEY
        return given

    def write(self) -> None:
        """Write secrets and config."""
        secrets = self.folder / "secrets"
        for folder in (secrets, self.folder / "left", self.config.parent):
            folder.mkdir()
        for name in ("iris", "wandb"):
            (secrets / name).write_text(KEY)
        (secrets / "token").write_text(f"#!/bin/sh\necho {KEY} >&2\necho {KEY}\n")
        (secrets / "login").write_text("#!/bin/sh\nenv >&2\nenv\nexit 1\n")
        for name in ("token", "login"):
            (secrets / name).chmod(0o755)
        (secrets / "kubeconfig").write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "contexts": [{"name": "cw", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": self.upstream}}],
                    "users": [{"name": "u", "user": {"token": KEY}}],
                }
            )
        )
        google = {"type": "service_account", "private_key": KEY, "private_key_id": KEY, "client_email": KEY}
        (secrets / "google.json").write_text(json.dumps(google | {"token_uri": f"{self.upstream}/token"}))
        hashed = bcrypt.hashpw(KEY.encode(), bcrypt.gensalt(4)).decode()
        (secrets / "web.yaml").write_text(f"basic_auth_users: {{prometheus: {hashed}}}\n")
        key = f"api_key_file: {secrets}/wandb" if self.wandb_by_file else "api_key_env: TRACKER_KEY"
        self.config.write_text(
            f"listen: 127.0.0.1:0\n"
            f"poll_interval: 1s\n"
            f"web_config: {secrets}/web.yaml\n"
            f"enable_lifecycle: true\n"
            f"state_file: {self.folder}/left/state.json\n"
            f"wandb: {{base_url: '{self.upstream}', {key}, requests_per_minute: 6000}}\n"
            "sites:\n"
            f"  by-file: {{scheduler: iris, controller: '{self.upstream}', token_file: {secrets}/iris}}\n"
            f"  by-command: {{scheduler: iris, controller: '{self.upstream}', token_command: [{secrets}/token]}}\n"
            "  cw: {scheduler: kubernetes, context: cw, namespace: runs}\n"
            f"  slurm: {{scheduler: slurm, command_prefix: [{secrets}/login], timezone: UTC}}\n"
            "jobs:\n"
            "  - {run: a, bucket: sft, site: by-file, scheduler_job: /u/a, history: {wandb: lab/p/a},"
            " checkpoints: ['gs://bucket/a']}\n"
            "  - {run: b, bucket: rl, site: by-command, scheduler_job: /u/b, history: {wandb: lab/p/b}}\n"
            "  - {run: c, bucket: sft, site: cw, scheduler_job: c, history: {log: auto}}\n"
            "  - {run: d, bucket: sft, site: slurm, scheduler_job: '7', history: {log: auto}}\n"
            "discover: [{wandb: lab/p, bucket: rl}]\n"
        )

    def run(self, *arguments: str) -> None:
        """Run one command and keep what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "runwatch", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in (0, 3), done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        self.said[f"output of {arguments[0]}"] = done.stdout + done.stderr


@contextmanager
def serving(rig: Rig) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """Run `serve`, with dumps of its memory allowed by who starts it."""
    log = rig.folder / "left" / "serve.log"
    command = ["sh", "-c", 'ulimit -c unlimited; exec "$0" "$@"', sys.executable, "-m", "runwatch", "serve"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--config", str(rig.config)],
            env=rig.environment,
            stdout=output,
            stderr=output,
            cwd=rig.folder / "left",
        )
    try:
        eventually(lambda: process.poll() is not None or "serving http://" in written_so_far(log), "it serves", 60)
        assert process.poll() is None, written_so_far(log)
        address = next(line for line in written_so_far(log).splitlines() if line.startswith("serving ")).split()[1]
        with httpx.Client(base_url=address, auth=("prometheus", KEY), timeout=60) as client:
            yield process, client
    finally:
        end(process, log)


def family(pid: int) -> Iterator[int]:
    """Give a process and all below it; processes and threads that end meanwhile have no children any more."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from family(int(child))


def look_at(rig: Rig, process: subprocess.Popen[bytes], client: httpx.Client) -> None:
    """Ask for every page, rightly and wrongly, and keep the answers and what the system shows of the processes."""
    for path in ("/metrics", "/", "/-/ready", "/-/healthy", "/absent", f"/{MARKER[:4]}"):
        answer = client.get(path)
        rig.said[f"GET {path}"] = f"{answer.status_code} {answer.headers} {answer.text}"
        wrong = client.get(path, auth=("prometheus", KEY + "x"))
        assert wrong.status_code == 401
        rig.said[f"GET {path}, refused"] = f"{wrong.headers} {wrong.text}"
    reloaded = client.post("/-/reload")
    assert reloaded.status_code == 200
    rig.said["reload"] = reloaded.text
    for member in family(process.pid):
        try:
            limits = Path(f"/proc/{member}/limits").read_text()
            rig.said[f"arguments of {member}"] = Path(f"/proc/{member}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            assert member != process.pid
            continue
        assert "Max core file size        0                    0 " in limits, limits


def leaks(rig: Rig) -> list[str]:
    """Name all places where the marker is: what was said, and each file that was left behind."""
    found = [place for place, text in rig.said.items() if MARKER in text]
    for path in (rig.folder / "left").rglob("*"):
        if path.is_file() and MARKER.encode() in path.read_bytes():
            found.append(str(path.relative_to(rig.folder)))
    return found


def errors_of(metrics: str) -> set[str]:
    """Return the sources that have errors, by their metric."""
    lines = [line for line in metrics.splitlines() if line.startswith("runwatch_source_errors_total{")]
    return {line.split('source="')[1].split('"')[0] for line in lines if not line.endswith(" 0.0")}


@pytest.mark.parametrize("status", [401, 500])
def test_upstreams_that_repeat_the_secrets_they_are_sent(tmp_path: Path, status: int) -> None:
    with echoing(status) as (upstream, heard):
        rig = Rig(tmp_path, upstream, wandb_by_file=status == 500)
        rig.write()
        with serving(rig) as (process, client):
            eventually(
                lambda: {"scheduler", "history", "checkpoints"} <= errors_of(client.get("/metrics").text),
                "every source failed",
                60,
            )
            look_at(rig, process, client)
            process.send_signal(signal.SIGABRT)
            process.wait(60)
        assert not list((tmp_path / "left").glob("core*"))
        for command in COMMANDS[status]:
            rig.run(*command, str(rig.config))
        for run in EXPLAINED[status]:
            rig.run("explain", "--config", str(rig.config), run)
        assert any(MARKER in text for text in heard), "the secrets were used, so that the test can fail"
        assert leaks(rig) == []


def test_an_upstream_that_takes_the_key(tmp_path: Path) -> None:
    server = WandbServer()
    server.key = KEY
    try:
        now = time.time()
        run = server.add(PeerRun("lab", "p", "a", created_at=now - 600, heartbeat_at=now))
        for step in range(60):
            run.log({"_step": step, "_timestamp": now - 600 + 10 * step, "train/loss": 2.0})
        rig = Rig(tmp_path, server.url, wandb_by_file=False)
        rig.write()
        with serving(rig) as (process, client):
            eventually(lambda: 'mljob_step{run="a"' in client.get("/metrics").text, "the run is read", 60)
            look_at(rig, process, client)
        rig.run("explain", "--config", str(rig.config), "a")
        assert leaks(rig) == []
    finally:
        server.close()
