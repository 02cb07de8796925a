"""Alerts on datagen and eval jobs: results that do not come or must not be used, an idle engine, and zombies."""

from __future__ import annotations

from runwatch import thresholds as t
from runwatch.alerting.promql import (
    JOB,
    NOT_OVER,
    but_not,
    current,
    duration,
    either,
    grouped,
    in_phase,
    in_state,
    latest,
    lines,
    newest,
    not_blind,
    number,
    where,
)
from runwatch.alerting.rules import Alert
from runwatch.alerting.texts import AT_STEP, RUN, limit_of, looked_up, value_of
from runwatch.figures import percent

_RESULTS_MAY_BE_USED = but_not(
    lines(
        "mljob:ended",
        "unless on (run, site) (",
        f"  time() - mljob:end_timestamp_seconds <= {number(t.RESULTS_STAND_AFTER_END_SECONDS)}",
        ")",
    )
)

_STALLED = lines(
    grouped(
        either(
            f'mljob:result_age_seconds{{bucket="eval"}} > {number(t.TRIALS_STALLED_EVAL_SECONDS)}',
            f'mljob:result_age_seconds{{bucket="datagen"}} > {number(t.TRIALS_STALLED_DATAGEN_SECONDS)}',
            lines("mljob:result_age_seconds", where(current("mljob_chunks", 'state="hung"') + " > 0")),
        )
    ),
    where("mljob:trials_missing"),
    where(in_state("running")),
    NOT_OVER,
    not_blind("MLJobTrialsStalled", "critical"),
)

_DEAD_ENGINE = lines(
    current("mljob_trial_turns", 'bucket="datagen"') + f" <= {number(t.DEAD_ENGINE_TURNS)}",
    where(current("mljob_trials_agent_ran") + f" >= {t.DEAD_ENGINE_TRIALS_COUNT}"),
    but_not('mljob_info{turns="single"}'),
    _RESULTS_MAY_BE_USED,
    not_blind("MLJobDeadEngine", "critical"),
)

_INSTANT = current("mljob_trial_instant_failures")
_INSTANT_FAILURES = lines(
    _INSTANT + f" >= {t.INSTANT_FAILURES_COUNT}",
    where(f"{_INSTANT}\n> {number(t.INSTANT_FAILURES_SHARE)} * {current('mljob_trials')}"),
    _RESULTS_MAY_BE_USED,
    not_blind("MLJobInstantFailures", "critical"),
)

# The last part of the time passes in the alert's own `for`.
_IDLE_SECONDS = t.ENGINE_IDLE_SECONDS - t.ALERT_FOR_SECONDS
_IDLE_FOR = duration(_IDLE_SECONDS)
_ENGINE_IDLE = lines(
    f"max_over_time(mljob:engine_running_requests[{_IDLE_FOR}]) == 0",
    where(f"mljob:engine_running_requests offset {_IDLE_FOR}"),
    where("mljob:engine_running_requests"),
    but_not(
        lines(
            f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="log"}})',
            "-",
            newest("mljob_engine_last_success_timestamp_seconds"),
            f"<= {number(_IDLE_SECONDS)}",
        )
    ),
    where("mljob:trials_missing"),
    where(in_state("running")),
    NOT_OVER,
    not_blind("MLJobEngineIdle", "warning"),
)

_UPLOADED = newest("mljob_upload_timestamp_seconds")
_ATTEMPT_START = "mljob:attempt_start_timestamp_seconds"


def _since_later_of_attempt(seen: str, done: str) -> str:
    """Return how long ago something was done; what was started anew since then counts from its start."""
    return lines(f"{seen} -", latest(done=done, attempt=lines(_ATTEMPT_START, where(done))))


# An attempt that began when all was done exports or uploads again: it may take as long for it as the first.
_ZOMBIE = lines(
    grouped(
        either(
            lines(
                _since_later_of_attempt(
                    "mljob:progress_observed_timestamp_seconds", "mljob:last_step_timestamp_seconds"
                ),
                f"> {number(t.ZOMBIE_TRAINING_SECONDS)}",
                but_not("mljob:trials"),
            ),
            f'mljob:result_age_seconds{{bucket="eval"}} > {number(t.ZOMBIE_EVAL_SECONDS)}',
            lines(
                _since_later_of_attempt('mljob:results_observed_timestamp_seconds{bucket="datagen"}', _UPLOADED),
                f"> {number(t.ZOMBIE_UPLOADED_SECONDS)}",
            ),
            f'mljob:result_age_seconds{{bucket="datagen"}} > {number(t.ZOMBIE_DATAGEN_SECONDS)}',
        )
    ),
    where(in_state("running")),
    where(in_phase("finishing")),
    NOT_OVER,
    not_blind("MLJobZombie", "warning"),
)


