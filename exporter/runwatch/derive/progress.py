"""Measurements of the contract's section Progress, from one job's history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runwatch.config.model import TrainerConfig
from runwatch.derive.gaps import measure_gaps
from runwatch.derive.history_digest import HistorySummary, LoggedQuantity
from runwatch.derive.reconcile import ExplainedGap
from runwatch.derive.replay import Replay, replays_behind_high_water
from runwatch.derive.step_timeline import StepInterval
from runwatch.derive.trainer_config import BatchSize, batch_size, sequence_length, target_steps
from runwatch.derive.value_window import LoggedValue, WindowRatio
from runwatch.facts import Checkpoint, HistoryRun, TrainerFacts
from runwatch.figures import duration
from runwatch.measurements import Evidence, Measurements
from runwatch.thresholds import LOSS_TREND_RATIOS, MEDIAN_MINIMUM_COUNT


@dataclass(frozen=True, slots=True)
class ProgressContext:
    """What progress is measured with, beside the history's rows.

    `start` and `end` are the job's, in Unix seconds (`end` None while it is not over); `observed` is when the history
    last answered. Ages end there: a blind exporter must not lower a job's goodput. `explained_gaps` are the closed gaps
    with their causes, None where no scheduler was read. `trainer` is what the newest checkpoint says of the trainer.
    """

    own: TrainerConfig
    run: HistoryRun
    is_rl: bool
    start: float | None
    end: float | None
    observed: float
    checkpoints: Sequence[Checkpoint] | None
    explained_gaps: Sequence[ExplainedGap] | None = None
    trainer: TrainerFacts | None = None


def segment_starts(config: Mapping[str, object], own: TrainerConfig) -> tuple[int, ...]:
    """Return the steps at which the batch size changes."""
    batch = batch_size(config, own)
    return batch.starts[1:] if batch is not None else ()


def last_step_reached(summary: HistorySummary, target: int | None) -> bool:
    """Tell whether the last step is done. Where steps count from zero (Levanter) the last one is target - 1.

    A run that goes on well past its target has another, which nobody told: its end is not known then.
    """
    if target is None or summary.step is None or _is_past(summary, target):
        return False
    return _steps_done(summary, summary.step) >= target


def _is_past(summary: HistorySummary, target: int) -> bool:
    """Whether more new steps above the target were logged than a last one, or one counted otherwise, can be."""
    return sum(step > target for step in summary.steps.recent_steps) >= MEDIAN_MINIMUM_COUNT


def _steps_done(summary: HistorySummary, step: int) -> int:
    return step + 1 if summary.counts_from_zero else step


def measure_progress(measured: Measurements, summary: HistorySummary, context: ProgressContext) -> list[Evidence]:
    """Set every metric of the section that the history gives, and return the evidence for them."""
    evidence: list[Evidence] = []
    steps = summary.steps
    target = target_steps(context.run.config, context.own, context.trainer, step=summary.step)
    measured.set("mljob_target_step", target.value if target is not None else None)
    if target is not None:
        past = ", which the run went past: it is not its end" if _is_past(summary, target.value) else ""
        evidence.append(Evidence("values", f"target step {target.value} from {target.source}{past}"))
    measured.set("mljob_step", summary.step)
    whole = not context.run.starts_mid_run
    measured.set("mljob_first_step_timestamp_seconds", steps.first_time if whole else None)
    measured.set("mljob_last_step_timestamp_seconds", steps.latest_time)
    measured.set("mljob_step_duration_seconds", steps.step_duration)
    measured.set("mljob_step_duration_recent_seconds", steps.recent_step_duration)
    if summary.step is not None:
        evidence.append(Evidence("values", f"step {summary.step} counted by {summary.step_key}"))
    if steps.clock_set_back:
        evidence.append(_evidence_of_clock(steps.clock_set_back, steps.clock_set_back_seconds))
    evidence += measure_gaps(measured, summary, context.explained_gaps, whole=whole)
    evidence += _measure_rate(measured, summary, context)
    if whole:
        evidence += _measure_replay_and_goodput(measured, summary, context)
    elif steps.first_step is not None:
        text = f"read from step {steps.first_step} on: first step, gap counts, replay and goodput are not known"
        evidence.append(Evidence("sources", f"history: {text}; durations are medians since then"))
    _measure_eta(measured, summary, target.value if target is not None else None, over=context.end is not None)
    if not context.is_rl:
        evidence += _measure_training_values(measured, summary)
    return evidence


def _evidence_of_clock(times: int, seconds: float) -> Evidence:
    often = "once" if times == 1 else f"{times} times"
    text = (
        f"the clock of the rows was set back {often}, by {duration(seconds)} in all: no interval is counted across that"
    )
    return Evidence("values", text, {"times": times, "seconds": seconds})


def _measure_rate(measured: Measurements, summary: HistorySummary, context: ProgressContext) -> list[Evidence]:
    steps = summary.steps
    batch = batch_size(context.run.config, context.own)
    length = sequence_length(context.run.config, context.own)
    if batch is not None and length is not None and summary.step is not None:
        # Durations are those of new steps: while older ones are done again, the batch is still that of the newest.
        step = steps.high_water_step if steps.high_water_step is not None else summary.step
        tokens = batch.at(step) * length.value
        is_one_of_several = len(batch.starts) > 1 or summary.batch_changed
        whole = steps.segment_step_duration if is_one_of_several else steps.step_duration
        measured.set("mljob_tokens_per_second", _divide(tokens, steps.recent_step_duration))
        measured.set("mljob_tokens_per_second_baseline", _divide(tokens, whole))
        return [Evidence("values", f"tokens per second from {_batch_text(batch, step)} x {length.source}")]
    if summary.trainer_rate is None:
        return []
    measured.set("mljob_tokens_per_second", summary.trainer_rate)
    measured.set("mljob_tokens_per_second_baseline", summary.trainer_rate_baseline)
    return [Evidence("values", f"tokens per second from the trainer's own {summary.trainer_rate_key}")]


def _batch_text(batch: BatchSize, step: int) -> str:
    return f"{batch.source} ({batch.at(step)} at this step)"


def _divide(numerator: float, denominator: float | None) -> float | None:
    return numerator / denominator if denominator else None


def _measure_replay_and_goodput(
    measured: Measurements, summary: HistorySummary, context: ProgressContext
) -> list[Evidence]:
    steps = summary.steps
    if steps.first_time is None or steps.high_water_time is None:
        return []
    evidence = _measure_replay(measured, summary, context)
    if steps.step_duration is None or context.start is None:
        return evidence
    # An interval with a restart or a gap in it is productive only for as long as its steps take: loading, compiling
    # and doing steps again are not.
    stopped = {(i.start, i.end): i for i in (*steps.gaps, *steps.restarts)}.values()
    lost = math.fsum(_lost_seconds(interval, steps.step_duration) for interval in stopped)
    before_first_row = max(min(steps.first_interval_steps * steps.step_duration, steps.first_time - context.start), 0)
    productive = steps.stepped_seconds - lost + before_first_row
    until = context.end if context.end is not None else context.observed
    whole = max(until, steps.high_water_time) - min(context.start, steps.first_time)
    if whole > 0:
        measured.set("mljob_goodput_ratio", min(max(productive / whole, 0.0), 1.0))
    return evidence


def _lost_seconds(interval: StepInterval, step_duration: float) -> float:
    return max(interval.seconds - interval.steps * step_duration, 0.0)


def _measure_replay(measured: Measurements, summary: HistorySummary, context: ProgressContext) -> list[Evidence]:
    steps = summary.steps
    unclocked = _interrupted_without_a_clock(context.explained_gaps or ())
    # A tracker that counts calls of `log` drops nothing when a trainer goes back, as with HF's callback.
    hidden = context.run.drops_replayed_steps and steps.replayed_steps == 0
    if not hidden or not (steps.restarts or unclocked):
        measured.set("mljob_replayed_steps", steps.replayed_steps)
        return []
    if context.checkpoints is None:
        return [Evidence("values", "replayed steps are not known: the history hides them and no checkpoints were read")]
    replays = (
        *replays_behind_high_water(steps.restarts, context.checkpoints, steps.step_duration),
        *(Replay(interval, None, None) for interval in unclocked),
    )
    known = [replay.steps for replay in replays if replay.steps is not None]
    if len(known) == len(replays):
        measured.set("mljob_replayed_steps", sum(known))
    return [
        Evidence(
            "attempts",
            f"restarted between steps {replay.interval.start_step} and {replay.interval.end_step}; "
            + (
                f"resumed from step {replay.resumed_from}, {replay.steps} steps done again"
                if replay.steps is not None
                else "which checkpoint it resumed from cannot be told, so how many steps were done again is not known"
            ),
            {
                "start_timestamp_seconds": replay.interval.start,
                "end_timestamp_seconds": replay.interval.end,
                "replayed_steps": replay.steps,
            },
        )
        for replay in replays
    ]


def _interrupted_without_a_clock(explained: Sequence[ExplainedGap]) -> list[StepInterval]:
    """Return the gaps with an interruption in which the run's own clock does not tell when it was up again."""
    return [found.gap for found in explained if found.interruptions and found.gap.running_seconds is None]


