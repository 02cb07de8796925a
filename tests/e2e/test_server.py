"""The server as a process: routes, whole bodies, and what it does to clients that take too much."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import zlib
from pathlib import Path

import httpx
import pytest

from runwatch.exposition import Body
from runwatch.server.limits import Limits
from runwatch.server.listening import Address
from runwatch.server.process import ReloadResult, ServerProcess
from tests.e2e.running_server import body, eventually, running


def get_raw(client: httpx.Client, path: str, accept_encoding: str) -> tuple[httpx.Headers, bytes]:
    with client.stream("GET", path, headers={"accept-encoding": accept_encoding}) as response:
        return response.headers, b"".join(response.iter_raw())


def answers(address: Address, path: str) -> bool:
    """Whether an honest client is answered; on a busy machine a limit of this server may cut one."""
    try:
        return httpx.get(f"{address.url}{path}", timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def wait_for(client: httpx.Client, path: str, text: str) -> None:
    eventually(lambda: client.get(path).text == text, f"{path} answers {text!r}")


def test_metrics_plain_and_gzip() -> None:
    text = "# TYPE up gauge\n" + "".join(f'up{{run="{number}"}} 1\n' for number in range(2000))
    with running() as (server, address), httpx.Client(base_url=address.url, timeout=60) as client:
        before = client.get("/metrics")
        assert (before.status_code, before.text) == (503, "no poll has finished yet\n")
        published = body(text)
        server.publish(published)
        wait_for(client, "/metrics", text)
        headers, raw = get_raw(client, "/metrics", "gzip;q=0.5, *;q=0")
        assert raw == published.gzip
        assert headers["content-encoding"] == "gzip"
        inflate = zlib.decompressobj(31)
        assert inflate.decompress(raw) == text.encode()
        assert inflate.unused_data == b""
        for refusing in ("identity", "gzip;q=0", ""):
            headers, raw = get_raw(client, "/metrics", refusing)
            assert raw == text.encode()
            assert "content-encoding" not in headers
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert headers["vary"] == "Accept-Encoding"
        assert headers["content-length"] == str(len(text))
        assert "server" not in headers
        head = client.head("/metrics", headers={"accept-encoding": "identity"})
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(text)))


def test_page_health_and_readiness() -> None:
    html = b"<!doctype html><style>b{color:red}</style><p>\xe2\x80\x94"
    with running() as (server, address), httpx.Client(base_url=address.url, timeout=60) as client:
        assert client.get("/").status_code == 503
        assert client.get("/-/healthy").status_code == 200
        assert client.get("/-/ready").status_code == 503
        server.publish_page(html)
        server.set_ready(True)
        eventually(lambda: client.get("/-/ready").status_code == 200, "ready")
        page = client.get("/")
        assert (page.status_code, page.content) == (200, html)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert page.headers["x-content-type-options"] == "nosniff"
        server.set_ready(False)
        eventually(lambda: client.get("/-/ready").status_code == 503, "not ready")


def test_other_paths_and_methods() -> None:
    with running() as (_, address), httpx.Client(base_url=address.url, timeout=60) as client:
        for path in ("/metric", "/metrics/", "/-/quit", "/%00", "/../etc/passwd"):
            assert client.get(path).status_code == 404, path
        for method, path in (("POST", "/metrics"), ("DELETE", "/"), ("PUT", "/-/ready"), ("GET", "/-/reload")):
            response = client.request(method, path)
            assert response.status_code == 405, (method, path)
            assert response.headers["allow"]


def test_reload() -> None:
    answers = iter([ReloadResult(True), ReloadResult(False, "config.yaml:3: jobs.0.run: missing")])
    with (
        running(enable_lifecycle=True, on_reload=lambda: next(answers)) as (_, address),
        httpx.Client(base_url=address.url, timeout=60) as client,
    ):
        first, second = client.post("/-/reload"), client.post("/-/reload")
        assert (first.status_code, first.text) == (200, "reloaded\n")
        assert (second.status_code, second.text) == (400, "reload failed: config.yaml:3: jobs.0.run: missing\n")


def test_reload_is_off_unless_it_was_turned_on() -> None:
    with running() as (_, address):
        assert httpx.post(f"{address.url}/-/reload", timeout=60).status_code == 403


def test_scrapes_go_on_while_a_reload_does() -> None:
    may_end = threading.Event()

    def slow_reload() -> ReloadResult:
        assert may_end.wait(60)
        return ReloadResult(True)

    with running(enable_lifecycle=True, on_reload=slow_reload) as (server, address):
        answers: list[int] = []
        client = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address.url}/-/reload", timeout=60).status_code)
        )
        client.start()
        server.publish(body("up 1\n"))
        eventually(lambda: httpx.get(f"{address.url}/metrics", timeout=60).text == "up 1\n", "a scrape during a reload")
        assert answers == []
        may_end.set()
        client.join(60)
        assert answers == [200]


def test_a_scrape_never_sees_half_a_poll() -> None:
    lines = 20_000

    def poll(number: int) -> Body:
        return body(f"value {number}\n" * lines)

    wrong: list[str] = []
    seen: set[bytes] = set()
    done = threading.Event()

    def scrape(url: str, accept_encoding: str) -> None:
        with httpx.Client(base_url=url, headers={"accept-encoding": accept_encoding}, timeout=60) as client:
            while not done.is_set():
                content = client.get("/metrics").content
                distinct = set(content.splitlines())
                seen.update(distinct)
                if len(distinct) != 1 or content.count(b"\n") != lines:
                    wrong.append(f"{len(distinct)} polls in {content.count(bytes([10]))} lines")

    with running() as (server, address):
        server.publish(poll(0))
        eventually(lambda: httpx.get(f"{address.url}/metrics", timeout=60).status_code == 200, "the first body")
        scrapers = [
            threading.Thread(target=scrape, args=(address.url, encoding)) for encoding in ("gzip", "identity") * 2
        ]
        for scraper in scrapers:
            scraper.start()
        number = 0
        while len(seen) < 5 and number < 2000:
            number += 1
            server.publish(poll(number))
        done.set()
        for scraper in scrapers:
            scraper.join(60)
    assert wrong == []
    assert len(seen) >= 5


def ask_healthy(connection: socket.socket) -> None:
    connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b"\r\n\r\nhealthy\n"):
        chunk = connection.recv(4096)
        assert chunk, "the connection was closed"
        answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_one_connection_serves_many_scrapes() -> None:
    with running() as (_, address), socket.create_connection((address.host, address.port)) as connection:
        for _ in range(3):
            ask_healthy(connection)


def read_to_end(connection: socket.socket, seconds: float = 30.0) -> bytes:
    connection.settimeout(seconds)
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        return received
    return received


def test_it_serves_and_guards_without_uvloop_and_httptools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uvloop", "httptools"):
        (tmp_path / f"{name}.py").write_text("raise ImportError\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with running(limits=Limits(header_seconds=1.0, header_bytes=4096)) as (server, address):
        assert b"uvloop" not in Path(f"/proc/{server.pid}/maps").read_bytes()
        server.publish(body("up 1\n"))
        eventually(lambda: answers(address, "/metrics"), "the body")
        for sent, answer in ((b"GET /", b""), (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 5000, b"HTTP/1.1 431 ")):
            with socket.create_connection((address.host, address.port)) as connection:
                connection.sendall(sent)
                assert read_to_end(connection)[:13] == answer


@pytest.mark.parametrize("start", [b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-"])
def test_a_client_that_never_ends_its_headers_is_cut(start: bytes) -> None:
    with (
        running(limits=Limits(header_seconds=1.0)) as (_, address),
        socket.create_connection((address.host, address.port)) as connection,
    ):
        connection.sendall(start)
        assert read_to_end(connection) == b""


def test_a_client_that_trickles_its_headers_is_cut() -> None:
    with (
        running(limits=Limits(header_seconds=1.0)) as (_, address),
        socket.create_connection((address.host, address.port)) as connection,
    ):
        ask_healthy(connection)
        deadline = time.monotonic() + 30
        with pytest.raises(OSError):  # Reset or broken pipe, as the kernel has it.
            while time.monotonic() < deadline:
                connection.sendall(b"G")  # A second request on a kept connection, a letter at a time.
                time.sleep(0.05)


def test_headers_without_end_are_refused() -> None:
    with (
        running(limits=Limits(header_bytes=4096)) as (_, address),
        socket.create_connection((address.host, address.port)) as connection,
    ):
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 5000)
        assert read_to_end(connection).startswith(b"HTTP/1.1 431 ")


def test_a_client_that_does_not_read_is_cut() -> None:
    with running(limits=Limits(write_seconds=1.0)) as (server, address):
        server.publish(body("x" * 20_000_000))
        eventually(lambda: httpx.head(f"{address.url}/metrics", timeout=60).status_code == 200, "the body")
        eventually(lambda: connections_of(server) == 0, "nobody is connected")
        with socket.create_connection((address.host, address.port)) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            eventually(lambda: bool(connection.recv(1, socket.MSG_PEEK)), "the answer begins")
            eventually(lambda: connections_of(server) == 0, "the server has let go of it")
            assert len(read_to_end(connection)) < 20_000_000
        eventually(lambda: answers(address, "/-/healthy"), "others are served")


def connections_of(server: ServerProcess) -> int:
    """Return how many clients' connections the server's process holds, as Linux has them."""
    held = set()
    for link in Path(f"/proc/{server.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.add(str(link.readlink()))
    table = Path(f"/proc/{server.pid}/net/tcp").read_text().splitlines()[1:]
    established, close_wait = "01", "08"
    inodes = [line.split()[9] for line in table if line.split()[3] in (established, close_wait)]
    return sum(f"socket:[{inode}]" in held for inode in inodes)


def test_no_more_connections_than_allowed() -> None:
    with running(limits=Limits(connections=3, header_seconds=600.0)) as (_, address):
        opened = [socket.create_connection((address.host, address.port)) for _ in range(3)]
        try:
            for connection in opened:
                ask_healthy(connection)
            with socket.create_connection((address.host, address.port)) as one_more:
                assert read_to_end(one_more) == b""
        finally:
            for connection in opened:
                connection.close()

        eventually(lambda: answers(address, "/-/healthy"), "a place is free again")


def test_a_body_that_nobody_asked_for_ends_the_connection() -> None:
    with (
        running(enable_lifecycle=True, on_reload=lambda: ReloadResult(True)) as (_, address),
        socket.create_connection((address.host, address.port)) as connection,
    ):
        connection.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc")
        answer = read_to_end(connection)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in answer


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"G\xff / HTTP/1.1\r\n\r\n"])
def test_garbage_gets_a_400_and_harms_nobody(garbage: bytes) -> None:
    with running() as (_, address):
        with socket.create_connection((address.host, address.port)) as connection:
            connection.sendall(garbage)
            assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")
        assert httpx.get(f"{address.url}/-/healthy", timeout=60).status_code == 200
