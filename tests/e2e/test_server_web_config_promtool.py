"""We and Prometheus's own tool accept and refuse the same web configuration files."""

from __future__ import annotations

from pathlib import Path

import pytest

from runwatch.server.web_config import WebConfigError, load_web_config, tls_context
from tests.e2e.prometheus_tools import promtool
from tests.e2e.test_server_access import certificate

HASH = "$2b$04$" + "." * 53
TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key"


def we_accept(path: Path) -> bool:
    try:
        config = load_web_config(path)
        if config.tls is not None:
            tls_context(config.tls)
    except WebConfigError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("", True),
        ("tls_server_config: {}\n", True),
        (TLS + "}\n", True),
        (TLS + ", min_version: TLS13}\n", True),
        (TLS + ", client_ca_file: server.crt, client_auth_type: VerifyClientCertIfGiven}\n", True),
        (TLS + ", cipher_suites: [TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]}\n", True),
        (TLS + f", prefer_server_cipher_suites: false}}\nbasic_auth_users: {{a: {HASH}}}\n", True),
        ("http_server_config: {http2: false, headers: {X-Frame-Options: deny}}\n", True),
        ("basic_auth_users: {a: hunter2}\n", False),
        ("tls_server_config: {cert_file: server.crt}\n", False),
        ("tls_server_config: {cert_file: server.crt, key_file: absent.key}\n", False),
        ("tls_server_config: {cert_file: server.key, key_file: server.crt}\n", False),
        (TLS + ", client_ca_file: server.crt}\n", False),
        (TLS + ", client_auth_type: Always}\n", False),
        (TLS + ", min_version: TLS9}\n", False),
        (TLS + ", cipher_suites: [RC4]}\n", False),
        (TLS + ", cert: x}\n", False),
        ("tls_config: {}\n", False),
        ("http_server_config: {headers: {Server: x}}\n", False),
    ],
)
def test_the_same_files_are_good(tmp_path: Path, text: str, accepted: bool) -> None:
    certificate(tmp_path, "server")
    path = tmp_path / "web.yaml"
    path.write_text(text, encoding="utf-8")
    theirs = promtool("check", "web-config", str(path))
    assert (theirs.returncode == 0) is accepted, theirs.stderr
    assert we_accept(path) is accepted
