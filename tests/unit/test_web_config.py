"""The web configuration is exporter-toolkit's, and every fault in it is one line that names file, line and key."""

from __future__ import annotations

import ssl
from pathlib import Path

import bcrypt
import pytest

from runwatch.server.authentication import dummy_hash, parse_basic, password_matches
from runwatch.server.web_config import WebConfigError, load_web_config, tls_context

HASH = bcrypt.hashpw(b"secret", b"$2b$04$" + b"." * 22).decode()  # A fixed salt: test names are made from it.


def written(folder: Path, text: str) -> Path:
    path = folder / "web.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    config = load_web_config(
        written(
            tmp_path,
            f"""\
tls_server_config:
  cert_file: server.crt
  key_file: /keys/server.key
  client_ca_file: ca.crt
  client_auth_type: RequireAndVerifyClientCert
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=600
basic_auth_users:
  prometheus: {HASH}
""",
        )
    )
    assert config.tls is not None
    assert config.tls.cert_file == tmp_path / "server.crt"
    assert config.tls.key_file == Path("/keys/server.key")
    assert config.tls.client_ca_file == tmp_path / "ca.crt"
    assert config.tls.client_auth is ssl.CERT_REQUIRED
    assert (config.tls.min_version, config.tls.max_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert config.tls.cipher_suites == ("ECDHE-RSA-AES128-GCM-SHA256",)
    assert config.tls.prefer_server_cipher_suites is False
    assert config.users == {"prometheus": HASH.encode()}
    assert config.headers == {"Strict-Transport-Security": "max-age=600"}
    assert HASH not in repr(config)


@pytest.mark.parametrize("text", ["", "# nothing\n", "basic_auth_users:\n", "tls_server_config: {}\n"])
def test_an_empty_file_asks_for_nothing(tmp_path: Path, text: str) -> None:
    config = load_web_config(written(tmp_path, text))
    assert (config.tls, dict(config.users), dict(config.headers)) == (None, {}, {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tls_config: {}\n", ":1: tls_config: unknown key, expected one of tls_server_config, "),
        ("\ntls_server_config:\n  cert: a\n", ":3: tls_server_config.cert: not supported by this server"),
        ("rate_limit: {burst: 1}\n", ":1: rate_limit: not supported by this server"),
        ("tls_server_config:\n  cert_file: a\n", ":1: tls_server_config: key_file is missing"),
        ("tls_server_config: [a]\n", ":1: tls_server_config: expected a mapping"),
        ("tls_server_config:\n  cert_file: [a]\n  key_file: b\n", ":2: tls_server_config.cert_file: expected a text"),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS9}\n",
            ":1: tls_server_config.min_version: expected one of TLS10, TLS11, TLS12, TLS13",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, max_version: TLS11}\n",
            ":1: tls_server_config.max_version: below min_version (TLS12 where it is not set)",
        ),
        (
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  cipher_suites: [RC4]\n",
            ":4: tls_server_config.cipher_suites: 'RC4' is not one of ",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}\n",
            ":1: tls_server_config.client_auth_type: expected one of NoClientCert, ",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}\n",
            ":1: tls_server_config: client_ca_file and a client_auth_type that verifies go together",
        ),
        ("basic_auth_users:\n  a: hunter2\n", ":2: basic_auth_users.a: not a bcrypt hash"),
        ("basic_auth_users:\n  a: [hunter2]\n", ":2: basic_auth_users.a: not a bcrypt hash"),
        ("basic_auth_users:\n  a: x\n  a: x\n", ":3: basic_auth_users.a: stands twice"),
        (f"basic_auth_users:\n  'a:b': {HASH}\n", ":2: basic_auth_users.a:b: a user's name cannot hold a colon"),
        ("http_server_config: {http2: maybe}\n", ":1: http_server_config.http2: expected true or false"),
        ("http_server_config:\n  headers: {Server: x}\n", ":2: http_server_config.headers.Server: unknown key"),
        ("a: b: hunter2\n", ":1: not valid YAML: is the line indented as those that it belongs to, and is text "),
        ("basic_auth_users:\n\ta: hunter2\n", ":2: not valid YAML: indent with spaces, not with tabs"),
        ("a: *hunter2\n", ":1: not valid YAML"),
        ("- a\n", ":1: expected a mapping"),
    ],
)
def test_faults_name_file_line_and_key_and_no_secret(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(WebConfigError) as raised:
        load_web_config(path)
    assert str(raised.value).startswith(f"{path}{complaint}")
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WebConfigError, match="No such file or directory"):
        load_web_config(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(WebConfigError, match="not UTF-8 text"):
        load_web_config(tmp_path / "latin.yaml")
    config = load_web_config(written(tmp_path, "tls_server_config: {cert_file: no.crt, key_file: no.key}\n"))
    assert config.tls is not None
    with pytest.raises(WebConfigError, match=r"^cert_file .*/no\.crt: No such file or directory$"):
        tls_context(config.tls)
    (tmp_path / "no.crt").touch()
    with pytest.raises(WebConfigError, match=r"^key_file .*/no\.key: No such file or directory$"):
        tls_context(config.tls)


def test_authorization_headers() -> None:
    assert parse_basic("Basic dTpwOnc=") == ("u", b"p:w")
    assert parse_basic("bAsIc dTo=") == ("u", b"")
    for garbage in ("", "Basic", "Basic !!!", "Basic dQ==", "Bearer dTpw", "Basic /zpw", "Basic dTpw€", "Basic dTp"):
        assert parse_basic(garbage) is None, garbage


@pytest.mark.parametrize(
    ("password", "matches"),
    [(b"secret", True), (b"Secret", False), (b"", False), (b"secret\0", False), (b"x" * 73, False)],
)
def test_passwords(password: bytes, matches: bool) -> None:
    assert password_matches(password, HASH.encode()) is matches


def test_a_password_that_bcrypt_would_cut_is_refused() -> None:
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))
    assert password_matches(b"x" * 72, hashed)
    assert not password_matches(b"x" * 73, hashed)


def test_the_dummy_hash_is_valid_costs_the_same_and_matches_nothing() -> None:
    dummy = dummy_hash({"a": HASH.encode(), "b": b"$2y$06$" + b"a" * 53})
    assert dummy.startswith(b"$2b$06$")
    for password in (b"", b"secret", b"x" * 72):
        assert not password_matches(password, dummy)