def _measure_eta(measured: Measurements, summary: HistorySummary, target: int | None, *, over: bool) -> None:
    duration = summary.steps.recent_step_duration
    if over or target is None or duration is None or summary.step is None or _is_past(summary, target):
        return
    remaining = max(target - _steps_done(summary, summary.step), 0)
    measured.set("mljob_eta_seconds", remaining * duration)
    goodput = measured.get("mljob_goodput_ratio")
    if goodput:
        measured.set("mljob_eta_with_interruptions_seconds", remaining * duration / goodput)


def _measure_training_values(measured: Measurements, summary: HistorySummary) -> list[Evidence]:
    loss, grad_norm = summary.loss, summary.grad_norm
    found = {
        "mljob_loss": loss.latest_finite,
        "mljob_grad_norm": grad_norm.latest_finite,
        "mljob_learning_rate": summary.learning_rate,
        "mljob_validation_loss": summary.validation_loss,
    }
    for name, logged in found.items():
        measured.set(name, logged.value if logged is not None else None)
    if loss.ratios:
        measured.set("mljob_loss_trend_ratio", loss.ratios[-1].ratio)
    if len(loss.ratios) >= LOSS_TREND_RATIOS:
        measured.set("mljob_loss_trend_last5_min_ratio", min(r.ratio for r in loss.ratios[-LOSS_TREND_RATIOS:]))
    if grad_norm.ratios:
        measured.set("mljob_grad_norm_window_ratio", max(r.ratio for r in grad_norm.ratios))
    measured.set("mljob_nonfinite", _nonfinite(loss, summary.loss_nonfinite_ranks), metric="loss")
    measured.set("mljob_nonfinite", _nonfinite(grad_norm), metric="grad_norm")
    return [
        *(_origin(name, logged) for name, logged in found.items() if logged is not None),
        *_not_finite_evidence(loss, "loss"),
        *_not_finite_evidence(grad_norm, "grad norm"),
        *_ratios_evidence("losses, newest last", loss.ratios[-LOSS_TREND_RATIOS:]),
        *_ratios_evidence("largest grad norm of the last minutes", _largest(grad_norm.ratios)),
    ]


