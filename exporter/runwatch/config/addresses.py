"""Addresses in the config: where the server listens, and where upstreams are."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_LISTEN = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]{1,5})")
LISTEN_EXPECTED = "expected HOST:PORT such as 0.0.0.0:9877 or [::]:9877"


def split_listen(text: str) -> tuple[str, int]:
    """Return host (IPv6 without its brackets) and port; an empty host, as in `:9877`, is `0.0.0.0`.

    Raises:
        ValueError: the text is no such address.
    """
    found = _LISTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{LISTEN_EXPECTED}, got '{text[:80]}'")
    port = int(found["port"])
    if port > 65535:
        raise ValueError(f"expected a port of at most 65535, got {port}")
    if found["ipv6"] is None:
        return found["host"] or "0.0.0.0", port  # noqa: S104 the documented meaning of an empty host
    try:
        ipaddress.IPv6Address(found["ipv6"])
    except ValueError:
        raise ValueError(f"{LISTEN_EXPECTED}, got '{text[:80]}'") from None
    return found["ipv6"], port


def check_http_url(text: str) -> None:
    """Check the address of an upstream.

    Raises:
        ValueError: it is not `http` or `https` with a host, or holds a user or a password, a query or a fragment.
            The message does not repeat the address, since it may hold a secret.
    """
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not text.isprintable() or " " in text:
        raise ValueError("expected an address that begins with http:// or https:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("secrets are never values here: remove the user and the password from the address")
    if parts.query or parts.fragment:
        raise ValueError("expected an address without ? and #")


def check_page_address(text: str, placeholder: str) -> None:
    """Check the address of a page that people open, which holds a placeholder such as `{path}` once.

    Raises:
        ValueError: it is not `http` or `https` with a host, holds a user or a password, or the placeholder does not
            stand behind the host, exactly once and with no other braces. The message does not repeat the address.
    """
    filled = text.replace(placeholder, "x")
    try:
        parts, host = urlsplit(filled), urlsplit(text).netloc
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid, host = False, ""
    if not valid or not text.isprintable() or " " in text:
        raise ValueError("expected an address that begins with http:// or https:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("secrets are never values here: remove the user and the password from the address")
    if text.count(placeholder) != 1 or "{" in filled or "}" in filled or "{" in host:
        raise ValueError(f"expected {placeholder} once, behind the host, and no other braces")
