"""What `squeue`, `sacct` and `scontrol` print, read into records.

The text formats are used, for they read alike from 21.08 to 25.11, while the JSON changed with nearly each version. A
job's name, folder and comment are anybody's text and may hold any character, line breaks too. So squeue and sacct are
given a separator made anew for each call, which such text cannot hold, and `scontrol show job -o`, which takes none,
is read by the order of its keys; a record that two blocks claim to be is left out.

Run for real against 22.05.8; the shapes of other versions are those of SchedMD's manuals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from runwatch.parsing.slurm_ids import Dependency, JobId, parse_dependencies, parse_job_id
from runwatch.parsing.slurm_states import meaning, parse_exit, state_word
from runwatch.parsing.slurm_times import parse_duration, parse_span, parse_time

QUEUE_FIELDS = ("%i", "%T", "%M", "%E", "%r", "%V", "%S", "%e", "%u", "%N", "%Z", "%j")
"""squeue: id, state, time used, dependency, reason, submit, start, end, user, nodes, working directory, name."""

ACCOUNTING_FIELDS = (
    "jobid", "state", "exitcode", "derivedexitcode", "elapsedraw", "submit", "start", "end", "user", "nodelist",
    "workdir", "jobname", "submitline",
)  # fmt: skip
"""sacct: all are known to 21.08 and later; one that is not known would fail the whole command."""


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """One line of squeue. Times are Unix seconds; `started` and `ended` are None before they have come.

    Of a job that is being requeued `ended` is the end of the attempt before. `start_offset` is by how many seconds a
    running job started later than the time tells for which it has run; about 0, unless its zone is not the site's or it
    was suspended. `suspended_before` is when a running job was seen to have been suspended at some time before.
    """

    id: JobId
    word: str
    name: str
    user: str
    workdir: str
    reason: str
    dependencies: tuple[Dependency, ...]
    submitted: float | None
    started: float | None
    ended: float | None
    start_offset: float | None = None
    suspended_before: float | None = None


@dataclass(frozen=True, slots=True)
class AccountingRow:
    """One row of sacct: one start of one job or task, for a requeued job has a row for each.

    `was_suspended` tells that it ran for less than the time between its start and its end.
    """

    id: JobId
    word: str
    name: str
    user: str
    workdir: str
    submit_line: str
    exited: tuple[int, int] | None
    derived: tuple[int, int] | None
    submitted: float | None
    started: float | None
    ended: float | None
    was_suspended: bool = False


@dataclass(frozen=True, slots=True)
class JobDetail:
    """What only scontrol tells of one job or task. `accelerators` and `accelerator_type` are None, "" without any."""

    key: str
    word: str
    exited: tuple[int, int] | None
    restarts: int
    log_path: str
    accelerators: int | None
    accelerator_type: str


def _fields(text: str, separator: str, width: int) -> tuple[list[list[str]], int]:
    """Cut text into records of fields that each end with the separator, and count what is no whole record."""
    parts = text.split(separator)
    whole = (len(parts) - 1) // width
    cut = len(parts) - 1 != whole * width or bool(parts[-1].strip())
    return [parts[i * width : (i + 1) * width] for i in range(whole)], int(cut)


_NOT_STARTED = frozenset({"PENDING", "RESV_DEL_HOLD", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""States in which squeue's start is a forecast."""


_MAY_END_WHILE_WAITING = frozenset({"CANCELLED", "DEADLINE"})
"""States of a job that may never have started: then it has no nodes."""


_SUSPENDED_SECONDS = 120.0
"""A job that ran for so much less than the time since its start was suspended, or two clocks are apart."""


def _id(field: str) -> JobId | None:
    # What a login shell printed before the first record, or the line break behind the last one.
    return parse_job_id(field.rsplit("\n", 1)[-1])


