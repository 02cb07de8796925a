"""The recording rules: what a job is and does, one series a job, for the alerts and for queries by hand.

Ages are measured against what the sources last confirmed, never against the clock; blindness is, by the clock.
"""

from __future__ import annotations

from runwatch import thresholds as t
from runwatch.alerting.alert_sources import TRIAL_BUCKETS
from runwatch.alerting.promql import (
    JOB,
    but_not,
    current,
    either,
    grouped,
    in_phase,
    indented,
    latest,
    lines,
    newest,
    number,
    unless_firing,
    where,
)
from runwatch.alerting.rules import Recording
from runwatch.catalogue import ENDED_STATES

_SEEN_LIVING = "scheduler|history|trials"
"""The sources that state and phase are made from."""

_INTERVALS = f"{number(t.BLIND_INTERVALS)} * runwatch:source_interval_seconds"


def beyond_interval(age: str, floor: float) -> str:
    """Return the ages (labels `source`, `site`) above max(floor, three of the source's intervals), where it is used."""
    return lines(age, f"> on (source, site) group_left () clamp_min({_INTERVALS}, {number(floor)})")


# Of replicas with unlike configs each has a bucket of its own for the job.
_NEWEST_ANSWER = "max by (run, site, source) (mljob:observed_timestamp_seconds)"

_AGE_SEEN = f"(time() - {_NEWEST_ANSWER})"

UNREAD_SCHEDULER = "mljob:unread_scheduler_asked_timestamp_seconds"


def _of_the_living(metric: str, word: str, deciding: str) -> tuple[Recording, Recording]:
    """Return the recordings of a one-hot metric: from the replicas to which all of its sources answer, and of all jobs.

    Where each replica lacks some source, but none is down, it is from those to which the deciding ones answer: two
    that see a half each must not be as good as blind.
    """
    of_all = f"mljob:{word}_by_all_sources"
    of_some = lines(current(metric, source=deciding, keep=word, only="== 1"), but_not(of_all))
    return (
        Recording(of_all, current(metric, source=_SEEN_LIVING, keep=word, only="== 1")),
        Recording(f"mljob:{word}", either(of_all, of_some)),
    )


SOURCES = [
    Recording("runwatch:source_up", "max by (source, site) (runwatch_source_up)"),
    Recording("runwatch:source_interval_seconds", "max by (source, site) (runwatch_source_interval_seconds)"),
    Recording(
        "runwatch:source_age_seconds",
        "time() - max by (source, site) (runwatch_source_last_success_timestamp_seconds)",
    ),
]

IDENTITY = [
    Recording("mljob:observed_timestamp_seconds", f"max by ({JOB}, source) (mljob_observed_timestamp_seconds)"),
    Recording(
        "mljob:replica_outdated",
        either(
            lines(
                "(",
                "  - mljob_observed_timestamp_seconds",
                f"  + on (run, site, source) group_left () {_NEWEST_ANSWER}",
                f") > on (source, site) group_left () clamp_min({_INTERVALS}, {number(t.BLIND_FLOOR_SECONDS)})",
            ),
            lines(
                "(",
                "  - mljob_observed_timestamp_seconds",
                f"  + on (run, site, source) group_left () {_NEWEST_ANSWER}",
                f") > {number(t.BLIND_FLOOR_SECONDS)}",
                "unless on (source, site) runwatch:source_interval_seconds",
            ),
            # One that began anew and was never answered knows less than one that was.
            lines(
                "mljob_source_configured_timestamp_seconds",
                "unless mljob_observed_timestamp_seconds",
                "and on (run, site, source) mljob:observed_timestamp_seconds",
            ),
        ),
    ),
    *_of_the_living("mljob_state", "state", deciding="scheduler"),
    *_of_the_living("mljob_phase", "phase", deciding="history|trials"),
    Recording("mljob:successor", f"max by ({JOB}) (mljob_successor) == 1"),
    # A link that ended while the next one waits is not the end of the run.
    Recording(
        "mljob:ended",
        lines(
            f'max by ({JOB}) (mljob:state{{state=~"{"|".join(sorted(ENDED_STATES))}"}})',
            but_not("mljob:successor"),
        ),
    ),
    Recording("mljob:end_timestamp_seconds", f"max by ({JOB}) (mljob_end_timestamp_seconds) and mljob:ended"),
    Recording(
        UNREAD_SCHEDULER,
        lines(
            f'min by ({JOB}, source) (mljob_source_configured_timestamp_seconds{{source="scheduler"}})',
            "unless on (run, site, source) mljob:observed_timestamp_seconds",
        ),
    ),
    Recording(
        "mljob:blind",
        lines(
            grouped(
                either(
                    beyond_interval(_AGE_SEEN, t.BLIND_FLOOR_SECONDS),
                    # A source that only jobs use that may have ended tells no interval.
                    lines(
                        f"{_AGE_SEEN} > {number(t.BLIND_FLOOR_SECONDS)}",
                        "unless on (source, site) runwatch:source_interval_seconds",
                    ),
                    # Until it has answered, the history may take a job for running that waits. Later it is a wrong
                    # name, and told as such, unless the whole source is down.
                    f"{UNREAD_SCHEDULER} >= time() - {number(t.NEVER_READ_SECONDS)}",
                    f"{UNREAD_SCHEDULER} and on (source, site) (runwatch:source_up == 0)",
                )
            ),
            but_not("mljob:ended"),
        ),
    ),
]

