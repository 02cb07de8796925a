"""When the next request to W&B may go out: the shared budget a minute, `Retry-After`, and backoff after failures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

from runwatch.facts import Failure, FailureReason

FIRST_DELAY_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 300.0
LONGEST_RETRY_AFTER_SECONDS = 3600.0
"""A server's `Retry-After` beyond this is cut: a typing error upstream must not blind the exporter for days."""


def backoff_seconds(failures: int, first: float = FIRST_DELAY_SECONDS, longest: float = LONGEST_DELAY_SECONDS) -> float:
    """How long to wait after so many failures in a row: doubling, up to the longest."""
    if failures <= 0:
        return 0.0
    return float(min(longest, first * 2.0 ** min(failures - 1, 30)))


def retry_after_seconds(header: str | None, now: float) -> float | None:
    """Read a `Retry-After` header: seconds or an HTTP date (RFC 9110, section 10.2.3).

    Args:
        header: The header's value, None where there is none.
        now: Unix seconds, what a date is compared with.

    Returns:
        Seconds from now, 0 or more; None where the header is missing or cannot be read.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_RETRY_AFTER_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - now), LONGEST_RETRY_AFTER_SECONDS)


class RequestBudget:
    """A bucket of requests that fills steadily. Used from one thread.

    Args:
        requests_per_minute: The bucket's size, and how much flows in within a minute.
        clock: Unix seconds.
    """

    def __init__(self, requests_per_minute: int, clock: Callable[[], float]) -> None:
        self._size = float(requests_per_minute)
        self._clock = clock
        self._left = self._size
        self._filled_at = clock()

    def _fill(self) -> None:
        now = self._clock()
        # A clock that was set back gives nothing, and takes nothing away.
        elapsed = max(0.0, now - self._filled_at)
        self._filled_at = now
        self._left = min(self._size, self._left + elapsed * self._size / 60.0)

    def take(self) -> bool:
        """Take one request out of the bucket, if there is one."""
        self._fill()
        # Sums of fractions: a minute's worth of them must count as full.
        if self._left < 1.0 - 1e-6:
            return False
        self._left -= 1.0
        return True

    def seconds_until_next(self) -> float:
        """How long until `take` gives a request."""
        self._fill()
        return max(0.0, (1.0 - self._left) * 60.0 / self._size)


class Backoff:
    """Whether to ask at all, after failures: of the whole service, of a login, or of one run."""

    def __init__(
        self,
        clock: Callable[[], float],
        first: float = FIRST_DELAY_SECONDS,
        longest: float = LONGEST_DELAY_SECONDS,
    ) -> None:
        self._clock, self._first, self._longest = clock, first, longest
        self._failures = 0
        self._until = 0.0
        self._since = 0.0
        self._failure: Failure | None = None

    def failed(self, failure: Failure, retry_after: float | None = None) -> None:
        """Note a failure; `retry_after` (seconds) is what the server asked for, and is kept in any case."""
        self._failures += 1
        delay = backoff_seconds(self._failures, self._first, self._longest)
        if retry_after is not None:
            delay = retry_after
        self._since = self._clock()
        self._until = self._since + delay
        self._failure = failure

    def succeeded(self) -> None:
        """Forget all failures."""
        self._failures, self._until, self._failure = 0, 0.0, None

    def now(self) -> Failure | None:
        """The failure to give without asking, while it is too early to ask again; else None."""
        moment = self._clock()
        # A clock set back must not prolong the wait beyond what was meant.
        if self._failure is None or moment >= self._until or moment < self._since:
            return None
        waits = f"; asked again in {self._until - moment:.0f} s"
        return Failure(self._failure.reason, self._failure.detail.split("; asked again in ")[0] + waits)


def budget_spent(requests_per_minute: int) -> Failure:
    """The failure of a job whose turn did not come within the budget."""
    return Failure(
        FailureReason.THROTTLED,
        f"wandb.requests_per_minute ({requests_per_minute}) is used up; this job's turn comes in a later poll",
    )
