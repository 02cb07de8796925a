"""From an RL job's digest to its measurements and to the reasoning behind them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from runwatch.derive.pass_ratio import PassRatioTimes, TimedStep
from runwatch.derive.rl_digest import LoggedValue, RLSummary
from runwatch.derive.rl_keys import NONFINITE_KEYS, STEP_VALUES, first_logged, pass_at_n
from runwatch.derive.rl_signals import CollapseSignal, Comparison, StepFigures, signals_that_hold
from runwatch.figures import percent
from runwatch.measurements import Evidence, Measurements
from runwatch.thresholds import (
    RL_COLLAPSE_SIGNALS,
    RL_ENTROPY_DEVIATION,
    RL_GRAD_NORM_LIMIT,
    RL_GRAD_NORM_WINDOW_RATIO,
    RL_LOG_RATIO_MAX_WINDOW_RATIO,
    RL_LOG_RATIO_MEAN_WINDOW_RATIO,
    RL_TRIAL_PASS_RATIO_LOW,
    RL_TRIAL_WINDOW_COUNT,
    RL_WINDOW,
    SUBSTANCE_MINIMUM,
)


def measure_rl(
    measurements: Measurements, summary: RLSummary, pass_ratio: PassRatioTimes | None = None
) -> list[Evidence]:
    """Set every `mljob_rl_*` value that history tells, and the RL job's learning rate and non-finite flags.

    All values are those of `summary.step`, but for timings, learning rate and eval score, which are the newest.

    Args:
        measurements: The job's record, which is added to; what trials tell is there already.
        summary: The digest of the job's history.
        pass_ratio: When the pass ratio over the job's trials was low: one more signal of the collapse rule. None
            where no trials were read.

    Returns:
        Which key and step each value came from, what was left out and why, and each signal with its threshold.
    """
    evidence = [*_newest_values(measurements, summary)]
    if summary.step is None:
        return evidence
    measurements.set("mljob_rl_step", summary.step)
    evidence += _step_values(measurements, summary.values.values, summary.step)
    evidence += [
        Evidence("values", f"step {summary.step}: left out, {reason}", {"step": summary.step})
        for reason in summary.values.left_out
    ]
    _set_nonfinite(measurements, summary.values.values)
    _set_figures(measurements, summary.figures)
    evidence += _collapse(measurements, summary, summary.step, pass_ratio)
    return evidence


def _newest_values(measurements: Measurements, summary: RLSummary) -> Iterator[Evidence]:
    for part, timing in summary.timings.items():
        yield _record(measurements, "mljob_rl_timing_seconds", timing, {"part": part})
    if summary.timing_parts_left_out:
        text = f"timing/*: {summary.timing_parts_left_out} or more parts left out, over the limit of parts a job"
        yield Evidence("values", text, {"left_out": summary.timing_parts_left_out})
    for metric, logged in (
        ("mljob_learning_rate", summary.learning_rate),
        ("mljob_rl_eval_score", summary.eval_score),
    ):
        if logged is not None:
            yield _record(measurements, metric, logged, {})


def _step_values(measurements: Measurements, values: Mapping[str, float], step: int) -> Iterator[Evidence]:
    for source in STEP_VALUES:
        found = first_logged(values, source.keys)
        if found is not None:
            yield _record(measurements, source.metric, LoggedValue(*found, step), source.labels)
    for key, value in values.items():
        n = pass_at_n(key)
        if n is not None:
            yield _record(measurements, "mljob_rl_pass_at_n", LoggedValue(key, value, step), {"n": n})


def _record(measurements: Measurements, metric: str, logged: LoggedValue, labels: Mapping[str, str]) -> Evidence:
    name = metric + "".join(f" {label}={value}" for label, value in labels.items())
    fields = {"metric": metric, **labels, "value": logged.value, "key": logged.key, "step": logged.step}
    if not math.isfinite(logged.value):
        text = f"{name} is absent: {logged.key} was {logged.value} at step {logged.step}"
        return Evidence("values", text, fields)
    measurements.set(metric, logged.value, **labels)
    return Evidence("values", f"{name} is {logged.value:.6g}, from {logged.key} at step {logged.step}", fields)


def _set_nonfinite(measurements: Measurements, values: Mapping[str, float]) -> None:
    for name, keys in NONFINITE_KEYS.items():
        logged = first_logged(values, keys)
        if logged is not None:
            measurements.set("mljob_nonfinite", 0.0 if math.isfinite(logged[1]) else 1.0, metric=name)


def _set_figures(measurements: Measurements, figures: StepFigures) -> None:
    measurements.set("mljob_rl_grad_norm_last2_min", figures.grad_norm_last2_min)
    for metric, comparison in (
        ("mljob_rl_grad_norm_window_ratio", figures.grad_norm),
        ("mljob_rl_entropy_deviation_ratio", figures.entropy),
        ("mljob_rl_log_ratio_abs_mean_window_ratio", figures.log_ratio_mean),
        ("mljob_rl_log_ratio_abs_max_window_ratio", figures.log_ratio_max),
    ):
        measurements.set(metric, comparison.ratio if comparison else None)


def _collapse(
    measurements: Measurements, summary: RLSummary, step: int, pass_ratio: PassRatioTimes | None
) -> Iterator[Evidence]:
    names = {str(signal) for signal in signals_that_hold(summary.figures)}
    collapse_step = summary.collapse_step
    yield from _signal_evidence(summary.figures, names, step)
    if pass_ratio is not None:
        low = pass_ratio.low_at(TimedStep(step, summary.since, None))
        names |= {str(CollapseSignal.PASSED_TRIALS)} if low else set()
        by_trials = pass_ratio.newest_low(summary.one_signal_short, collapse_step)
        collapse_step = by_trials if by_trials is not None else collapse_step
        yield _pass_ratio_evidence(measurements, low, step)
    collapse_step = step if len(names) >= RL_COLLAPSE_SIGNALS else collapse_step
    measurements.set("mljob_rl_collapse_step", collapse_step)
    yield Evidence(
        "verdicts",
        f"collapse rule: {len(names)} of {RL_COLLAPSE_SIGNALS} signals hold at step {step}"
        + (f" ({', '.join(sorted(names))})" if names else "")
        + (f"; it last held at step {collapse_step}" if collapse_step is not None else "; it never held"),
        {"step": step, "signals": sorted(names), "collapse_step": collapse_step, "threshold": RL_COLLAPSE_SIGNALS},
    )


def _pass_ratio_evidence(measurements: Measurements, low: bool, step: int) -> Evidence:
    ratio = measurements.get("mljob_rl_trial_pass_ratio")
    trials = measurements.get("mljob_rl_trials_in_window") or 0.0
    figure = "no trial is scored" if ratio is None else f"{percent(ratio, 1)} of the last {trials:.0f} trials passed"
    return Evidence(
        "verdicts",
        f"collapse signal {CollapseSignal.PASSED_TRIALS} {'holds' if low else 'does not hold'} at step {step}: now "
        f"{figure} (signal below {percent(RL_TRIAL_PASS_RATIO_LOW)} over {RL_TRIAL_WINDOW_COUNT} trials, at any time "
        "while the step is the newest)",
        {
            "signal": str(CollapseSignal.PASSED_TRIALS),
            "holds": low,
            "step": step,
            "pass_ratio": ratio,
            "pass_ratio_threshold": RL_TRIAL_PASS_RATIO_LOW,
            "trials": trials,
            "trials_threshold": RL_TRIAL_WINDOW_COUNT,
        },
    )


def _signal_evidence(figures: StepFigures, held: Collection[str], step: int) -> Iterator[Evidence]:
    lines: dict[CollapseSignal, tuple[str, dict[str, object]]] = {
        CollapseSignal.GRAD_NORM: (
            f"least of the last two steps {_figure(figures.grad_norm_last2_min)} (signal above {RL_GRAD_NORM_LIMIT}); "
            f"window ratio {_compared(figures.grad_norm, 'median')} (signal above {RL_GRAD_NORM_WINDOW_RATIO} "
            f"from a grad norm of {SUBSTANCE_MINIMUM} on)",
            {
                "last2_min": figures.grad_norm_last2_min,
                "last2_min_threshold": RL_GRAD_NORM_LIMIT,
                "window_ratio": _ratio(figures.grad_norm),
                "window_ratio_threshold": RL_GRAD_NORM_WINDOW_RATIO,
            },
        ),
        CollapseSignal.ENTROPY: (
            f"deviation {_compared(figures.entropy, 'mean')} (signal beyond ±{RL_ENTROPY_DEVIATION})",
            {"deviation": _ratio(figures.entropy), "deviation_threshold": RL_ENTROPY_DEVIATION},
        ),
        CollapseSignal.LOG_RATIO: (
            f"window ratio of the mean {_compared(figures.log_ratio_mean, 'median')} "
            f"(signal above {RL_LOG_RATIO_MEAN_WINDOW_RATIO} from a mean of {SUBSTANCE_MINIMUM} on); "
            f"of the max {_compared(figures.log_ratio_max, 'median')} "
            f"(signal only up to {RL_LOG_RATIO_MAX_WINDOW_RATIO})",
            {
                "mean_window_ratio": _ratio(figures.log_ratio_mean),
                "mean_window_ratio_threshold": RL_LOG_RATIO_MEAN_WINDOW_RATIO,
                "max_window_ratio": _ratio(figures.log_ratio_max),
                "max_window_ratio_threshold": RL_LOG_RATIO_MAX_WINDOW_RATIO,
            },
        ),
    }
    for signal, (text, fields) in lines.items():
        holds = signal in held
        yield Evidence(
            "verdicts",
            f"collapse signal {signal} {'holds' if holds else 'does not hold'} at step {step}: {text}",
            {"signal": str(signal), "holds": holds, "step": step, **fields},
        )


def _ratio(comparison: Comparison | None) -> float | None:
    return comparison.ratio if comparison else None


def _figure(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.6g}"


def _compared(comparison: Comparison | None, average: str) -> str:
    if comparison is None:
        return "not logged as a number at this step"
    if comparison.baseline is None:
        return f"{comparison.latest:.6g}, with fewer than {RL_WINDOW} values logged before it"
    return (
        f"{_figure(comparison.ratio)}, {comparison.latest:.6g} beside the {average} {comparison.baseline:.6g} "
        f"of the {RL_WINDOW} values logged before it"
    )
