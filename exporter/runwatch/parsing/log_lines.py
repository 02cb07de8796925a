"""Cutting the bytes of a log into fragments: what stands between two of newline, carriage return and cursor-up.

A progress bar redraws itself without a newline for hours, and what is printed meanwhile stands right behind it. So a
bar at the beginning of a fragment is a fragment of its own, delivered as soon as its `]` is there: the newest bar of a
running job has no end yet. Wherever the bytes are divided, the fragments are the same.

Stripped are ANSI sequences, the label of `srun --label` (`3: `), Ray's `(name pid=1, ip=10.0.0.2) ` and
`[repeated 7x across cluster]`, and torch's `[rank3]: `. What a prefix says holds to the end of its line: Ray marks a
line once, however often a bar in it is redrawn.
"""

from __future__ import annotations

import re
from datetime import UTC, tzinfo

from runwatch.parsing.log_records import LogFragment
from runwatch.parsing.log_stamps import StampReader

MAX_FRAGMENT_BYTES = 64 * 1024

_END = re.compile(rb"\r*\n|\r+|\x1b\[\d{0,4}A")
_UNFINISHED_ESCAPE = re.compile(rb"\x1b(?:\[\d{0,4})?\Z")
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_BAR = re.compile(
    r"\s{0,200}(?:[^\r\n|%\x1b]{0,200}?:\s{1,20})?\s{0,200}\d{1,3}%\|[^|\x1b]{0,400}\|\s{0,20}"
    r"[\d.]{1,20}[kMGT]?/[\d.]{1,20}[kMGT]? \[[\d:]{1,20}<[\d:?]{1,20},[^\[\]\x1b]{0,400}\]",
    re.ASCII,
)
_BAR_CHARACTERS = 1600
_WAITING_BYTES = 8192  # longer than any bar with the escapes in it
_SRUN = re.compile(r" {0,5}(\d{1,6}): ", re.ASCII)
_RAY = re.compile(r"\(([^()]{1,200}?),? pid=\d{1,10}(?:, ip=[^)\s]{1,60})?\) ?", re.ASCII)
_RANK = re.compile(r"\[rank(\d{1,6})\]: ?", re.ASCII)
_REPEATED = re.compile(r"\[repeated \d{1,9}x across cluster\](?: \(Ray deduplicates logs by default\..*\))?\s*\Z")
_RAY_IN_COLOUR = re.compile(
    r"(?:\x1b\[[0-9;]{0,20}m){0,4}\([^()\r\n]{1,200}? pid=\d{1,10}[^()\r\n]{0,80}\)(?:\x1b\[[0-9;]{0,20}m){0,4} ?"
)
_MOST_PREFIXES = 4
_PREFIX_CHARACTERS = frozenset("0123456789 ([")