def parse_queue(
    text: str, separator: str, zone: ZoneInfo, now: float, known: dict[tuple[str, ...], QueueRecord] | None = None
) -> tuple[list[QueueRecord], int]:
    """Read what squeue printed.

    Args:
        text: Its output, each of `QUEUE_FIELDS` followed by the separator.
        separator: Text that no field holds.
        zone: Zone of its times.
        now: Unix seconds when it was asked.
        known: Records of the last listing by their fields, which are taken over where nothing but the time used has
            changed; brought up to date. A site has ten thousands of jobs, and few change between two polls.

    Returns:
        The records, and how many could not be read.
    """
    rows, malformed = _fields(text, separator, len(QUEUE_FIELDS))
    before = {} if known is None else dict(known)
    records: dict[tuple[str, ...], QueueRecord] = {}
    for row in rows:
        row[0] = row[0].rsplit("\n", 1)[-1]
        fields = (*row[:2], *row[3:])
        record = before.get(fields) or _queue_record(row, zone, now)
        if record is None:
            malformed += 1
            continue
        records[fields] = record
    if known is not None:
        known.clear()
        known.update(records)
    return list(records.values()), malformed


def _queue_record(row: Sequence[str], zone: ZoneInfo, now: float) -> QueueRecord | None:
    text, state, used, dependency, reason, submit, start, end, user, nodes, workdir, name = row
    job = parse_job_id(text)
    if job is None:
        return None
    word = state_word(state)
    elapsed = parse_duration(used)
    submitted, started, ended = parse_span(
        submit, "" if word in _NOT_STARTED else start, end, elapsed, zone, ended=meaning(word).terminal, now=now
    )
    if word in _MAY_END_WHILE_WAITING and not nodes.strip("() "):
        started = None  # ended while it waited: squeue gives the end as its start
    if word == "COMPLETING" and parse_time(end, zone) is None:
        # It is being requeued: its start is the time of that, and only a job that is to go on has no end.
        word, started, ended = "REQUEUED", None, started
    offset = None
    if word == "RUNNING" and started is not None and elapsed is not None:
        offset = started - (now - elapsed)
    suspended_before = now if offset is not None and -offset > _SUSPENDED_SECONDS else None
    return QueueRecord(
        id=job,
        word=word,
        name=name,
        user=user,
        workdir=workdir,
        reason=reason,
        dependencies=parse_dependencies(dependency),
        submitted=submitted,
        started=started,
        ended=ended,
        start_offset=offset,
        suspended_before=suspended_before,
    )


def parse_accounting(text: str, separator: str, zone: ZoneInfo, now: float) -> tuple[list[AccountingRow], int]:
    """Read what `sacct --parsable --delimiter=<separator>` printed; see `parse_queue`."""
    rows, malformed = _fields(text, separator, len(ACCOUNTING_FIELDS))
    records: list[AccountingRow] = []
    for row in rows:
        job = _id(row[0])
        if job is None:
            malformed += 1
            continue
        _, state, exited, derived, used, submit, start, end, user, nodes, workdir, name, submit_line = row
        word = state_word(state)
        elapsed = float(used) if used.isascii() and used.isdigit() else None
        # A row that was requeued has an end too, though the job goes on.
        ended = meaning(word).terminal or word.startswith("REQUEUE")
        if word in _MAY_END_WHILE_WAITING and nodes in {"", "None assigned"}:
            start = ""  # as in squeue; of a held job sacct gives the end as its start
        submitted, started, ended_at = parse_span(submit, start, end, elapsed, zone, ended=ended, now=now)
        records.append(
            AccountingRow(
                job,
                word,
                name,
                user,
                workdir,
                submit_line,
                parse_exit(exited),
                parse_exit(derived),
                submitted,
                started,
                ended_at,
                _was_suspended(started, ended_at, elapsed),
            )
        )
    return records, malformed


def _was_suspended(started: float | None, ended: float | None, elapsed: float | None) -> bool:
    if started is None or ended is None or elapsed is None:
        return False
    return ended - started - elapsed > _SUSPENDED_SECONDS


