"""The web configuration file, in the format of Prometheus's exporter-toolkit.

The format: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md. What this server
cannot do (HTTP/2, curves, rate limits, keys inside the file) is an error and never silently left out.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

from runwatch.parsing.yaml_faults import advice

_SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users")
_TLS_KEYS = (
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
)
_NOT_SUPPORTED = ("cert", "key", "curve_preferences", "client_allowed_sans", "client_ca", "rate_limit")
_HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{ours}": f"ECDHE-{key}-{theirs}"
    for key in ("RSA", "ECDSA")
    for ours, theirs in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
_BCRYPT_HASH = re.compile(r"\$2[aby]\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_TRUE_OR_FALSE = {"true": True, "false": False}

_Word = TypeVar("_Word")


class WebConfigError(ValueError):
    """The file cannot be used; the text is one line that names file, line and key, and holds no secret."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The section `tls_server_config`; paths are absolute or relative to the working directory."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file. `users` holds bcrypt hashes by name and stays out of every text."""

    tls: TlsSettings | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value of the file with where it stands."""

    file: Path
    path: str
    line: int
    node: yaml.Node

    def fault(self, text: str) -> WebConfigError:
        key = f"{self.path}: " if self.path else ""
        return WebConfigError(f"{self.file}:{self.line}: {key}{text}")

    def mapping(self) -> dict[str, _Entry]:
        if isinstance(self.node, yaml.ScalarNode) and self.node.value in ("", "null", "~"):
            return {}
        if not isinstance(self.node, yaml.MappingNode):
            raise self.fault("expected a mapping")
        entries: dict[str, _Entry] = {}
        for key, value in self.node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            entry = _Entry(self.file, f"{self.path}.{name}" if self.path else name, line, value)
            if name in entries:
                raise entry.fault("stands twice")
            entries[name] = entry
        return entries

    def text(self) -> str:
        if not isinstance(self.node, yaml.ScalarNode) or self.node.value == "":
            raise self.fault("expected a text")
        return str(self.node.value)

    def boolean(self) -> bool:
        text = self.text()
        if text not in _TRUE_OR_FALSE:
            raise self.fault("expected true or false")
        return _TRUE_OR_FALSE[text]

    def texts(self) -> list[str]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.fault("expected a list")
        return [_Entry(self.file, self.path, item.start_mark.line + 1, item).text() for item in self.node.value]

    def relative_file(self) -> Path:
        return self.file.parent / self.text()


def load_web_config(path: Path) -> WebConfig:
    """Read and check the file. Certificates are read by `tls_context`.

    Raises:
        WebConfigError: it cannot be read, or something in it cannot be used.
    """
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise WebConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WebConfigError(f"{path}: not UTF-8 text") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        hint = f": {text}" if (text := advice(error)) else ""
        raise WebConfigError(f"{path}{line}: not valid YAML{hint}") from None  # The parser's text quotes the file.
    if root is None:
        return WebConfig()
    sections = _checked(_Entry(path, "", 1, root).mapping(), _SECTIONS)
    return WebConfig(
        tls=_tls(sections["tls_server_config"]) if "tls_server_config" in sections else None,
        users=_users(sections["basic_auth_users"]) if "basic_auth_users" in sections else {},
        headers=_http(sections["http_server_config"]) if "http_server_config" in sections else {},
    )


def _checked(entries: dict[str, _Entry], known: tuple[str, ...]) -> dict[str, _Entry]:
    for name, entry in entries.items():
        if name in known:
            continue
        if name in _NOT_SUPPORTED:
            raise entry.fault("not supported by this server")
        raise entry.fault(f"unknown key, expected one of {', '.join(known)}")
    return entries


def _users(section: _Entry) -> dict[str, bytes]:
    users: dict[str, bytes] = {}
    for name, entry in section.mapping().items():
        if ":" in name:
            raise entry.fault("a user's name cannot hold a colon")
        value = entry.node.value if isinstance(entry.node, yaml.ScalarNode) else ""
        if _BCRYPT_HASH.fullmatch(value) is None:
            raise entry.fault("not a bcrypt hash (make one with: htpasswd -nBC 10 NAME)")
        users[name] = value.encode()
    return users


