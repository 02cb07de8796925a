"""Basic authentication against bcrypt hashes, and the watch on the web configuration's files."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path

import bcrypt

from runwatch.server.web_config import WebConfig, WebConfigError, apply_tls, load_web_config, tls_context

_logger = logging.getLogger("runwatch.server")

_BCRYPT_MAX_BYTES = 72  # bcrypt reads no more; version 5 of the package raises on longer ones.
_REMEMBERED_HEADERS = 256
_CHECKS_AT_ONCE = 2  # So that guessing passwords leaves room for scrapes.
_DEFAULT_COST = 10

_FileSignature = tuple[int, int, int] | None


def _signature(path: Path) -> _FileSignature:
    """Tell versions of a file apart; a Kubernetes secret is swapped by a link, so the inode counts."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def dummy_hash(users: Mapping[str, bytes]) -> bytes:
    """Return a valid hash that no password has, as costly as the dearest of the users' own."""
    cost = max((int(value[4:6]) for value in users.values()), default=_DEFAULT_COST)
    return f"$2b${cost:02}$".encode() + b"." * 53


def parse_basic(header: str) -> tuple[str, bytes] | None:
    """Return name and password of an Authorization header, or None when it is no Basic one that can be read."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(encoded.strip().encode("ascii"), validate=True)
        name, colon, password = decoded.partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeError):
        return None


def password_matches(password: bytes, hashed: bytes) -> bool:
    """Compare with bcrypt; a password that bcrypt cannot take whole never matches, at the same cost."""
    usable = len(password) <= _BCRYPT_MAX_BYTES and b"\0" not in password
    return bcrypt.checkpw(password if usable else b"", hashed) and usable


class WebAccess:
    """The web configuration in force. A changed file is taken at once, a bad one is logged and the old one kept."""

    def __init__(self, path: Path | None) -> None:
        """Read the file.

        Raises:
            WebConfigError: it, or a certificate that it names, cannot be used.
        """
        self._path = path
        self._config = load_web_config(path) if path is not None else WebConfig()
        self.tls: ssl.SSLContext | None = tls_context(self._config.tls) if self._config.tls is not None else None
        self._config_signature = _signature(path) if path is not None else None
        self._tls_signatures = self._sign_tls_files()
        self._salt = secrets.token_bytes(32)
        self._accepted: set[bytes] = set()
        self._checks = asyncio.Semaphore(_CHECKS_AT_ONCE)

    @property
    def headers(self) -> Mapping[str, str]:
        """The response headers that the file sets."""
        return self._config.headers

    async def allows(self, authorization: str | None) -> bool:
        """Say whether a request with this Authorization header may pass."""
        self.refresh()
        users = self._config.users
        if not users:
            return True
        credentials = parse_basic(authorization) if authorization is not None else None
        if authorization is None or credentials is None:
            return False
        remembered = hashlib.sha256(self._salt + authorization.encode("latin-1", "replace")).digest()
        if remembered in self._accepted:
            return True
        name, password = credentials
        # An unknown name costs what a known one does: the time tells nobody which names there are.
        hashed = users.get(name, dummy_hash(users))
        async with self._checks:
            matches = await asyncio.to_thread(password_matches, password, hashed)
        if not matches or name not in users:
            return False
        if users is not self._config.users:
            return await self.allows(authorization)  # The file changed meanwhile.
        if len(self._accepted) >= _REMEMBERED_HEADERS:
            self._accepted.clear()
        self._accepted.add(remembered)
        return True

    def refresh(self) -> None:
        """Take a changed file and changed certificates; cheap when nothing changed."""
        if self._path is not None and _signature(self._path) != self._config_signature:
            self._config_signature = _signature(self._path)
            self._reload(self._path)
        elif self._sign_tls_files() != self._tls_signatures:
            self._tls_signatures = self._sign_tls_files()
            self._take(self._config)

    def _reload(self, path: Path) -> None:
        try:
            config = load_web_config(path)
        except WebConfigError as error:
            _logger.error("web configuration kept as it was: %s", error)
            return
        self._take(config)

    def _take(self, config: WebConfig) -> None:
        """Put a configuration in force, all of it or nothing."""
        if (config.tls is None) != (self.tls is None):
            _logger.error("web configuration kept as it was: turning TLS on or off needs a restart")
            return
        if config.tls is not None and self.tls is not None and self._config.tls is not None:
            if config.tls.client_ca_file != self._config.tls.client_ca_file:
                _logger.error("web configuration kept as it was: another client_ca_file needs a restart")
                return
            try:
                tls_context(config.tls)
                apply_tls(self.tls, config.tls)
            except WebConfigError as error:
                _logger.error("web configuration kept as it was: %s", error)
                return
        self._accepted.clear()
        self._config = config
        self._tls_signatures = self._sign_tls_files()
        _logger.info("web configuration taken anew")

    def _sign_tls_files(self) -> tuple[_FileSignature, ...]:
        tls = self._config.tls
        return (_signature(tls.cert_file), _signature(tls.key_file)) if tls is not None else ()
