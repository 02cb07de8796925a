"""The questions that a SLURM site is asked, and their answers as records."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from runwatch.facts import Failure, FailureReason
from runwatch.parsing.slurm_text import (
    ACCOUNTING_FIELDS,
    QUEUE_FIELDS,
    AccountingRow,
    JobDetail,
    QueueRecord,
    parse_accounting,
    parse_details,
    parse_queue,
)
from runwatch.sources.slurm_commands import SlurmCommands, failed, first_line, new_separator

IDS_A_CALL = 200
"""How many ids or names one sacct is asked for: the argument stays far below what a system takes."""

_SEARCH_HOURS = (1440, 336, 72, 24, 6, 1)
"""How far a search for a name goes back; where a site allows a user no such range (`MaxQueryTimeRange`), less."""

_TOO_WIDE = re.compile(r"too wide of a date range", re.IGNORECASE)
_NO_SUCH_JOB = re.compile(r"invalid job id", re.IGNORECASE)
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled|accounting_storage/none", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NoAccounting:
    """The site keeps no accounting: nothing can be said of a job that squeue shows no more."""

    detail: str


class SlurmQueries:
    """Asks squeue, scontrol and sacct of one site."""

    def __init__(self, commands: SlurmCommands, zone: ZoneInfo) -> None:
        self._commands = commands
        self._zone = zone
        self._last_listing: dict[tuple[str, ...], QueueRecord] = {}
        self._search_hours: tuple[int, ...] = _SEARCH_HOURS

    def queue(self, now: float, seconds: float) -> tuple[list[QueueRecord], int] | Failure:
        """List every job that the controller still knows, ended ones too, and count what could not be read."""
        separator = new_separator()
        fields = separator.join(QUEUE_FIELDS) + separator
        # Without `--all` the jobs in a hidden partition are left out, those of the user that asks as well.
        output = self._commands.run(["squeue", "--all", "--noheader", "--states=all", f"--format={fields}"], seconds)
        if isinstance(output, Failure):
            return output
        failure = failed("squeue", output)
        if failure is not None:
            return failure
        records, malformed = parse_queue(output.text, separator, self._zone, now, self._last_listing)
        if not records and output.text.strip():
            return Failure(FailureReason.PARSE, f"squeue printed no table: {first_line(output.text)}")
        return records, malformed

    def detail(self, job: str | None, seconds: float) -> dict[str, JobDetail] | Failure:
        """Ask scontrol for one job with all its tasks, or for all jobs; {} where it has no such job (any more)."""
        output = self._commands.run(["scontrol", "--all", "show", "job", "-o", *([job] if job else [])], seconds)
        if isinstance(output, Failure):
            return output
        if output.returncode != 0 and _NO_SUCH_JOB.search(output.errors):
            return {}
        failure = failed("scontrol", output)
        return failure if failure is not None else parse_details(output.text, job)

    def accounting(
        self, jobs: Sequence[str], now: float, seconds: float
    ) -> tuple[list[AccountingRow], int] | Failure | NoAccounting:
        """Ask sacct for every start of the jobs with these ids, and count what could not be read."""
        return self._sacct([f"--jobs={','.join(jobs)}"], now, seconds)

    def accounting_of_names(
        self, names: Sequence[str], now: float, seconds: float
    ) -> tuple[list[AccountingRow], int] | Failure | NoAccounting:
        """Ask sacct for every start within the last 60 days of the jobs with these names (see `may_search`).

        Where the site allows no such range, within the longest of some shorter ones that it does allow.
        """
        until = time.monotonic() + seconds
        while True:
            range_ = f"--starttime=now-{self._search_hours[0]}hours"
            answer = self._sacct(
                ["--allusers", f"--name={','.join(names)}", range_], now, max(0.0, until - time.monotonic())
            )
            too_wide = isinstance(answer, Failure) and _TOO_WIDE.search(answer.detail) is not None
            if not too_wide or len(self._search_hours) == 1:
                return answer
            self._search_hours = self._search_hours[1:]

    def may_search(self, name: str) -> bool:
        """Tell whether sacct can be asked for a name: it takes a list with commas between."""
        return "," not in name and self._commands.may_pass(name)

    def _sacct(
        self, what: Sequence[str], now: float, seconds: float
    ) -> tuple[list[AccountingRow], int] | Failure | NoAccounting:
        separator = new_separator()
        output = self._commands.run(
            [
                "sacct",
                "--noheader",
                "--parsable",
                "--allocations",
                "--duplicates",
                f"--delimiter={separator}",
                f"--format={','.join(ACCOUNTING_FIELDS)}",
                *what,
            ],
            seconds,
        )
        if isinstance(output, Failure):
            return output
        if output.returncode != 0 and _NO_ACCOUNTING.search(output.errors + output.text):
            return NoAccounting(first_line(output.errors) or first_line(output.text))
        failure = failed("sacct", output)
        if failure is not None:
            return failure
        return parse_accounting(output.text, separator, self._zone, now)
