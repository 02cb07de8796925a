"""What a job's trial results tell: how many, how good, how they ended, and how far datagen's chunks are.

Pass ratio and mean reward are over scored trials, the same for every version of Harbor: a trial without a valid
reward was not graded, which says nothing of the model. Harbor 0.1.x prints a mean that counts such a trial as 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from runwatch.catalogue import CHUNK_STATES
from runwatch.derive.pass_ratio import LowSpan, low_spans
from runwatch.derive.trial_chunks import ChunkProgress, chunk_progress, chunk_states, evidence_of_chunks
from runwatch.facts import PrintedMean, TrialsFolder, TrialsUpdate
from runwatch.measurements import Evidence, Measurements
from runwatch.parsing.harbor_results import OTHER_EXCEPTION, printable
from runwatch.parsing.log_records import TrialResult
from runwatch.thresholds import DEAD_ENGINE_TRIALS_COUNT, DEAD_ENGINE_TURNS, RL_TRIAL_WINDOW_COUNT

NAMED_EXCEPTIONS = 8
"""So many of the most frequent classes have a series of their own."""

EVIDENCE_FOLDERS = 20
_PRINTED_DIGITS_DIFFER = 5e-4  # Harbor's console shows three decimals

_TOPIC = "trials"


@dataclass(frozen=True, slots=True)
class FolderFigures:
    """The figures of one job folder, beside the means that Harbor prints for it."""

    path: str
    trials: int
    scored: int
    reward_sum: float
    running: int
    unreadable: int
    means: tuple[PrintedMean, ...]
    missing_counts_as_zero: bool


@dataclass(frozen=True, slots=True)
class TrialsSummary:
    """All that is measured of a job's trials. Made once for each update: reports are made more often.

    `exceptions` are the most frequent classes and then `other`, each with its count. `turns_counted` is how many
    trials the mean of turns is over. `window_*` are of the newest scored trials, `low_spans` the times in which the
    pass ratio over such a window was low. `total` is what Harbor says there
    will be, None unless every job folder says so and no chunk is missing. `finished` is whether every job folder wrote
    that it ended and no chunk is missing. `first` is when the first result, or the first word of a job folder, was
    written, `changed` when the newest was, Unix seconds.
    """

    trials: int
    scored: int
    passed: int
    reward_mean: float | None
    agent_ran: int
    turns_mean: float | None
    turns_counted: int
    with_exception: int
    exceptions: tuple[tuple[str, int], ...]
    instant: int
    last: float | None
    window_scored: int
    window_passed: int
    low_spans: tuple[LowSpan, ...]
    total: int | None
    folders: tuple[FolderFigures, ...]
    chunks: tuple[ChunkProgress, ...]
    notes: tuple[str, ...]
    finished: bool = False
    first: float | None = None
    changed: float | None = None


def summarise_trials(update: TrialsUpdate) -> TrialsSummary:
    """Sum up an update that is caught up."""
    results = [result for folder in update.folders for result in folder.results]
    rewards = [result.reward for result in results if result.reward is not None]
    turns = [result.turns for result in results if result.agent_ran and result.turns is not None]
    exceptions = Counter(result.exception for result in results if result.exception)
    written = [result.finished for result in results if result.finished is not None]
    changes = [folder.changed for folder in update.folders if folder.changed is not None]
    ordered = sorted(
        (result for result in results if result.reward is not None),
        key=lambda result: (result.finished or 0.0, result.name),
    )
    newest = _rewards(ordered[-RL_TRIAL_WINDOW_COUNT:])
    return TrialsSummary(
        trials=len(results),
        scored=len(rewards),
        passed=sum(reward > 0 for reward in rewards),
        reward_mean=_mean(rewards),
        agent_ran=sum(result.agent_ran for result in results),
        turns_mean=_mean(turns),
        turns_counted=len(turns),
        with_exception=exceptions.total(),
        exceptions=bounded_exceptions(exceptions),
        instant=sum(result.instant for result in results),
        last=max(written, default=None),
        window_scored=len(newest),
        window_passed=sum(reward > 0 for reward in newest),
        low_spans=low_spans(ordered),
        total=_total(update),
        folders=tuple(_figures(folder) for folder in update.folders),
        chunks=chunk_progress(update),
        notes=update.notes,
        finished=_all_finished(update),
        first=min([*written, *changes], default=None),
        changed=max([*written, *changes], default=None),
    )


def _all_finished(update: TrialsUpdate) -> bool:
    begun = {folder.chunk for folder in update.folders}
    return bool(update.folders) and begun.issuperset(update.chunks) and all(f.finished for f in update.folders)


def bounded_exceptions(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the most frequent classes, of equals the first by name, and then the sum of the rest as `other`."""
    named = sorted(
        ((name, count) for name, count in counts.items() if name != OTHER_EXCEPTION),
        key=lambda pair: (-pair[1], pair[0]),
    )
    rest = sum(count for _, count in named[NAMED_EXCEPTIONS:]) + counts.get(OTHER_EXCEPTION, 0)
    kept = tuple(named[:NAMED_EXCEPTIONS])
    return (*kept, (OTHER_EXCEPTION, rest)) if rest else kept