_TRAINING_SOURCES = 'mljob:observed_timestamp_seconds{source=~"history|scheduler"}'
_RESULT_SOURCES = f'mljob:observed_timestamp_seconds{{source=~"trials|scheduler", bucket=~"{TRIAL_BUCKETS}"}}'

_ATTEMPT_START = "mljob:attempt_start_timestamp_seconds"

PROGRESS = [
    Recording("mljob:trials", current("mljob_trials", f'bucket=~"{TRIAL_BUCKETS}"')),
    Recording(
        "mljob:progress_observed_timestamp_seconds",
        lines(
            f"min by ({JOB}) ({_TRAINING_SOURCES})",
            where('mljob:observed_timestamp_seconds{source="history"}'),
        ),
    ),
    Recording(
        "mljob:results_observed_timestamp_seconds",
        lines(
            f"min by ({JOB}) ({_RESULT_SOURCES})",
            where('mljob:observed_timestamp_seconds{source="trials"}'),
            where("mljob:trials"),
        ),
    ),
    Recording(
        "mljob:work_observed_timestamp_seconds",
        either(
            "mljob:results_observed_timestamp_seconds",
            "mljob:progress_observed_timestamp_seconds",
            f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="scheduler"}})',
        ),
    ),
    Recording(
        "mljob:work_blind",
        either(
            'mljob:blind{source="scheduler"}',
            lines('mljob:blind{source="history"}', but_not("mljob:trials")),
            lines('mljob:blind{source="trials"}', where("mljob:trials")),
        ),
    ),
    Recording(
        "mljob:bringup_limit_seconds",
        either(
            f'0 * mljob:work_observed_timestamp_seconds{{bucket="rl"}} + {number(t.BRINGUP_LIMIT_RL_SECONDS)}',
            f'0 * mljob:work_observed_timestamp_seconds{{bucket!="rl"}} + {number(t.BRINGUP_LIMIT_SECONDS)}',
        ),
    ),
    Recording(
        _ATTEMPT_START,
        either(newest("mljob_attempt_start_timestamp_seconds"), newest("mljob_start_timestamp_seconds")),
    ),
    Recording("mljob:interruption_timestamp_seconds", newest("mljob_interruption_timestamp_seconds")),
    # A chain's link may wait for nodes as long as it must: what it has not done counts from when it runs.
    Recording(
        "mljob:resumable_since_timestamp_seconds",
        either(
            lines(
                latest(interruption="mljob:interruption_timestamp_seconds", attempt=_ATTEMPT_START),
                where(
                    lines(
                        newest("mljob_interruption_timestamp_seconds", 'cause="chain"'),
                        ">= mljob:interruption_timestamp_seconds",
                    )
                ),
            ),
            "mljob:interruption_timestamp_seconds",
        ),
    ),
    Recording("mljob:last_step_timestamp_seconds", newest("mljob_last_step_timestamp_seconds")),
    Recording(
        "mljob:step_age_seconds", "mljob:progress_observed_timestamp_seconds - mljob:last_step_timestamp_seconds"
    ),
    Recording(
        "mljob:stall_limit_seconds",
        either(
            lines(
                f"{number(t.STALL_BASE_SECONDS)} + {number(t.STALL_GAP_THRESHOLD_FRACTION)} *",
                current("mljob_gap_threshold_seconds"),
            ),
            "mljob:bringup_limit_seconds",
        ),
    ),
    Recording(
        "mljob:throughput_ratio",
        lines(
            current("mljob_tokens_per_second"),
            "/",
            grouped(current("mljob_tokens_per_second_baseline") + " > 0"),
        ),
    ),
    Recording("mljob:loss_trend_ratio", current("mljob_loss_trend_ratio", 'bucket!="rl"')),
]

