"""What stands in a table's cell, from a job's report. Text of upstreams is made printable here, and only here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from runwatch import thresholds
from runwatch.derive.observation import (
    NO_INTERVALS,
    Intervals,
    blind_sources,
    has_ended,
    latest_answer,
    observed,
)
from runwatch.facts import SourceKind
from runwatch.figures import MISSING, duration, fixed, integer, percent, printable, utc, whole
from runwatch.measurements import JobReport
from runwatch.report.columns import CellFormat, Column

_UNMEASURED_RANK = len(thresholds.VERDICTS)
_RANKS: Mapping[str, int] = {word: rank for rank, word in enumerate(thresholds.VERDICTS)}
_WAITED_FOR = {"bringup": "its first step", "queued": "its turn in the queue"}

IMPLIED: Mapping[str, str] = {"bringup": "bringup_stuck", "finishing": "zombie"}
"""Words that say nothing more where another holds, and that other."""


@dataclass(frozen=True, slots=True)
class View:
    """What a rendering adds to a report: the time, how often sources are polled, and whether sites are told apart."""

    now: float
    intervals: Intervals = field(default_factory=lambda: NO_INTERVALS)
    show_site: bool = False


def cell(report: JobReport, column: Column, view: View) -> str:
    """Return the text of one cell; `—` for what is not measured."""
    return _FORMATS[column.format](report, column, view)


def severity_rank(report: JobReport, view: View) -> int:
    """Return how bad a job is: the place of its worst verdict, 0 the worst. A job of which nothing is known is last."""
    words = [verdict.word for verdict in report.verdicts]
    if blind_sources(report.measurements, view.now, view.intervals):
        words.append("unobserved")
    return min((_RANKS[word] for word in words), default=_UNMEASURED_RANK)


def job_name(report: JobReport, view: View) -> str:
    """Return the job's name for people, with its site where there are several, and how its rewards are shaped."""
    name = printable(report.run)
    if view.show_site:
        name += f" ({printable(report.site)})"
    if report.bucket == "rl":
        name += {"on": " (shaped)", "off": " (base)"}.get(report.info.get("shaping", ""), "")
    return name


def trend(report: JobReport, view: View) -> str:
    """Return what matters most now, in words, worst first, and which sources are blind now.

    A blind source takes the word "stable" away: nobody knows.
    """
    found = blind_sources(report.measurements, view.now, view.intervals)
    blind = ", ".join(blindness.text for blindness in found)
    words = {verdict.word for verdict in report.verdicts}
    ranked = [
        (_RANKS[verdict.word], verdict.text)
        for verdict in report.verdicts
        if verdict.word != "unobserved"
        and not (blind and verdict.word == "stable")
        and IMPLIED.get(verdict.word) not in words
    ]
    if blind:
        ranked.append((_RANKS["unobserved"], blind))
    texts = without_repeats(text for _, text in sorted(ranked))
    unread = _not_read_yet(report, frozenset(blindness.source for blindness in found))
    texts += [f"{source} not read yet" for source in unread]
    if not any(True for _ in report.measurements.names()):
        texts.append("nothing measured yet")
    return printable("; ".join(texts)) or MISSING


def without_repeats(texts: Iterable[str]) -> list[str]:
    """Leave out what an earlier text has said already, as a collapse says its signals."""
    kept: list[str] = []
    for text in texts:
        if not any(text in said for said in kept):
            kept.append(text)
    return kept


def _not_read_yet(report: JobReport, blind: frozenset[str]) -> list[str]:
    """Return the sources that are asked and have not answered yet, but not for so long that they count as blind."""
    if has_ended(report.measurements):
        return []
    answered = report.measurements.family("mljob_observed_timestamp_seconds")
    asked = report.measurements.family("mljob_source_configured_timestamp_seconds")
    return [source for (source,) in sorted(asked) if (source,) not in answered and source not in blind]


def waits_for(report: JobReport, view: View) -> str:
    """Return what a job without a step waits for, as far as it is known, and what is wrong with it."""
    said = trend(report, view)
    alone = [verdict for verdict in report.verdicts if verdict.text == said]
    return _WAITED_FOR.get(alone[0].word, said) if alone else said


def step_of_target(report: JobReport) -> str:
    """Return `320/916`; `—` for the part that is not measured, and one alone where neither is."""
    step, target = report.measurements.get("mljob_step"), report.measurements.get("mljob_target_step")
    if step is None and target is None:
        return MISSING
    return f"{MISSING if step is None else integer(step)}/{MISSING if target is None else integer(target)}"


def percent_of_target(report: JobReport) -> float | None:
    """Return the step as percent of the target, or None where either is not measured."""
    step, target = report.measurements.get("mljob_step"), report.measurements.get("mljob_target_step")
    return None if step is None or target is None or target <= 0 else 100 * step / target