def measure_trials(
    measurements: Measurements,
    summary: TrialsSummary,
    *,
    bucket: str,
    target: int | None,
    observed: float,
    is_over: bool,
    chunk_logs: Mapping[int, float] | None = None,
    failed_chunks: Set[int] = frozenset(),
) -> list[Evidence]:
    """Set the metrics of trials and return the evidence behind them.

    Datagen and eval get `mljob_trials*`, `mljob_trial_*` and `mljob_chunks`, RL gets `mljob_rl_trial_*` alone, and
    the other buckets nothing.

    Args:
        measurements: where to set them.
        summary: what was read; no trial in it means that there is no result yet.
        bucket: the job's bucket.
        target: how many results there will be, by the exporter's config.
        observed: when the trials were last read, Unix seconds.
        is_over: whether the job ended: a chunk that began and did not end has failed then.
        chunk_logs: when each chunk's log was last written. A chunk without an entry is never called hung.
        failed_chunks: the chunks whose log ends in a failure of theirs.
    """
    if bucket == "rl":
        measurements.set("mljob_rl_trials_in_window", summary.window_scored)
        measurements.set("mljob_rl_trial_pass_ratio", _ratio(summary.window_passed, summary.window_scored))
        return _evidence_of_results(summary)
    if bucket not in {"datagen", "eval"}:
        return []
    evidence = _evidence_of_results(summary)
    measurements.set("mljob_trials", summary.trials)
    measurements.set("mljob_trials_target", target if target is not None else summary.total)
    measurements.set("mljob_last_trial_timestamp_seconds", summary.last)
    measurements.set("mljob_trials_scored", summary.scored)
    measurements.set("mljob_trials_agent_ran", summary.agent_ran)
    measurements.set("mljob_trial_pass_ratio", _ratio(summary.passed, summary.scored))
    measurements.set("mljob_trial_reward", summary.reward_mean)
    if _turns_tell_too_little(summary):
        text = (
            f"mean turns {summary.turns_mean:.2f} over {summary.turns_counted} of the {summary.agent_ran} trials whose "
            "agent ran, the others do not count theirs: too few to call an engine dead, left out"
        )
        evidence.append(Evidence(_TOPIC, text, {"turns_counted": summary.turns_counted}))
    else:
        measurements.set("mljob_trial_turns", summary.turns_mean)
    for name, count in summary.exceptions:
        measurements.set("mljob_trial_exceptions", count, exception=name)
    measurements.set("mljob_trial_exception_ratio", _ratio(summary.with_exception, summary.trials))
    measurements.set("mljob_trial_instant_failures", summary.instant)
    evidence.append(_evidence_of_target(summary, target))
    if bucket == "datagen" and summary.chunks:
        states = chunk_states(
            summary.chunks, observed=observed, is_over=is_over, logs=chunk_logs or {}, failed=failed_chunks
        )
        for state in CHUNK_STATES:
            measurements.set("mljob_chunks", sum(found == state for found in states.values()), state=state)
        evidence += evidence_of_chunks(states, chunk_logs)
    return evidence


def _turns_tell_too_little(summary: TrialsSummary) -> bool:
    """Whether a mean would call the engine dead by fewer trials than that takes, though enough agents ran.

    Agents that fail at once are the first to count their turns; those that time out may not count theirs at all.
    """
    if summary.turns_mean is None or summary.turns_mean > DEAD_ENGINE_TURNS:
        return False
    return summary.turns_counted < DEAD_ENGINE_TRIALS_COUNT <= summary.agent_ran


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _total(update: TrialsUpdate) -> int | None:
    totals = [folder.total for folder in update.folders]
    known = [total for total in totals if total is not None]
    begun = {folder.chunk for folder in update.folders}
    if not known or len(known) < len(totals) or not begun.issuperset(update.chunks):
        return None
    return sum(known)