CHECKPOINTS = [
    Recording("mljob:checkpoint_timestamp_seconds", current("mljob_checkpoint_timestamp_seconds")),
    Recording("mljob:checkpoint_interval_seconds", current("mljob_checkpoint_interval_seconds")),
    Recording(
        "mljob:saves_counted_from_timestamp_seconds",
        lines(
            latest(
                first_step=newest("mljob_first_step_timestamp_seconds"),
                attempt=newest("mljob_attempt_first_step_timestamp_seconds"),
                gap=newest("mljob_gap_end_timestamp_seconds", 'cause!="unexplained"'),
            ),
            where("mljob_first_step_timestamp_seconds"),
        ),
    ),
    Recording(
        "mljob:checkpoint_age_seconds",
        lines(
            f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="checkpoints"}})',
            "-",
            latest(
                saved="mljob:checkpoint_timestamp_seconds",
                steps=lines("mljob:saves_counted_from_timestamp_seconds", "and mljob:checkpoint_timestamp_seconds"),
            ),
        ),
    ),
    Recording(
        "mljob:no_checkpoint_seconds",
        lines(
            f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="checkpoints"}})',
            "- mljob:saves_counted_from_timestamp_seconds",
            where(current("mljob_checkpoints", 'completeness="complete"') + " == 0"),
        ),
    ),
]

TRIALS = [
    Recording(
        "mljob:trials_missing",
        lines(
            grouped(
                either(
                    current("mljob_trials_target", f'bucket=~"{TRIAL_BUCKETS}"') + "\n- mljob:trials > 0",
                    lines("mljob:trials", but_not("mljob_trials_target")),
                )
            ),
            but_not(in_phase("finishing")),
        ),
    ),
    Recording(
        "mljob:result_age_seconds",
        lines(
            "mljob:results_observed_timestamp_seconds",
            "-",
            grouped(
                either(
                    latest(
                        result=newest("mljob_last_trial_timestamp_seconds"),
                        attempt="mljob:attempt_start_timestamp_seconds",
                    ),
                    # Nothing tells when a job without a scheduler began that gave no result yet: not after it was
                    # first asked for them.
                    lines(
                        f'min by ({JOB}) (mljob_source_configured_timestamp_seconds{{source="trials"}})',
                        where("mljob:trials == 0"),
                    ),
                )
            ),
        ),
    ),
    Recording("mljob:engine_running_requests", current("mljob_engine_running_requests", f'bucket=~"{TRIAL_BUCKETS}"')),
]


def _signal(name: str, expression: str) -> Recording:
    return Recording("mljob:rl_collapse_signal", f"group by ({JOB}) (\n{indented(expression)}\n)", {"signal": name})


_RL = 'bucket="rl"'

COLLAPSE = [
    _signal(
        "grad_norm",
        either(
            current("mljob_rl_grad_norm_last2_min", _RL) + f" > {number(t.RL_GRAD_NORM_LIMIT)}",
            lines(
                current("mljob_rl_grad_norm_window_ratio", _RL) + f" > {number(t.RL_GRAD_NORM_WINDOW_RATIO)}",
                where(current("mljob_rl_grad_norm") + f" >= {number(t.SUBSTANCE_MINIMUM)}"),
            ),
        ),
    ),
    _signal(
        "entropy",
        f"abs(\n{indented(current('mljob_rl_entropy_deviation_ratio', _RL))}\n) > {number(t.RL_ENTROPY_DEVIATION)}",
    ),
    _signal(
        "log_ratio",
        lines(
            current("mljob_rl_log_ratio_abs_mean_window_ratio", _RL) + f" > {number(t.RL_LOG_RATIO_MEAN_WINDOW_RATIO)}",
            where(
                current("mljob_rl_log_ratio_abs_max_window_ratio") + f" <= {number(t.RL_LOG_RATIO_MAX_WINDOW_RATIO)}"
            ),
            where(current("mljob_rl_log_ratio_abs", 'stat="mean"') + f" >= {number(t.SUBSTANCE_MINIMUM)}"),
        ),
    ),
    _signal(
        "pass_ratio",
        lines(
            current("mljob_rl_trial_pass_ratio", _RL) + f" < {number(t.RL_TRIAL_PASS_RATIO_LOW)}",
            where(current("mljob_rl_trials_in_window") + f" >= {number(t.RL_TRIAL_WINDOW_COUNT)}"),
            "unless on (run, site) (",
            '  mljob:blind{source="trials"}',
            f"  {unless_firing('MLJobRLCollapse', 'critical', t.ALERT_REMEMBERED_SECONDS)}",
            ")",
        ),
    ),
    Recording("mljob:rl_collapse_signals", f"sum by ({JOB}) (mljob:rl_collapse_signal)"),
    Recording(
        "mljob:rl_collapse_steps_ago",
        lines(current("mljob_rl_step", _RL), "-", current("mljob_rl_collapse_step", _RL)),
    ),
]

RECORDINGS = [*SOURCES, *IDENTITY, *PROGRESS, *CHECKPOINTS, *TRIALS, *COLLAPSE]
