"""Measurements of gaps by cause, with the reasoning behind each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from runwatch.catalogue import GAP_CAUSES
from runwatch.derive.history_digest import HistorySummary
from runwatch.derive.reconcile import UNKNOWN, ExplainedGap
from runwatch.measurements import Evidence, Measurements


def measure_gaps(
    measured: Measurements,
    summary: HistorySummary,
    explained: Sequence[ExplainedGap] | None,
    *,
    whole: bool = True,
) -> list[Evidence]:
    """Set the metrics of gaps, and return one line of evidence for each gap.

    Args:
        measured: where they are set.
        summary: what the history says.
        explained: the closed gaps with their causes; None where no scheduler was read. Then there is nothing to
            compare a gap with: all are `unknown`, and no other cause was looked up, so it has no zero either.
        whole: whether the history was read from its beginning. Where it was not there is no count and no sum.
    """
    steps = summary.steps
    measured.set("mljob_gap_threshold_seconds", steps.gap_threshold)
    if steps.gap_threshold is None:
        return []
    causes: tuple[str, ...] = GAP_CAUSES
    if explained is None:
        causes = (UNKNOWN,)
        explained = [ExplainedGap(gap, UNKNOWN, "no scheduler was read") for gap in steps.gaps]
    for cause in causes:
        gaps = [found.gap for found in explained if found.cause == cause]
        if whole:
            measured.set("mljob_gaps", len(gaps), cause=cause)
            measured.set("mljob_gap_seconds", math.fsum(gap.seconds for gap in gaps), cause=cause)
        measured.set("mljob_gap_end_timestamp_seconds", max((gap.end for gap in gaps), default=None), cause=cause)
    longest = max((gap.seconds for gap in steps.gaps), default=None)
    measured.set("mljob_longest_gap_seconds", longest if whole else None)
    return [_evidence(found, steps.gap_threshold) for found in explained]


def _evidence(found: ExplainedGap, threshold: float) -> Evidence:
    gap = found.gap
    fields: dict[str, object] = {
        "start_timestamp_seconds": gap.start,
        "end_timestamp_seconds": gap.end,
        "seconds": gap.seconds,
        "start_step": gap.start_step,
        "end_step": gap.end_step,
        "cause": found.cause,
        "restart_seen_in_history": gap.restarted,
        "threshold_seconds": threshold,
    }
    for number, event in enumerate(found.interruptions, start=1):
        prefix = "interruption" if number == 1 else f"interruption_{number}"
        fields[f"{prefix}_cause"] = event.cause.value
        fields[f"{prefix}_timestamp_seconds"] = event.time
        fields[f"{prefix}_attempts"] = event.attempts
        fields[f"{prefix}_reason"] = event.reason
    text = f"{gap.seconds:.0f} s from step {gap.start_step} to {gap.end_step}, cause {found.cause}: {found.why}"
    if len(found.interruptions) > 1:
        text += f" ({len(found.interruptions)} interruptions, the first counts)"
    return Evidence("gaps", text, fields)
