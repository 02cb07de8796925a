"""How a job ended, as far as its log tells.

Tracebacks that are survived are no failures: those of Harbor's trials (a trial that times out is still scored), those
behind which training went on, and those behind which the log did for long. In what torch's elastic agent writes at the
end only the "Root Cause" counts: the others were stopped because of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runwatch.parsing.failure_lines import exception_reason, line_reason
from runwatch.parsing.log_records import LogFailure, LogFragment
from runwatch.parsing.log_values import loguru_message
from runwatch.parsing.progress_bars import split_bar
from runwatch.parsing.skyrl_lines import BAR_DESCRIPTIONS

ROOT_CAUSE = "Root Cause (first observed failure)"
_TRACEBACK = "Traceback (most recent call last):"
_TRACEBACK_LINES = 2000
_ROOT_CAUSE_LINES = 12
_OPEN_TRACEBACKS = 64
_FAILURES_KEPT = 40
_SURVIVED_LINES = 20_000
_UPDATES_THAT_PROVE_LIFE = 2  # when a process dies its bar may be drawn once more, with a count not shown before
_STEP_LINES = ("WANDB_MIRROR kind=train step=", "Progress on:train ")
_LONGEST_TEXT = 500
_EXIT_CODE = re.compile(r"\s{0,20}exitcode\s{0,20}: (-?\d{1,4})\b.{0,100}", re.ASCII)
_RANK = re.compile(r"\s{0,20}rank\s{0,20}: (\d{1,7})\b.{0,100}", re.ASCII)
_VLLM = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,120}\] ?", re.ASCII)
_SECRET = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|AKIA|AIza|xox[bp]-|eyJ)[\w.-]{12,400}|\b[0-9a-f]{40}\b"
    r"|(?i:\b(?:bearer|token|api[_-]?key|password|secret)\b['\"]?(?: ?[=:] ?| )['\"]?)[^\s'\",]{8,400}"
)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_EXIT_REASONS = {-9: "sigkill", -15: "sigterm", 137: "sigkill", 143: "sigterm"}
_SCHEDULERS_WORD = frozenset({"wall_time", "preempted", "cancelled"})
_CERTAIN = frozenset({"cuda_out_of_memory", "out_of_memory"})
SIGNALS = frozenset({"sigterm", "sigkill"})
"""What a failure elsewhere leads to, or the end of a helper that is needed no more."""


@dataclass(slots=True)
class _RootCause:
    lines_left: int = _ROOT_CAUSE_LINES
    rank: str = ""
    time: float | None = None


@dataclass(slots=True)
class _Open:
    """Tracebacks that are being printed, by the process that prints them, with the lines that each may still have."""

    lines_left: dict[tuple[int | None, str], int] = field(default_factory=dict)


class FailureFinder:
    """Takes a log's fragments in any portions; `failures` are those that nothing after them contradicts."""

    def __init__(self) -> None:
        self._failures: list[LogFailure] = []
        self._seen_at: list[int] = []
        self._lines = 0
        self._updates = 0
        self._open = _Open()
        self._root_cause: _RootCause | None = None
        self._bars: dict[str, tuple[int, int]] = {}

    @property
    def failures(self) -> tuple[LogFailure, ...]:
        """What tells how the newest start of the job ended, in the order of the log."""
        return tuple(self._failures)

    def feed(self, fragments: Iterable[LogFragment]) -> list[LogFailure]:
        """Take the next fragments and return the failures that they show."""
        found: list[LogFailure] = []
        for fragment in fragments:
            self._lines += 1
            failure = self._take(fragment)
            if failure is not None:
                found.append(failure)
                self._keep(failure)
        self._forget_survived()
        return found

    def _take(self, fragment: LogFragment) -> LogFailure | None:
        bar, text = split_bar(fragment.text)
        if bar is not None:
            if bar.done is not None and bar.total is not None:
                self._note_progress(bar.description, bar.done, bar.total)
            text = text.strip()
            if not text:
                return None
        if self._root_cause is not None:
            return self._take_root_cause(text)
        if text.startswith(ROOT_CAUSE):
            self._root_cause = _RootCause(time=fragment.time)
            return None
        process = (fragment.rank, fragment.actor)
        if any(mark in text for mark in _STEP_LINES):
            self._note_update()
        text = _message(text)
        if len(text) < 400 and text.rstrip().endswith(_TRACEBACK):
            self._open_traceback(process)
            return None
        if process in self._open.lines_left:
            return self._take_traceback(process, text, fragment.time)
        reason = line_reason(text)
        return _failure(reason, text, fragment.time) if reason else None

    def _open_traceback(self, process: tuple[int | None, str]) -> None:
        lines_left = self._open.lines_left
        lines_left.pop(process, None)
        if len(lines_left) >= _OPEN_TRACEBACKS:
            del lines_left[next(iter(lines_left))]
        lines_left[process] = _TRACEBACK_LINES

    def _take_traceback(self, process: tuple[int | None, str], text: str, time: float | None) -> LogFailure | None:
        left = self._open.lines_left[process] = self._open.lines_left[process] - 1
        if left <= 0:
            del self._open.lines_left[process]
            return None
        if text[:1] in " \t" or text.startswith(("File ", *_CHAINED)):
            return None
        reason = exception_reason(text)
        if reason is None:
            # Other output of the same process stands in between, or it is the last line of a message of several.
            own = line_reason(text)
            return _failure(own, text, time) if own else None
        del self._open.lines_left[process]
        return _failure(reason, text, time) if reason else None

    def _take_root_cause(self, text: str) -> LogFailure | None:
        cause = self._root_cause
        if cause is None:
            return None
        cause.lines_left -= 1
        if cause.lines_left <= 0 or text.startswith("===="):
            self._root_cause = None
            return None
        if (rank := _RANK.fullmatch(text)) is not None:
            cause.rank = rank[1]
        if (code := _EXIT_CODE.fullmatch(text)) is None:
            return None
        self._root_cause = None
        reason = _EXIT_REASONS.get(int(code[1]), "traceback")
        return _failure(reason, f"{ROOT_CAUSE}: rank {cause.rank or '?'}, exit code {code[1]}", cause.time)

    def _note_progress(self, description: str, done: int, total: int) -> None:
        """Follow the trainer's bars; one that begins anew is a new start of the trainer."""
        if description and description not in BAR_DESCRIPTIONS:
            return
        before = self._bars.get(description)
        self._bars[description] = (done, total)
        if before is None or before[1] != total:
            return
        if done < before[0]:
            self._clear()
        elif done > before[0]:
            self._note_update()

    def _note_update(self) -> None:
        self._updates += 1
        if self._updates >= _UPDATES_THAT_PROVE_LIFE:
            self._clear()

    def _clear(self) -> None:
        self._failures.clear()
        self._seen_at.clear()

    def _keep(self, failure: LogFailure) -> None:
        self._updates = 0
        if len(self._failures) >= _FAILURES_KEPT:
            # The first ones hold the cause, the last ones the scheduler's word.
            del self._failures[_FAILURES_KEPT // 2], self._seen_at[_FAILURES_KEPT // 2]
        self._failures.append(failure)
        self._seen_at.append(self._lines)

    def _forget_survived(self) -> None:
        oldest = self._lines - _SURVIVED_LINES
        kept = [
            (failure, at)
            for failure, at in zip(self._failures, self._seen_at, strict=True)
            if failure.reason != "traceback" or at > oldest
        ]
        self._failures = [failure for failure, _ in kept]
        self._seen_at = [at for _, at in kept]


def find_failures(fragments: Iterable[LogFragment]) -> list[LogFailure]:
    """Return what tells how a job ended, in the order of the log."""
    finder = FailureFinder()
    finder.feed(fragments)
    return list(finder.failures)


def most_telling(failures: Sequence[LogFailure]) -> LogFailure | None:
    """Return the failure that the others follow from; None of none.

    The scheduler's own word comes first, then memory, then a root cause that a signal ended. Of the rest the earliest:
    the processes that lose their peer complain later. Signals alone are what a failure elsewhere leads to.
    """
    ranked = min(enumerate(failures), key=lambda item: (_rank(item[1]), item[0]), default=None)
    return ranked[1] if ranked is not None else None


def _rank(failure: LogFailure) -> int:
    is_root_cause = failure.text.startswith(ROOT_CAUSE)
    if failure.reason in _SCHEDULERS_WORD:
        return 0
    if failure.reason in _CERTAIN:
        return 1
    if failure.reason == "sigkill" and is_root_cause:
        return 2
    if failure.reason in SIGNALS:
        return 4
    return 5 if is_root_cause else 3


def _message(text: str) -> str:
    """Return a line without the prefix of loguru or of vLLM's logger, which mark every line of a traceback."""
    message = loguru_message(text)
    if message is not None:
        return message
    prefix = _VLLM.match(text)
    return text[prefix.end() :] if prefix is not None else text


def _failure(reason: str, text: str, time: float | None) -> LogFailure:
    shown = _SECRET.sub("***", text[: 4 * _LONGEST_TEXT]).strip()
    return LogFailure(reason, shown if len(shown) <= _LONGEST_TEXT else f"{shown[: _LONGEST_TEXT - 1]}…", time)
