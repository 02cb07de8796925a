"""The report of one job from what its trials, logs and scheduler said. Times are seconds after `T0`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runwatch.config.model import Bucket, Labels, Trials
from runwatch.derive.history_digest import HistoryDigest
from runwatch.derive.job import measure_job
from runwatch.derive.job_view import HistoryView, JobView
from runwatch.derive.trials import summarise_trials
from runwatch.facts import (
    Failure,
    FailureReason,
    HistoryRow,
    HistoryRun,
    LogFacts,
    SchedulerFacts,
    SourceKind,
    TrialsFolder,
    TrialsUpdate,
)
from runwatch.fleet import Job
from runwatch.measurements import JobReport
from runwatch.parsing.log_records import LogFailure, TrialResult
from tests.unit.scheduler_stories import T0, view_of

MINUTE, HOUR = 60.0, 3600.0


def trial(
    at: float, reward: float | None = 1.0, turns: float | None = 5.0, exception: str = "", *, instant: bool = False
) -> TrialResult:
    """A trial that ended `at` seconds after `T0`; without turns its agent did not run."""
    return TrialResult(f"t{at}", reward, turns is not None, turns, exception, instant, T0 + at)


def folder(*results: TrialResult, **fields: object) -> TrialsFolder:
    """A job folder, its times after `T0` but for those of results."""
    made = TrialsFolder("job", tuple(results))
    return replace(made, **fields)  # type: ignore[arg-type]


def log(last_write: float, *failures: LogFailure, **fields: object) -> LogFacts:
    return LogFacts(("/logs/a.out",), last_write=T0 + last_write, failures=failures, **fields)  # type: ignore[arg-type]


def failure(reason: str, at: float | None = None, text: str = "it broke") -> LogFailure:
    return LogFailure(reason, text, None if at is None else T0 + at)


def report_of(
    *polls: tuple[float, SchedulerFacts],
    at: float,
    trials: Sequence[TrialsFolder] | None = None,
    chunks: Sequence[int] = (),
    logs: LogFacts | None = None,
    rewards: Sequence[float] | None = None,
    history: HistoryRun | None = None,
    bucket: Bucket = "eval",
    run: str = "tb2-qwen",
    site: str = "a",
    kind: str = "",
    target: int | None = None,
    labels: Mapping[str, str] | None = None,
    path: str = "/trials",
    tree_is_gone: bool = False,
    now: float | None = None,
) -> JobReport:
    """The report at `at` seconds after `T0`, when every source answered last.

    `rewards` are those of an RL job's steps, one a minute; `history` alone has a history without steps.
    """
    observed = {SourceKind.SCHEDULER: T0 + polls[-1][0]} if polls else {}
    summary = None
    failures: dict[SourceKind, tuple[Failure, ...]] = {}
    if trials is not None:
        summary = summarise_trials(TrialsUpdate(tuple(trials), chunks=tuple(chunks)))
        observed[SourceKind.TRIALS] = T0 + at
    if tree_is_gone:
        failures[SourceKind.TRIALS] = (Failure(FailureReason.NOT_FOUND, "it lists empty"),)
    if logs is not None:
        observed[SourceKind.LOG] = T0 + at
    seen: HistoryView | None = None
    if rewards is not None or history is not None:
        digest = HistoryDigest(is_rl=bucket == "rl")
        digest.add(
            HistoryRow(i, T0 + 60 * i, i, {"reward/avg_raw_reward": reward}) for i, reward in enumerate(rewards or ())
        )
        seen = HistoryView(history or HistoryRun(), digest.summary(), "test")
        observed[SourceKind.HISTORY] = T0 + at
    job = Job(
        run,
        bucket,
        site,
        kind=kind,
        scheduler="kubernetes" if polls else "",
        trials=Trials(path=path, target=target) if trials is not None else None,
        labels=Labels(**(labels or {})),  # type: ignore[arg-type]
    )
    view = JobView(
        job,
        history=seen,
        scheduler=view_of(*polls) if polls else None,
        trials=summary,
        log=logs,
        configured=dict.fromkeys(observed, T0),
        observed=observed,
        failures=failures,
    )
    return measure_job(view, T0 + (at if now is None else now), {})


def words_of(report: JobReport) -> dict[str, str]:
    return {verdict.word: verdict.text for verdict in report.verdicts}