def _http(section: _Entry) -> dict[str, str]:
    entries = _checked(section.mapping(), ("http2", "headers"))
    if "http2" in entries:
        entries["http2"].boolean()  # Clients agree on HTTP/1.1 either way.
    if "headers" not in entries:
        return {}
    headers = {name: entry.text() for name, entry in _checked(entries["headers"].mapping(), _HEADERS).items()}
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise entries["headers"].fault(f"{name}: expected printable ASCII")
    return headers


def _choice(entries: Mapping[str, _Entry], name: str, words: Mapping[str, _Word], otherwise: _Word) -> _Word:
    if name not in entries:
        return otherwise
    word = entries[name].text()
    if word not in words:
        raise entries[name].fault(f"expected one of {', '.join(words)}")
    return words[word]


def _tls(section: _Entry) -> TlsSettings | None:
    entries = _checked(section.mapping(), _TLS_KEYS)
    if not entries:
        return None
    for needed in ("cert_file", "key_file"):
        if needed not in entries:
            raise section.fault(f"{needed} is missing")

    client_auth = _choice(entries, "client_auth_type", _CLIENT_AUTH, ssl.CERT_NONE)
    if (client_auth is not ssl.CERT_NONE) != ("client_ca_file" in entries):
        raise section.fault("client_ca_file and a client_auth_type that verifies go together")
    min_version = _choice(entries, "min_version", _VERSIONS, ssl.TLSVersion.TLSv1_2)
    max_version = _choice(entries, "max_version", _VERSIONS, ssl.TLSVersion.MAXIMUM_SUPPORTED)
    if max_version is not ssl.TLSVersion.MAXIMUM_SUPPORTED and max_version < min_version:
        raise entries["max_version"].fault("below min_version (TLS12 where it is not set)")
    suites: list[str] = []
    for suite in entries["cipher_suites"].texts() if "cipher_suites" in entries else []:
        if suite not in _CIPHERS:
            raise entries["cipher_suites"].fault(f"{suite!r} is not one of {', '.join(_CIPHERS)}")
        suites.append(_CIPHERS[suite])
    preference = entries.get("prefer_server_cipher_suites")
    return TlsSettings(
        cert_file=entries["cert_file"].relative_file(),
        key_file=entries["key_file"].relative_file(),
        client_ca_file=entries["client_ca_file"].relative_file() if "client_ca_file" in entries else None,
        client_auth=client_auth,
        min_version=min_version,
        max_version=max_version,
        cipher_suites=tuple(suites),
        prefer_server_cipher_suites=preference.boolean() if preference is not None else True,
    )


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of a TLS server.

    Raises:
        WebConfigError: a certificate or key cannot be read, or they do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    apply_tls(context, settings)
    if settings.client_ca_file is not None:
        try:
            context.load_verify_locations(settings.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise WebConfigError(f"client_ca_file {settings.client_ca_file}: {_reason(error)}") from error
    return context


def apply_tls(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Put certificate, versions, ciphers and client check on a context; new connections use them at once.

    Raises:
        WebConfigError: as `tls_context`. The context may be half changed then: try on a fresh one first.
    """
    for key, path in (("cert_file", settings.cert_file), ("key_file", settings.key_file)):
        try:
            path.open("rb").close()
        except OSError as error:
            raise WebConfigError(f"{key} {path}: {error.strerror}") from error
    try:
        # A key with a passphrase would make OpenSSL ask on the terminal.
        context.load_cert_chain(settings.cert_file, settings.key_file, password=lambda: "")
        context.minimum_version = settings.min_version
        context.maximum_version = settings.max_version
        if settings.cipher_suites:
            context.set_ciphers(":".join(settings.cipher_suites))
    except (OSError, ValueError) as error:
        raise WebConfigError(
            f"cert_file {settings.cert_file}, key_file {settings.key_file}: {_reason(error)}"
        ) from error
    context.verify_mode = settings.client_auth
    if settings.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "not usable (the key is another certificate's)"
        return f"not usable ({error.reason or 'wrong format, or the key has a passphrase'})"
    return getattr(error, "strerror", None) or str(error)