def gap_totals(report: JobReport) -> tuple[float, float, float] | None:
    """Return count and seconds of the closed gaps of every cause, and how many nothing explains; None if unmeasured."""
    counts = report.measurements.family("mljob_gaps")
    seconds = report.measurements.family("mljob_gap_seconds")
    if not counts or not seconds:
        return None
    return sum(counts.values()), sum(seconds.values()), counts.get(("unexplained",), 0.0)


def _name(report: JobReport, _column: Column, view: View) -> str:
    return job_name(report, view)


def _bucket(report: JobReport, _column: Column, _view: View) -> str:
    return printable(report.bucket)


def _state(report: JobReport, column: Column, _view: View) -> str:
    return report.measurements.one_hot(column.metrics[0]) or MISSING


def _step(report: JobReport, _column: Column, _view: View) -> str:
    return step_of_target(report)


def _value(report: JobReport, column: Column) -> float | None:
    return report.measurements.get(column.metrics[0], **dict(column.labels))


def _fixed(report: JobReport, column: Column, _view: View) -> str:
    value = _value(report, column)
    return MISSING if value is None else fixed(value, column.decimals)


def _fixed_of_largest_n(report: JobReport, column: Column, _view: View) -> str:
    series = report.measurements.family(column.metrics[0])
    if not series:
        return MISSING
    return fixed(series[max(series, key=largest_n)], column.decimals)


def largest_n(labels: tuple[str, ...]) -> tuple[int, str]:
    """Order the label values of a metric by `n`, as numbers where they are."""
    text = labels[0]
    return (int(text) if text.isascii() and text.isdigit() else -1, text)


def _whole(report: JobReport, column: Column, _view: View) -> str:
    value = _value(report, column)
    return MISSING if value is None else whole(value)


def _percent(report: JobReport, column: Column, _view: View) -> str:
    value = _value(report, column)
    return MISSING if value is None else percent(value, column.decimals)


def _duration(report: JobReport, column: Column, _view: View) -> str:
    value = _value(report, column)
    return MISSING if value is None or has_ended(report.measurements) else duration(value)


def _preemptions(_report: JobReport, _column: Column, _view: View) -> str:
    return MISSING


def _gaps(report: JobReport, _column: Column, _view: View) -> str:
    totals = gap_totals(report)
    if totals is None:
        return MISSING
    count, seconds, unexplained = totals
    suffix = f", {integer(unexplained)} unexplained" if unexplained else ""
    return f"{integer(count)} / {seconds / thresholds.HOUR:.2f} h{suffix}"


def _checkpoint(report: JobReport, _column: Column, _view: View) -> str:
    step = report.measurements.get("mljob_checkpoint_step")
    if step is None:
        return _no_checkpoint(report)
    parts = [integer(step)]
    lag = report.measurements.get("mljob_checkpoint_lag_steps")
    if lag is not None:
        parts.append(f"lag {integer(lag)}")
    saved = report.measurements.get("mljob_checkpoint_timestamp_seconds")
    seen = observed(report.measurements, SourceKind.CHECKPOINTS)
    if saved is not None and seen is not None:
        parts.append(f"{duration(max(0.0, seen - saved))} old")
    return ", ".join(parts)


def _no_checkpoint(report: JobReport) -> str:
    if report.measurements.get("mljob_checkpoints", completeness="complete") != 0:
        return MISSING
    partial = report.measurements.get("mljob_checkpoints", completeness="partial")
    return f"none ({integer(partial)} partial)" if partial else "none"


def _since(report: JobReport, column: Column, _view: View) -> str:
    started = report.measurements.get(column.metrics[0])
    if started is None:
        return MISSING
    seen = latest_answer(report.measurements)
    return utc(started) if seen is None else f"{utc(started)}, {duration(max(0.0, seen - started))}"


def _elapsed(report: JobReport, column: Column, _view: View) -> str:
    started, ended = (report.measurements.get(name) for name in column.metrics)
    end = ended if ended is not None or has_ended(report.measurements) else latest_answer(report.measurements)
    return MISSING if started is None or end is None else duration(max(0.0, end - started))


def _waiting(report: JobReport, _column: Column, view: View) -> str:
    return waits_for(report, view)


def _trend(report: JobReport, _column: Column, view: View) -> str:
    return trend(report, view)


_FORMATS: dict[CellFormat, Callable[[JobReport, Column, View], str]] = {
    CellFormat.NAME: _name,
    CellFormat.BUCKET: _bucket,
    CellFormat.STATE: _state,
    CellFormat.STEP_OF_TARGET: _step,
    CellFormat.FIXED: _fixed,
    CellFormat.FIXED_OF_LARGEST_N: _fixed_of_largest_n,
    CellFormat.WHOLE: _whole,
    CellFormat.PERCENT: _percent,
    CellFormat.DURATION: _duration,
    CellFormat.PREEMPTIONS: _preemptions,
    CellFormat.GAPS: _gaps,
    CellFormat.CHECKPOINT: _checkpoint,
    CellFormat.SINCE: _since,
    CellFormat.ELAPSED: _elapsed,
    CellFormat.WAITING: _waiting,
    CellFormat.TREND: _trend,
}