def _figures(folder: TrialsFolder) -> FolderFigures:
    rewards = _rewards(folder.results)
    return FolderFigures(
        path=folder.path,
        trials=len(folder.results),
        scored=len(rewards),
        reward_sum=math.fsum(rewards),
        running=folder.running,
        unreadable=folder.unreadable,
        means=folder.means,
        missing_counts_as_zero=folder.missing_counts_as_zero,
    )


def _rewards(results: Iterable[TrialResult]) -> list[float]:
    return [result.reward for result in results if result.reward is not None]


def _evidence_of_target(summary: TrialsSummary, target: int | None) -> Evidence:
    if target is not None:
        return Evidence(_TOPIC, f"{target} results to come in all: configured", {"target": target})
    if summary.total is not None:
        text = f"{summary.total} results to come in all: n_total_trials of the jobs' own results"
        return Evidence(_TOPIC, text, {"target": summary.total})
    return Evidence(_TOPIC, "how many results there will be is not known: not configured, nor said by every job folder")


def _evidence_of_results(summary: TrialsSummary) -> list[Evidence]:
    text = (
        f"{summary.trials} trials ended, {summary.scored} of them scored, {summary.passed} passed (reward above 0); "
        f"the agent ran in {summary.agent_ran}, turns are known of {summary.turns_counted}; "
        f"{summary.with_exception} with an exception, {summary.instant} instant failures"
    )
    evidence = [Evidence(_TOPIC, text, _counts(summary))]
    for folder in summary.folders[:EVIDENCE_FOLDERS]:
        where = printable(folder.path) or "the root itself"
        text = f"{where}: {folder.trials} results, {folder.running} trial folders without one"
        evidence.append(Evidence(_TOPIC, text, {"results": folder.trials, "without_result": folder.running}))
        if folder.unreadable:
            text = f"{where}: {folder.unreadable} results could not be read at several looks: in no other number"
            evidence.append(Evidence(_TOPIC, text, {"unreadable": folder.unreadable}))
        evidence += _evidence_of_printed_means(where, folder)
    if len(summary.folders) > EVIDENCE_FOLDERS:
        rest = summary.folders[EVIDENCE_FOLDERS:]
        text = f"{len(rest)} more job folders: {sum(folder.trials for folder in rest)} results"
        evidence.append(Evidence(_TOPIC, text))
    return evidence + [Evidence(_TOPIC, printable(note)) for note in summary.notes]


def _counts(summary: TrialsSummary) -> dict[str, object]:
    fields: dict[str, object] = {
        "trials": summary.trials,
        "scored": summary.scored,
        "passed": summary.passed,
        "agent_ran": summary.agent_ran,
        "with_exception": summary.with_exception,
        "instant_failures": summary.instant,
    }
    if summary.last is not None:
        fields["last_trial_timestamp_seconds"] = summary.last
    return fields


def _evidence_of_printed_means(where: str, folder: FolderFigures) -> list[Evidence]:
    """Tell the mean that Harbor itself prints where it is another than ours, and why as far as the figures show it."""
    if len(folder.means) != 1:
        return [
            Evidence(_TOPIC, f"{where}: Harbor prints {mean.value:.3f} for {mean.evaluation}", {"printed": mean.value})
            for mean in folder.means
        ]
    printed = folder.means[0].value
    ours = folder.reward_sum / folder.scored if folder.scored else None
    if ours is not None and abs(printed - ours) < _PRINTED_DIGITS_DIFFER:
        return []
    with_zeros = folder.reward_sum / folder.trials if folder.trials else None
    missing = folder.trials - folder.scored
    counts_zeros = with_zeros is not None and abs(printed - with_zeros) < _PRINTED_DIGITS_DIFFER
    if counts_zeros and folder.missing_counts_as_zero:
        why = f"this version counts the {missing} trials without a valid reward as 0"
    elif folder.missing_counts_as_zero:
        why = "this version counts trials without a reward as 0, and its file may be older than the newest results"
    else:
        why = "its file may be older than the newest results, or its metric is another than the mean of `reward`"
    shown = "none" if ours is None else f"{ours:.3f}"
    text = f"{where}: Harbor prints {printed:.3f}, the mean over scored trials is {shown}: {why}"
    return [Evidence(_TOPIC, text, {"printed": printed, "mean_over_scored": ours, "without_reward": missing})]