def _largest(ratios: Sequence[WindowRatio]) -> list[WindowRatio]:
    return [max(ratios, key=lambda ratio: ratio.ratio)] if ratios else []


def _ratios_evidence(what: str, ratios: Sequence[WindowRatio]) -> list[Evidence]:
    if not ratios:
        return []
    shown = (f"{r.logged.value:.6g} at step {r.logged.step} ({r.ratio:.6g} × {r.median:.6g})" for r in ratios)
    text = f"{what}, each beside the median of its window: {', '.join(shown)}"
    fields = {"steps": [r.logged.step for r in ratios], "ratios": [r.ratio for r in ratios]}
    return [Evidence("values", text, fields)]


def _not_finite_evidence(quantity: LoggedQuantity, what: str) -> list[Evidence]:
    latest = quantity.latest
    if latest is None or math.isfinite(latest.value):
        return []
    return [Evidence("values", f"the latest {what} is {latest.value!r}, from {latest.key}", _row_of(latest))]


def _nonfinite(quantity: LoggedQuantity, on_some_ranks: bool = False) -> float | None:
    if quantity.latest is None:
        return None
    return float(on_some_ranks or not math.isfinite(quantity.latest.value))


def _origin(name: str, logged: LoggedValue) -> Evidence:
    return Evidence("values", f"{name} {logged.value!r} from {logged.key}", _row_of(logged))


def _row_of(logged: LoggedValue) -> dict[str, object]:
    return {"key": logged.key, "step": logged.step, "row": logged.cursor, "row_timestamp_seconds": logged.time}
