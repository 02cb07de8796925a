"""What stands in a table's cell, from a job's report. Text of upstreams is made printable here, and only here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from runwatch import thresholds
from runwatch.derive.observation import (
    blind_sources,
    is_asked,
)
from runwatch.derive.own_word import TRIAL_BUCKETS
from runwatch.figures import MISSING, integer, printable
from runwatch.measurements import JobReport

_UNMEASURED_RANK = len(thresholds.VERDICTS)
_RANKS: Mapping[str, int] = {word: rank for rank, word in enumerate(thresholds.VERDICTS)}
_WAITED_FOR = {"queued": "its turn in the queue", "bringup": "its first step"}
_FIRST_RESULT = "its first result"
_REASONS = {
    "dependency": "another job",
    "queue": "its turn in the queue",
    "capacity": "capacity",
    "quota": "quota",
    "image": "its image",
    "setup": "its setup",
    "weights": "its weights",
    "compile": "compilation",
    "buffer": "filling its buffer",
}

STEPS = ("mljob_step", "mljob_target_step")
RESULTS = ("mljob_trials", "mljob_trials_target")

IMPLIED: Mapping[str, str] = {"bringup": "bringup_stuck", "finishing": "zombie", "resuming": "not_resumed"}
"""Words that say nothing more where another holds, and that other."""


@dataclass(frozen=True, slots=True)
class View:
    """What a rendering adds to a report: the time, and whether sites are told apart."""

    now: float
    show_site: bool = False


def severity_rank(report: JobReport, view: View) -> int:
    """Return how bad a job is: the place of its worst verdict, 0 the worst. A job of which nothing is known is last."""
    words = [verdict.word for verdict in report.verdicts]
    if blind_sources(report, view.now):
        words.append("unobserved")
    return min((_RANKS[word] for word in words), default=_UNMEASURED_RANK)


def job_name(report: JobReport, view: View) -> str:
    """Return the job's name for people, with its site where there are several, and what its table adds to it.

    That is how rewards are shaped (RL), the row in the tracker (datagen), the kind (eval).
    """
    name = printable(report.run)
    if view.show_site:
        name += f" ({printable(report.site)})"
    if report.bucket == "rl":
        name += {"on": " (shaped)", "off": " (base)"}.get(report.info.get("shaping", ""), "")
    if report.bucket == "datagen" and (row := report.info.get("tracker_row", "")):
        name += f" (tracker row #{printable(row)})"
    if report.bucket == "eval" and (kind := report.info.get("kind", "")):
        name += f" ({printable(kind)})"
    return name


def trend(report: JobReport, view: View) -> str:
    """Return what matters most now, in words, worst first, and which sources are blind now.

    A blind source takes the word "stable" away: nobody knows.
    """
    return _joined(_said(report, view))


def _joined(texts: Iterable[str]) -> str:
    return printable("; ".join(texts)) or MISSING


def _said(report: JobReport, view: View, *, without: Collection[str] = ()) -> list[str]:
    """Return the texts of the Trend column, worst first, those of some verdicts left out."""
    found = blind_sources(report, view.now)
    blind = ", ".join(blindness.text for blindness in found)
    words = {verdict.word for verdict in report.verdicts}
    ranked = [
        (_RANKS[verdict.word], verdict.text)
        for verdict in report.verdicts
        if verdict.word != "unobserved"
        and not (blind and verdict.word == "stable")
        and verdict.word not in without
        and IMPLIED.get(verdict.word) not in words
    ]
    if blind:
        ranked.append((_RANKS["unobserved"], blind))
    texts = without_repeats(text for _, text in sorted(ranked))
    unread = _not_read_yet(report, frozenset(blindness.source for blindness in found))
    texts += [f"{source} not read yet" for source in unread]
    if not any(True for _ in report.measurements.names()):
        texts.append("nothing measured yet")
    return texts


def without_repeats(texts: Iterable[str]) -> list[str]:
    """Leave out what an earlier text has said already, as a collapse says its signals."""
    kept: list[str] = []
    for text in texts:
        if not any(text in said for said in kept):
            kept.append(text)
    return kept


def _not_read_yet(report: JobReport, blind: frozenset[str]) -> list[str]:
    """Return the sources that are asked and have not answered yet, but not for so long that they count as blind."""
    if not is_asked(report.measurements):
        return []
    answered = report.measurements.family("mljob_observed_timestamp_seconds")
    asked = report.measurements.family("mljob_source_configured_timestamp_seconds")
    return [source for (source,) in sorted(asked) if (source,) not in answered and source not in blind]


def waits_for(report: JobReport, view: View) -> str:
    """Return what a job without a step waits for, as far as it is known, and what is wrong with it."""
    words = {verdict.word for verdict in report.verdicts}
    plain = next((word for word in _WAITED_FOR if word in words), None)
    awaited = _REASONS.get(report.measurements.one_hot("mljob_waiting") or "")
    if awaited is None and plain is not None:
        makes_results = report.bucket in TRIAL_BUCKETS and plain == "bringup"
        awaited = _FIRST_RESULT if makes_results else _WAITED_FOR[plain]
    if awaited is None or "unknown" in words:  # then nobody knows whether it waits
        return trend(report, view)
    return _joined([awaited, *_said(report, view, without=_WAITED_FOR)])


def step_of_target(report: JobReport, names: tuple[str, str] = STEPS) -> str:
    """Return `320/916`; `—` for the part that is not measured, and one alone where neither is.

    Args:
        report: The job.
        names: The metrics of the two parts.
    """
    step, target = (report.measurements.get(name) for name in names)
    if step is None and target is None:
        return MISSING
    return f"{MISSING if step is None else integer(step)}/{MISSING if target is None else integer(target)}"


def percent_of_target(report: JobReport, names: tuple[str, str] = STEPS) -> float | None:
    """Return the step (or result) as percent of the target, or None where either is not measured."""
    step, target = (report.measurements.get(name) for name in names)
    return None if step is None or target is None or target <= 0 else 100 * step / target


def gap_totals(report: JobReport) -> tuple[float, float] | None:
    """Return count and seconds of the closed gaps of every cause together; None where they were not measured."""
    counts = report.measurements.family("mljob_gaps")
    seconds = report.measurements.family("mljob_gap_seconds")
    if not counts or not seconds:
        return None
    return sum(counts.values()), sum(seconds.values())


def preemptions_text(report: JobReport) -> str:
    """Return the gang interruptions by preemption; where attempts are not known the scheduler's sum, marked `*`."""
    events = report.measurements.get("mljob_interruptions", cause="preemption")
    if events is not None:
        return integer(events)
    counted = report.measurements.get("mljob_preemptions")
    return MISSING if counted is None else f"{integer(counted)}*"
