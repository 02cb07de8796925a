"""What the server reads of requests and says of pages."""

from __future__ import annotations

import base64
import hashlib
import socket
import subprocess
import sys

import pytest

from runwatch.server.app import accepts_gzip, content_security_policy
from runwatch.server.listening import Address, ServerStartError, bind, parse_listen
from runwatch.server.messages import Channel, Message, MessageKind


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("deflate,gzip ; q=0.001", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("gzip;q=abc", False),
        ("gzip;q=-1", False),
        ("not-gzip", False),
        (",,;", False),
    ],
)
def test_accept_encoding(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_the_policy_lets_through_only_the_pages_own_styles() -> None:
    style = b"body { color: red }\n"
    allowed = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policy = content_security_policy(b'<html><style media="all">' + style + b"</style><script>x</script>")
    assert f"style-src 'sha256-{allowed}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy
    assert "style-src 'none';" in content_security_policy(b"<p style='x'>")


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("0.0.0.0:9877", "0.0.0.0", 9877),
        (":0", "", 0),
        ("[::1]:80", "::1", 80),
        ("localhost:65535", "localhost", 65535),
        ("[::]:1", "::", 1),
    ],
)
def test_listen(listen: str, host: str, port: int) -> None:
    assert parse_listen(listen) == (host, port)


@pytest.mark.parametrize("listen", ["", "9877", "a:b", "::1:80", "localhost", "localhost:65536", "a b:1:2", "h:-1"])
def test_listen_faults(listen: str) -> None:
    with pytest.raises(ServerStartError, match=r"^listen: .* is not host:port"):
        parse_listen(listen)


def test_all_addresses_of_a_name_share_the_port() -> None:
    sockets = bind("localhost:0")
    try:
        assert len({bound.getsockname()[1] for bound in sockets}) == 1
        with pytest.raises(ServerStartError, match=r"^listen: cannot bind .*: address already in use$"):
            bind(f"localhost:{sockets[0].getsockname()[1]}")
    finally:
        for bound in sockets:
            bound.close()


def test_addresses_as_urls() -> None:
    assert Address("https", "::1", 1).url == "https://[::1]:1"
    assert Address("http", "127.0.0.1", 80).url == "http://127.0.0.1:80"


def test_messages_arrive_whole_and_an_end_in_the_middle_is_an_end() -> None:
    one, other = socket.socketpair()
    sender, receiver = Channel(one), Channel(other)
    try:
        sender.send(MessageKind.METRICS, b"plain", b"")
        sender.send(MessageKind.READY, b"1")
        one.sendall(bytes([MessageKind.PAGE, 1]) + (100).to_bytes(8, "big") + b"half a pa")
        sender.hang_up()
        assert receiver.receive() == Message(MessageKind.METRICS, (b"plain", b""))
        assert receiver.receive() == Message(MessageKind.READY, (b"1",))
        assert receiver.receive() is None
    finally:
        sender.close()
        receiver.close()


def test_the_servers_process_imports_no_client_of_an_upstream() -> None:
    code = (
        "import sys, runwatch.server.__main__\n"
        "print([m for m in ('wandb', 'kubernetes', 'google.cloud', 'rich', 'httpx') if m in sys.modules])"
    )
    # The process ignores Ctrl-C from its first import on, hence a process of its own for this look.
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert seen.stdout == "[]\n"