class LogSplitter:
    """Takes a log's bytes in any portions and gives its fragments, without blank ones.

    Args:
        zone: the time zone of stamps that name none.
        file_time: when the file was last written, Unix seconds; see `StampReader`.
        starts_mid_line: the bytes begin inside a line: what comes before the first end of a fragment is dropped.
        max_fragment_bytes: of a longer fragment the rest is dropped and counted in `dropped_bytes`.
    """

    def __init__(
        self,
        *,
        zone: tzinfo = UTC,
        file_time: float | None = None,
        starts_mid_line: bool = False,
        max_fragment_bytes: int = MAX_FRAGMENT_BYTES,
    ) -> None:
        if max_fragment_bytes < _WAITING_BYTES:
            raise ValueError(f"max_fragment_bytes must be at least {_WAITING_BYTES}")
        self._stamps = StampReader(zone, file_time)
        self._inside_unknown_line = starts_mid_line
        self._max_fragment_bytes = max_fragment_bytes
        self._held = b""
        self._waiting = bytearray()
        self._bars_given = 0
        self._rank: int | None = None
        self._actor = ""
        self.dropped_bytes = 0

    def written_at(self, file_time: float) -> None:
        """Note when the file was last written, before its new bytes are fed."""
        self._stamps.file_time = file_time

    def feed(self, data: bytes) -> list[LogFragment]:
        """Take the next bytes and return the fragments that are complete."""
        data = self._held + data
        self._held = b""
        if data.endswith(b"\r"):
            # It ends a line or a bar: what follows tells. Of several one is enough.
            data, self._held = data.rstrip(b"\r"), b"\r"
        elif (cut := _UNFINISHED_ESCAPE.search(data, max(0, len(data) - 8))) is not None:
            data, self._held = data[: cut.start()], data[cut.start() :]
        fragments: list[LogFragment] = []
        start = 0
        for end in _END.finditer(data):
            self._take(data[start : end.start()])
            self._end(fragments, newline=end[0].endswith(b"\n"))
            start = end.end()
        self._take(data[start:])
        self._give_waiting_bars(fragments)
        return fragments

    def finish(self) -> list[LogFragment]:
        """Return what the log ends with, where its last line has no end."""
        fragments: list[LogFragment] = []
        if self._held != b"\r":
            self._take(self._held)
        redrawn = self._held == b"\r"
        self._held = b""
        if not self._inside_unknown_line or redrawn:
            self._end(fragments, newline=not redrawn)
        return fragments

    def _take(self, piece: bytes) -> None:
        room = self._max_fragment_bytes - len(self._waiting)
        self._waiting += piece[:room]
        self.dropped_bytes += max(len(piece) - room, 0)

    def _end(self, fragments: list[LogFragment], *, newline: bool) -> None:
        if self._inside_unknown_line:
            self._inside_unknown_line = False
        elif self._waiting:
            bars, rest = self._read(bytes(self._waiting))
            fragments += bars[self._bars_given :]
            if rest:
                time = self._stamps.read(rest)
                fragments.append(LogFragment(rest, self._rank, self._actor, time, bar=not newline))
        self._waiting.clear()
        self._bars_given = 0
        if newline:
            self._rank, self._actor = None, ""

    def _give_waiting_bars(self, fragments: list[LogFragment]) -> None:
        if self._inside_unknown_line or not 0 < len(self._waiting) <= _WAITING_BYTES:
            return
        rank, actor = self._rank, self._actor
        bars, _ = self._read(bytes(self._waiting))
        self._rank, self._actor = rank, actor  # the prefix may be incomplete yet
        fragments += bars[self._bars_given :]
        self._bars_given = max(self._bars_given, len(bars))

    def _read(self, raw: bytes) -> tuple[list[LogFragment], str]:
        """Return the bars that a fragment begins with, and what stands behind them; note what its prefixes say."""
        text = raw.decode("utf-8", errors="replace")
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        text = _without_repetition(text[self._note_prefixes(text) :]).rstrip()
        bars: list[LogFragment] = []
        start = 0
        # Most lines are no bars: to look for its mark first is much cheaper than to try the expression.
        while text.find("%|", start, start + _BAR_CHARACTERS) >= 0 and (
            bar := _BAR.match(text, start, start + _BAR_CHARACTERS)
        ):
            bars.append(LogFragment(bar[0].strip(), self._rank, self._actor, bar=True))
            start = bar.end()
        return bars, text[start:].lstrip() if bars else text

    def _note_prefixes(self, text: str) -> int:
        """Note rank and actor, and return where the text behind the prefixes begins."""
        start = 0
        if text[:1] not in _PREFIX_CHARACTERS:
            return 0
        label = _SRUN.match(text)
        if label is not None:
            self._rank, start = int(label[1]), label.end()
        for _ in range(_MOST_PREFIXES):
            if (actor := _RAY.match(text, start)) is not None:
                self._actor, start = actor[1], actor.end()
            elif (rank := _RANK.match(text, start)) is not None:
                self._rank, start = int(rank[1]), rank.end()
            else:
                break
        return start


def each_redrawing(text: str) -> list[str]:
    """Cut a log's text into lines, and each line into what it was redrawn as, with the line's Ray prefix before each.

    A line of which only the beginning was written then grows by further pieces, and its first ones stay as they are.
    """
    found: list[str] = []
    for line in text.split("\n"):
        pieces = [piece for piece in line.split("\r") if piece.strip()]
        prefix = _RAY_IN_COLOUR.match(line)
        if prefix is not None:
            bare = prefix[0].strip()
            pieces = [
                piece if piece.startswith(bare) else prefix[0] + piece for piece in pieces if piece.strip() != bare
            ]
        found += pieces
    return found


def _without_repetition(text: str) -> str:
    start = text.rfind("[repeated ")
    if start < 0 or _REPEATED.match(text, start) is None:
        return text
    return text[:start]
