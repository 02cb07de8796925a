"""The server's process starts with a clear error or not at all, and neither end outlives the other unnoticed."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from runwatch.server.listening import ServerStartError
from runwatch.server.process import ServerGoneError, ServerProcess
from tests.e2e.running_server import body, eventually, never_reloads, running
from tests.free_ports import free_port

PARENT = """
import sys, time
from runwatch.server.process import ReloadResult, ServerProcess
server = ServerProcess(lambda: ReloadResult(True))
[address] = server.start("127.0.0.1:0", None, False)
print(server.pid, address.url, flush=True)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    """Whether the process runs; one that ended and whose parent has not looked yet does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/healthy", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_its_parent(with_signal: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, url = parent.stdout.readline().split()
        assert answers(url)
        parent.send_signal(with_signal)
        parent.wait(30)
        eventually(lambda: not is_running(int(pid)), "the server's process has ended")
        assert not answers(url)


def test_ctrl_c_and_a_hang_up_are_left_to_the_parent() -> None:
    with running() as (server, address):
        assert server.pid is not None
        os.kill(server.pid, signal.SIGINT)
        os.kill(server.pid, signal.SIGHUP)
        server.publish(body("up 1\n"))
        eventually(lambda: httpx.get(f"{address.url}/metrics", timeout=60).text == "up 1\n", "it still serves")


def test_the_parent_learns_that_the_server_died() -> None:
    exits: queue.Queue[int] = queue.Queue()
    with running(on_exit=exits.put) as (server, address):
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert exits.get(timeout=30) == -signal.SIGKILL
        with pytest.raises(ServerGoneError, match=r"^the server's process ended$"):
            server.publish(body("up 1\n"))
        assert not answers(address.url)


def test_stopping_is_no_accident_frees_the_port_and_may_be_done_twice() -> None:
    exits: queue.Queue[int] = queue.Queue()
    with running(on_exit=exits.put) as (server, address):
        assert server.pid is not None
        server.stop()
        assert not is_running(server.pid)
        with socket.create_server((address.host, address.port)):
            pass
    assert exits.empty()


def test_it_can_be_started_again_after_a_failure() -> None:
    server = ServerProcess(never_reloads)
    port = free_port()
    in_use = f"^listen: cannot bind 127.0.0.1:{port}: address already in use$"
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ServerStartError, match=in_use):
        server.start(f"127.0.0.1:{port}", None, False)
    [address] = server.start(f"127.0.0.1:{port}", None, False)
    try:
        assert address.port == port
        assert answers(address.url)
    finally:
        server.stop()


def test_a_bad_web_config_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text("basic_auth_users:\n  prometheus: hunter2\n", encoding="utf-8")
    server = ServerProcess(never_reloads)
    with pytest.raises(ServerStartError) as raised:
        server.start("127.0.0.1:0", path, False)
    assert str(raised.value).startswith(f"web_config: {path}:2: basic_auth_users.prometheus: not a bcrypt hash")
    assert "hunter2" not in str(raised.value)
    server.stop()


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(ServerStartError, match=r"^listen: cannot resolve 'no-such-host\.invalid': "):
        ServerProcess(never_reloads).start("no-such-host.invalid:0", None, False)


def test_no_secret_of_the_environment_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    with running() as (server, _):
        environment = Path(f"/proc/{server.pid}/environ").read_bytes()
        assert b"PATH=" in environment
        assert b"kkkk" not in environment
