"""How each column's cells are made from a job's report: one function a format."""

from __future__ import annotations

from collections.abc import Callable

from runwatch import thresholds
from runwatch.catalogue import GAP_CAUSES
from runwatch.derive.observation import has_ended, latest_answer, observed
from runwatch.facts import SourceKind
from runwatch.figures import MISSING, duration, fixed, integer, percent, printable, utc, whole
from runwatch.measurements import JobReport
from runwatch.report.cells import (
    RESULTS,
    View,
    gap_totals,
    job_name,
    preemptions_text,
    step_of_target,
    trend,
    waits_for,
)
from runwatch.report.columns import CellFormat, Column

_CHECKS = ("tunnel", "engine", "progress")
_MARKS = {1.0: "✓", 0.0: "✗"}


def cell(report: JobReport, column: Column, view: View) -> str:
    """Return the text of one cell; `—` for what is not measured."""
    return _FORMATS[column.format](report, column, view)


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


def _preemptions(report: JobReport, _column: Column, _view: View) -> str:
    return preemptions_text(report)


def _gaps(report: JobReport, _column: Column, _view: View) -> str:
    totals = gap_totals(report)
    if totals is None:
        return MISSING
    count, seconds = totals
    counts = report.measurements.family("mljob_gaps")
    named = [(cause, counts.get((cause,), 0.0)) for cause in GAP_CAUSES if cause != "unknown"]
    causes = "".join(f", {integer(number)} {cause}" for cause, number in named if number)
    return f"{integer(count)} / {seconds / thresholds.HOUR:.2f} h{causes}"


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


def _kind(report: JobReport, _column: Column, _view: View) -> str:
    return printable(report.info.get("kind", "")) or MISSING


def _trials(report: JobReport, _column: Column, _view: View) -> str:
    return step_of_target(report, RESULTS)


def _chunks(report: JobReport, column: Column, _view: View) -> str:
    states = report.measurements.family(column.metrics[0])
    if not states:
        return MISSING
    done = states.get(("done",), 0.0)
    others = [(word, states.get((word,), 0.0)) for word in ("running", "hung", "failed")]
    told = "".join(f", {integer(count)} {word}" for word, count in others if count)
    return f"{integer(done)}/{integer(sum(states.values()))} done{told}"


def _top_exception(report: JobReport, column: Column, _view: View) -> str:
    counts = report.measurements.family(column.metrics[0])
    if not counts:
        return "none" if report.measurements.get(column.metrics[1]) == 0 else MISSING
    (name,), count = min(counts.items(), key=lambda item: (item[0] == ("other",), -item[1], item[0]))
    return f"{printable(name)} ({integer(count)})"


def _infrastructure(report: JobReport, column: Column, _view: View) -> str:
    """Write the launch checks; the address that sandboxes are given only where it is wrong."""
    seen = {check: report.measurements.get(column.metrics[0], check=check) for check in (*_CHECKS, "api_base")}
    if all(value is None for value in seen.values()):
        return MISSING
    shown = _CHECKS if seen["api_base"] != 0 else (*_CHECKS, "api_base")
    return ", ".join(f"{check} {MISSING if (value := seen[check]) is None else _MARKS[value]}" for check in shown)


def _note(report: JobReport, _column: Column, view: View) -> str:
    """Write what people noted, before what is known; that nothing is wrong adds nothing to it."""
    noted = [printable(entry.text) for entry in report.evidence if entry.topic == "note"]
    known = trend(report, view)
    return "; ".join([*noted, *([] if noted and known in {MISSING, "stable"} else [known])])


def _trend(report: JobReport, _column: Column, view: View) -> str:
    return trend(report, view)


_FORMATS: dict[CellFormat, Callable[[JobReport, Column, View], str]] = {
    CellFormat.NAME: _name,
    CellFormat.BUCKET: _bucket,
    CellFormat.KIND: _kind,
    CellFormat.STATE: _state,
    CellFormat.STEP_OF_TARGET: _step,
    CellFormat.FIXED: _fixed,
    CellFormat.FIXED_OF_LARGEST_N: _fixed_of_largest_n,
    CellFormat.TRIALS_OF_TARGET: _trials,
    CellFormat.CHUNKS: _chunks,
    CellFormat.TOP_EXCEPTION: _top_exception,
    CellFormat.INFRASTRUCTURE: _infrastructure,
    CellFormat.WHOLE: _whole,
    CellFormat.PERCENT: _percent,
    CellFormat.DURATION: _duration,
    CellFormat.PREEMPTIONS: _preemptions,
    CellFormat.GAPS: _gaps,
    CellFormat.CHECKPOINT: _checkpoint,
    CellFormat.SINCE: _since,
    CellFormat.ELAPSED: _elapsed,
    CellFormat.WAITING: _waiting,
    CellFormat.NOTE: _note,
    CellFormat.TREND: _trend,
}
