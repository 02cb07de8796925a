"""The *Run* dashboard: the smaller values below the big ones, most of them there only when they say something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grafana_foundation_sdk.builders import stat
from grafana_foundation_sdk.models import common

from runwatch.catalogue import END_REASONS, WAITING_REASONS
from runwatch_dashboards import palette
from runwatch_dashboards.graphs import saying
from runwatch_dashboards.panels import label_stat, single_stat
from runwatch_dashboards.queries import OF_RUN, code, instant, table, value


def _small(title: str, description: str, unit: str, expression: str) -> stat.Panel:
    return single_stat(title, description, unit, [instant("value", expression, "{{site}}")]).height(3).span(3)


def _word(title: str, description: str, metric: str, words: Sequence[str]) -> stat.Panel:
    return _small(title, description, "none", code(metric, "reason", words, OF_RUN)).mappings(
        [palette.missing(palette.TEXT), palette.codes(words, dict.fromkeys(words, palette.TEXT))]
    )


def details() -> Iterator[stat.Panel]:
    """Yield the small values."""
    yield _word("Waits for", "Only in queue and bring-up.", "mljob_waiting", WAITING_REASONS)
    yield _small(
        "Started", "When the job started.", "dateTimeAsIso", f"{value('mljob_start_timestamp_seconds', OF_RUN)} * 1000"
    )
    yield _small(
        "Newest attempt",
        "When it started; it is not resumed before its first new step.",
        "dateTimeAsIso",
        f"{value('mljob_attempt_start_timestamp_seconds', OF_RUN)} * 1000",
    )
    yield _small(
        "Ended", "Only when it did.", "dateTimeAsIso", f"{value('mljob_end_timestamp_seconds', OF_RUN)} * 1000"
    )
    yield _word(
        "Ended because of",
        "Only when it ended. The first real traceback is in explain.",
        "mljob_end_reason",
        END_REASONS,
    )
    yield _small("Exit code", "Only when it ended and one was seen.", "none", value("mljob_exit_code", OF_RUN))
    not_finite = f"max by (run, site) ({value('mljob_nonfinite', OF_RUN)})"
    finite = _small(
        "Finite", "Whether the latest loss, gradient norm (RL: reward, entropy too) are numbers.", "none", not_finite
    )
    yield saying(finite, {"0": ("yes", palette.TEXT), "1": ("not finite", palette.BAD)})
    agree = _small(
        "Sources agree",
        "Whether two sources that answered disagree on whether the job is alive or moving.",
        "none",
        value("mljob_state_conflict", OF_RUN),
    )
    yield saying(agree, {"0": ("yes", palette.TEXT), "1": ("conflict", palette.WARNING)})
    yield from _figures()


def _figures() -> Iterator[stat.Panel]:
    yield _small(
        "ETA with interruptions",
        "The compute-only ETA divided by goodput.",
        "s",
        value("mljob_eta_with_interruptions_seconds", OF_RUN),
    ).decimals(1)
    yield _small(
        "Goodput now",
        "Productive step time / time since the start.",
        "percentunit",
        value("mljob_goodput_ratio", OF_RUN),
    ).decimals(1)
    yield _small("Longest gap", "Of all closed ones.", "s", value("mljob_longest_gap_seconds", OF_RUN)).decimals(1)
    yield _small(
        "Replay to come",
        "How long the steps that are to be done again will take; only while preempted or resuming.",
        "s",
        value("mljob_replay_expected_seconds", OF_RUN, source="history|scheduler|checkpoints"),
    ).decimals(1)
    yield _small(
        "Newest checkpoint",
        "Step of the newest complete one, over every root.",
        "none",
        value("mljob_checkpoint_step", OF_RUN),
    )
    yield _small(
        "Uploaded",
        "When the traces were (datagen).",
        "dateTimeAsIso",
        f"{value('mljob_upload_timestamp_seconds', OF_RUN)} * 1000",
    )
    chips = value("mljob_accelerators", OF_RUN, keep="type")
    yield (
        single_stat("Chips", "Of the gang, by type.", "none", [instant("value", chips, "{{type}}")])
        .text_mode(common.BigValueTextMode.VALUE_AND_NAME)
        .height(3)
        .span(3)
    )
    successor = value("mljob_successor", OF_RUN, keep="scheduler_job") + " == 1"
    yield (
        label_stat(
            "Successor",
            "The scheduler's job that runs, or can still start, after the newest link of the chain ended.",
            table("value", successor),
            "scheduler_job",
        )
        .height(3)
        .span(3)
    )
