"""Captures of trainers' logs as the fragments that the log reader makes of them."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from runwatch.parsing.log_lines import LogSplitter
from runwatch.parsing.log_records import LogFragment

LOGS = Path(__file__).parent.parent / "data" / "logs"


def fragments_of(data: bytes | str, *, portion: int = 0) -> list[LogFragment]:
    """Return the fragments of a log's bytes, fed whole or in portions of that many bytes."""
    raw = data.encode() if isinstance(data, str) else data
    splitter = LogSplitter(zone=UTC)
    pieces = [raw[at : at + portion] for at in range(0, len(raw), portion)] if portion else [raw]
    fragments = [fragment for piece in pieces for fragment in splitter.feed(piece)]
    return fragments + splitter.finish()


def capture(name: str) -> list[LogFragment]:
    """Return the fragments of a capture below `tests/data/logs`."""
    return fragments_of((LOGS / name).read_bytes())