_RECORD = re.compile(
    r"^JobId=(\d+) (?:ArrayJobId=(\d+) (?:ArrayTaskId=(\S+) )?(?:ArrayTaskThrottle=\d+ )?)?"
    r"(?:HetJobId=(\d+) HetJobOffset=(\d+) )?(?=JobName=)",
    re.MULTILINE,
)
_STATE = re.compile(
    r" JobState=(\S+) Reason=.*? Dependency=\S* (?:Requeue=\d+ )?Restarts=(\d+) .*?(?<= )ExitCode=(\d+:\d+)", re.DOTALL
)
_BEHIND_STDOUT = r"Power|Tres\w+|Cpus?PerTres|MemPerTres|Ntasks\w*|Mail\w+|Switches|OOMKillStep|Segment\w*"
_STDOUT = re.compile(rf".* StdOut=(?P<path>.*?)(?: (?:{_BEHIND_STDOUT})[=:].*)?\s*\Z", re.DOTALL)
_TRES = re.compile(r" (AllocTRES|TRES|ReqTRES)=(\S*)")
_GPU = re.compile(r"(?:^|,)gres/gpu(?::([^=,]+))?=(\d+)")


def parse_details(text: str, job: str | None = None) -> dict[str, JobDetail]:
    """Read `scontrol show job -o`, by the key of each job or array task.

    Args:
        text: Its output.
        job: The id that was asked for, the only one that a record can be of; None where all jobs were.

    Returns:
        Of an array's tasks that wait none: scontrol gives a made-up log path for them. A key that occurs twice is left
        out: one of the two may be text that a job's name holds.
    """
    starts = [match for match in _RECORD.finditer(text) if job is None or job in match.group(1, 2, 4)]
    bounds = [*(match.start() for match in starts), len(text)][1:]
    read = [
        detail
        for match, end in zip(starts, bounds, strict=True)
        if (detail := _detail(match, text[match.start() : end])) is not None
    ]
    seen = Counter(detail.key for detail in read)
    return _with_components({detail.key: detail for detail in read if seen[detail.key] == 1})


def _with_components(details: dict[str, JobDetail]) -> dict[str, JobDetail]:
    """Give a heterogeneous job, which its first component stands for, the accelerators of them all."""
    whole: dict[str, JobDetail] = {}
    for key, detail in sorted(details.items(), key=lambda item: "+" in item[0]):
        base, is_component, _ = key.partition("+")
        first = whole.get(base)
        if not is_component:
            whole[key] = detail
        elif first is not None and detail.accelerators is not None:
            same = first.accelerators is None or first.accelerator_type == detail.accelerator_type
            whole[base] = replace(
                first,
                accelerators=(first.accelerators or 0) + detail.accelerators,
                accelerator_type=detail.accelerator_type if same else "",
            )
    return whole


def _detail(match: re.Match[str], record: str) -> JobDetail | None:
    job, array, task, heterogeneous, component = match.groups()
    state = _STATE.search(record)
    if state is None or (array is not None and (task is None or not task.isdigit())):
        return None
    stdout = _STDOUT.match(record)
    count, kind = _accelerators(record)
    return JobDetail(
        key=f"{heterogeneous}+{component}" if int(component or 0) else job if array is None else f"{array}_{task}",
        word=state_word(state[1]),
        exited=parse_exit(state[3]),
        restarts=int(state[2]),
        log_path="" if stdout is None or stdout["path"] == "(null)" else stdout["path"],
        accelerators=count,
        accelerator_type=kind,
    )


def _accelerators(record: str) -> tuple[int | None, str]:
    listed = dict(_TRES.findall(record))
    text = next((listed[key] for key in ("AllocTRES", "TRES", "ReqTRES") if "gres/gpu" in listed.get(key, "")), "")
    found = {kind: int(count) for kind, count in _GPU.findall(text)}
    if not found:
        return None, ""
    kinds = sorted(kind for kind in found if kind)
    return found.get("", sum(found.values())), kinds[0] if len(kinds) == 1 else ""
