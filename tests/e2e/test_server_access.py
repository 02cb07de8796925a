"""Basic auth and TLS of the real server, and what a changed file does to both."""

from __future__ import annotations

import base64
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import bcrypt
import httpx
import pytest

from runwatch.server.limits import Limits
from tests.e2e.running_server import body, eventually, running
from tests.required_programs import required_program


def users(path: Path, **passwords: str) -> Path:
    """Write a file with these users, as hashes of the least cost."""
    lines = [
        f"  {name}: {bcrypt.hashpw(word.encode(), bcrypt.gensalt(4)).decode()}" for name, word in passwords.items()
    ]
    replace(path, "\n".join(["basic_auth_users:", *lines, ""]))
    return path


def replace(path: Path, text: str) -> None:
    """Swap a file whole, as editors and Kubernetes do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def basic(credentials: bytes) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(credentials).decode()}"}


def test_basic_auth(tmp_path: Path) -> None:
    path = users(tmp_path / "web.yaml", prometheus="pässword:1", second="2")
    with running(web_config=path) as (server, address), httpx.Client(base_url=address.url, timeout=60) as client:
        server.publish(body("up 1\n"))
        good = basic("prometheus:pässword:1".encode())
        eventually(lambda: client.get("/metrics", headers=good).text == "up 1\n", "the body")
        for name, headers in {
            "again, now remembered": good,
            "another user": basic(b"second:2"),
        }.items():
            assert client.get("/metrics", headers=headers).status_code == 200, name
        for name, headers in {
            "none": {},
            "wrong password": basic(b"prometheus:password"),
            "the other's password": basic(b"prometheus:2"),
            "unknown user": basic(b"nobody:2"),
            "empty": basic(b":"),
            "too long for bcrypt": basic(b"prometheus:" + b"x" * 73),
            "far too long": basic(b"prometheus:" + b"x" * 9000),
            "a zero byte": basic(b"second:2\0"),
            "not UTF-8": basic(b"\xff:2"),
            "no colon": basic(b"prometheus"),
            "not base64": {"authorization": "Basic %%%"},
            "another scheme": {"authorization": "Bearer abc"},
            "nothing": {"authorization": ""},
        }.items():
            refused = client.get("/metrics", headers=headers)
            assert refused.status_code == 401, name
            assert refused.headers["www-authenticate"].startswith("Basic realm=")
            assert "up 1" not in refused.text
        for request in ("/", "/-/healthy", "/-/ready", "/absent"):
            assert client.get(request).status_code == 401
        assert client.post("/-/reload").status_code == 401


def test_changed_users_count_at_the_next_request(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = users(tmp_path / "web.yaml", a="one")
    with running(web_config=path) as (_, address), httpx.Client(base_url=address.url, timeout=60) as client:

        def status(credentials: bytes) -> int:
            return client.get("/-/healthy", headers=basic(credentials)).status_code

        assert (status(b"a:one"), status(b"a:one"), status(b"a:two")) == (200, 200, 401)
        users(path, a="two")
        assert (status(b"a:one"), status(b"a:two")) == (401, 200)
        replace(path, "basic_auth_users:\n  a: hunter2\n")
        assert (status(b"a:two"), status(b"a:hunter2")) == (200, 401)
        path.unlink()
        assert (status(b"a:two"), status(b"a:one")) == (200, 401)
        users(path, b="three")
        assert (status(b"a:two"), status(b"b:three")) == (401, 200)
    log = capfd.readouterr().err
    assert f"web configuration kept as it was: {path}:2: basic_auth_users.a: not a bcrypt hash" in log
    for secret in ("hunter2", "three", "$2b$", base64.b64encode(b"a:one").decode()):
        assert secret not in log


def openssl(*arguments: str) -> None:
    program = required_program("openssl", "openssl")
    subprocess.run([program, *arguments], check=True, capture_output=True, timeout=60)


def certificate(folder: Path, name: str) -> None:
    """Make NAME.crt and NAME.key, self-signed for 127.0.0.1."""
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")),
    )


def trusting(certificate_file: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate_file))


def test_tls_and_a_renewed_certificate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        certificate(tmp_path, name)
    for kind in ("crt", "key"):
        shutil.copy(tmp_path / f"one.{kind}", tmp_path / f"server.{kind}")
    path = tmp_path / "web.yaml"
    replace(path, "tls_server_config: {cert_file: server.crt, key_file: server.key, min_version: TLS13}\n")
    one, two = trusting(tmp_path / "one.crt"), trusting(tmp_path / "two.crt")
    with running(web_config=path) as (server, address):
        assert address.scheme == "https"

        def status(context: ssl.SSLContext) -> int | None:
            try:
                return httpx.get(f"{address.url}/metrics", verify=context, timeout=60).status_code
            except httpx.ConnectError:
                return None

        server.publish(body("up 1\n"))
        eventually(lambda: status(one) == 200, "TLS with the first certificate")
        assert status(two) is None
        old = trusting(tmp_path / "one.crt")
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert status(old) is None

        (tmp_path / "server.crt").write_bytes((tmp_path / "two.crt").read_bytes())  # Not yet with its key.
        log: list[str] = []

        def was_noticed() -> bool:
            log.append(capfd.readouterr().err)
            return "web configuration kept as it was: cert_file" in "".join(log)

        eventually(was_noticed, "a certificate without its key is refused")
        assert status(one) == 200
        (tmp_path / "server.key").write_bytes((tmp_path / "two.key").read_bytes())
        eventually(lambda: status(two) == 200, "the new certificate")
        assert status(one) is None
        replace(path, "")
        eventually(lambda: "turning TLS on or off needs a restart" in capfd.readouterr().err, "a warning")
        assert status(two) == 200


def test_a_client_that_never_ends_its_handshake_is_cut(tmp_path: Path) -> None:
    certificate(tmp_path, "server")
    path = tmp_path / "web.yaml"
    replace(path, "tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
    with (
        running(web_config=path, limits=Limits(header_seconds=1.0)) as (_, address),
        socket.create_connection((address.host, address.port), timeout=30) as connection,
    ):
        assert connection.recv(1) == b""


def test_client_certificates(tmp_path: Path) -> None:
    for name in ("server", "client", "stranger"):
        certificate(tmp_path, name)
    path = tmp_path / "web.yaml"
    replace(
        path,
        "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: client.crt,"
        " client_auth_type: RequireAndVerifyClientCert}\n"
        "http_server_config: {headers: {X-Frame-Options: SAMEORIGIN}}\n",
    )
    with running(web_config=path) as (_, address):
        cases: list[tuple[str | None, bool]] = [("client", True), ("stranger", False), (None, False)]
        for client, accepted in cases:
            context = trusting(tmp_path / "server.crt")
            if client is not None:
                context.load_cert_chain(tmp_path / f"{client}.crt", tmp_path / f"{client}.key")
            try:
                response = httpx.get(f"{address.url}/-/healthy", verify=context, timeout=60)
            except httpx.TransportError:
                assert not accepted, client
            else:
                assert accepted, client
                assert response.headers["x-frame-options"] == "SAMEORIGIN"
