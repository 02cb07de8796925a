"""Requests that are meant to harm: each is refused or cut, tells nothing, and others are served meanwhile."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
import httpx
import pytest

from runwatch.server.listening import Address
from tests.e2e.running_server import body, eventually, running

RIGHT = ("prometheus", "right")
SECRET = "mljob_secret 1\n"


@pytest.fixture(scope="module")
def open_server() -> Iterator[Address]:
    """A server that asks nobody for a password."""
    with running() as (server, address):
        server.publish(body(SECRET))
        eventually(lambda: httpx.get(f"{address.url}/metrics", timeout=60).text == SECRET, "the body")
        yield address


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A server that asks for a password."""
    with running(web_config=users(tmp_path_factory.mktemp("web"))) as (server, address):
        server.publish(body(SECRET))
        eventually(lambda: httpx.get(f"{address.url}/metrics", auth=RIGHT, timeout=60).text == SECRET, "the body")
        yield address


def exchange(address: Address, sent: bytes, seconds: float = 60.0) -> bytes:
    """Send bytes on a connection of their own and return all that comes back until the server ends it."""
    with socket.create_connection((address.host, address.port), timeout=seconds) as connection:
        connection.sendall(sent)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except (ConnectionResetError, TimeoutError):
            pass  # a reset is an end as good as any; one that is kept open is told by its answers
        return received


def answers(raw: bytes) -> list[int]:
    """Return the status codes of all answers that came on one connection."""
    return [int(part[:3]) for part in raw.split(b"HTTP/1.1 ")[1:]]


POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
SMUGGLING = {
    "length beside chunks": POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
    "two lengths": POST + b"Content-Length: 6\r\nContent-Length: 5\r\n\r\n12345G",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a length in words": POST + b"Content-Length: 0x10\r\n\r\n",
    "a length beyond all": POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "chunks spelt with a blank": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks of another name": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a chunk of no size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a bare carriage return": GET + b"X: a\rb\r\n\r\n",
    "a NUL in a header": GET + b"X: a\0b\r\n\r\n",
    "version 2 in clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
INNER = b"GET /metrics HTTP/1.1\r\nHost: smuggled\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("name", sorted(SMUGGLING))
def test_what_a_proxy_may_read_otherwise_carries_no_second_request(name: str, open_server: Address) -> None:
    """Where two readers may not agree on a request's end, what follows on its connection is not answered."""
    raw = exchange(open_server, SMUGGLING[name] + INNER)
    assert SECRET.encode() not in raw, raw
    assert all(code in (400, 405, 411, 413, 501, 505) for code in answers(raw)), raw
    assert healthy(open_server)


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/metrics/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/static/..\\..\\etc\\passwd",
        "/\x00",
        "//etc/passwd",
        "/%00",
        "/metrics%0d%0aX-Injected:%20yes",
        "/" + "a" * 3000,
        "http://elsewhere.example/metrics/",
        "*",
    ],
)
def test_paths_lead_nowhere_but_to_what_is_served(path: str, open_server: Address) -> None:
    raw = exchange(open_server, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert b"root:" not in raw
    assert b"\nx-injected" not in raw.lower()
    assert answers(raw) in ([404], [400]), raw
    assert healthy(open_server)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods_change_nothing_and_repeat_nothing(method: str, open_server: Address) -> None:
    for path in ("/metrics", "/", "/-/reload", "/-/quit", "/debug/pprof/"):
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nCookie: mine\r\nConnection: close\r\n\r\n"
        raw = exchange(open_server, head.encode())
        assert b"mine" not in raw
        assert SECRET.encode() not in raw
        assert len(answers(raw)) == 1 and answers(raw)[0] in (400, 403, 404, 405, 501), (path, raw)
    assert healthy(open_server)


def users(folder: Path) -> Path:
    path = folder / "web.yaml"
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(8)).decode()
    path.write_text(f"basic_auth_users: {{prometheus: {hashed}}}\n")
    return path


def healthy(address: Address) -> bool:
    """Whether an honest client is answered, with or without a password."""
    return httpx.get(f"{address.url}/-/healthy", timeout=60).status_code in (200, 401)


def test_many_wrong_passwords_at_speed_do_not_keep_the_scrape_waiting(guarded_server: Address) -> None:
    """Each guess costs the server a hash of 2^8 rounds; the scraper, whose password is remembered, pays none."""

    def guess(client: httpx.Client, number: int) -> int:
        try:
            return client.get("/metrics", auth=("prometheus", f"guess {number}")).status_code
        except httpx.TransportError:
            return 0

    address = guarded_server
    with (
        httpx.Client(base_url=address.url, timeout=60) as scraper,
        httpx.Client(base_url=address.url, timeout=60, limits=httpx.Limits(max_connections=8)) as attacker,
    ):
        started = time.monotonic()
        quiet = [_timed(scraper) for _ in range(5)]
        with ThreadPoolExecutor(8) as pool:
            guesses = [pool.submit(guess, attacker, number) for number in range(40)]
            scrapes = []
            while not all(future.done() for future in guesses):
                scrapes.append(_timed(scraper))
            statuses = {future.result() for future in guesses}
        assert statuses <= {401, 429, 503, 0}
        took = time.monotonic() - started
        assert len(scrapes) > 3
        assert sorted(scrapes)[len(scrapes) // 2] < took / 4, (quiet, scrapes)


def _timed(scraper: httpx.Client) -> float:
    started = time.monotonic()
    assert scraper.get("/metrics", auth=RIGHT).text == SECRET
    return time.monotonic() - started


@pytest.mark.parametrize(
    "value",
    [
        b"Basic " + base64.b64encode(b"prometheus:" + b"a" * 72 + b"right"),
        b"Basic " + b"A" * 7000,
        b"Basic " + base64.b64encode(b"prometheus:right\r\nX: y"),
        b"basic\t" + base64.b64encode(b"prometheus:wrong"),
        b"Basic " + base64.b64encode(b"prometheus:right") + b", Basic " + base64.b64encode(b"a:b"),
    ],
)
def test_odd_credentials_are_wrong_credentials(guarded_server: Address, value: bytes) -> None:
    head = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: " + value + b"\r\nConnection: close\r\n\r\n"
    raw = exchange(guarded_server, head)
    assert SECRET.encode() not in raw
    assert answers(raw) in ([401], [400], [431]), raw
    assert healthy(guarded_server)


def test_slow_clients_by_the_hundred_leave_room_for_the_scrape(open_server: Address) -> None:
    slow = [socket.create_connection((open_server.host, open_server.port)) for _ in range(100)]
    try:
        for number, connection in enumerate(slow):
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "[: 1 + number % 40])
        for _ in range(20):
            assert httpx.get(f"{open_server.url}/metrics", timeout=60).text == SECRET
    finally:
        for connection in slow:
            connection.close()