def _by_age(of_all: str, of_a_chunk: str = "") -> str:
    """Return one text where no result came for too long, and another where that is so of a chunk alone."""
    otherwise = f"{{{{ else }}}}{of_a_chunk}" if of_a_chunk else ""
    return (
        f'{{{{ if or (and (eq $labels.bucket "eval") (gt $value {float(t.TRIALS_STALLED_EVAL_SECONDS)})) '
        f"(gt $value {float(t.TRIALS_STALLED_DATAGEN_SECONDS)}) }}}}{of_all}{otherwise}{{{{ end }}}}"
    )


_HUNG_CHUNKS = looked_up(
    'max(mljob_chunks{JOB,state="hung"}) > 0',
    f" Chunks that hang, their logs silent and their trials unmoved for {duration(t.CHUNK_HUNG_SECONDS)}: "
    f"{value_of('')}.",
)
_RESULTS_SO_FAR = limit_of("mljob_trials", label="results so far:", form="")

TRIAL_ALERTS = [
    Alert(
        "MLJobTrialsStalled",
        "critical",
        _STALLED,
        _by_age(f"{RUN} has given no new result for {{{{ $value | humanizeDuration }}}}", f"A chunk of {RUN} hangs"),
        "It runs and results are missing."
        + _by_age(
            " None came for {{ $value | humanizeDuration }} since the later of the last one and the newest attempt's "
            "start, or, where neither is known, since it was first asked for "
            f"(limit {duration(t.TRIALS_STALLED_EVAL_SECONDS)}, datagen "
            f"{duration(t.TRIALS_STALLED_DATAGEN_SECONDS)})."
        )
        + _HUNG_CHUNKS
        + looked_up("max(mljob_trials{JOB})", f" Results so far: {value_of('')}."),
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobDeadEngine",
        "critical",
        _DEAD_ENGINE,
        f'The agents of {RUN} stop after {{{{ $value | printf "%.3g" }}}} turns: do not consolidate',
        'Mean turns are {{ $value | printf "%.3g" }} (dead at '
        f"{number(t.DEAD_ENGINE_TURNS)} and below, over {t.DEAD_ENGINE_TRIALS_COUNT} or more trials): the engine "
        f"behind them answers nothing of use{_RESULTS_SO_FAR}.",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobInstantFailures",
        "critical",
        _INSTANT_FAILURES,
        f"{{{{ $value }}}} trials of {RUN} ended as they began: do not use its results",
        f"{{{{ $value }}}} trials made no token and lasted under {duration(t.INSTANT_FAILURE_SECONDS)}: at least "
        f"{t.INSTANT_FAILURES_COUNT}, and over {percent(t.INSTANT_FAILURES_SHARE)} of all{_RESULTS_SO_FAR}. Nothing "
        "reaches the engine.",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobEngineIdle",
        "warning",
        _ENGINE_IDLE,
        f"The engine of {RUN} runs no request",
        f"No running request and no answer 200 for {duration(t.ENGINE_IDLE_SECONDS)}, while results are missing"
        f"{_RESULTS_SO_FAR}.",
    ),
    Alert(
        "MLJobAuthFailures",
        "warning",
        lines(
            current("mljob_auth_failures") + f" >= {t.AUTH_FAILURES_COUNT}",
            NOT_OVER,
            not_blind("MLJobAuthFailures", "warning"),
        ),
        f"The sandbox provider refused {RUN} {{{{ $value }}}} times",
        f"{{{{ $value }}}} auth failures within {duration(t.AUTH_FAILURES_SECONDS)}, limit {t.AUTH_FAILURES_COUNT}: "
        "look at its key and its quota.",
    ),
    Alert(
        "MLJobZombie",
        "warning",
        _ZOMBIE,
        f"{RUN} still runs {{{{ $value | humanizeDuration }}}} after all was done",
        "Its last step, its last result or its upload was {{ $value | humanizeDuration }} ago, or its newest attempt "
        f"started then (limit after the last step {duration(t.ZOMBIE_TRAINING_SECONDS)}; after the last result eval "
        f"{duration(t.ZOMBIE_EVAL_SECONDS)}, datagen {duration(t.ZOMBIE_DATAGEN_SECONDS)}; after the upload "
        f"{duration(t.ZOMBIE_UPLOADED_SECONDS)}). It still holds its chips.{AT_STEP}",
    ),
]
