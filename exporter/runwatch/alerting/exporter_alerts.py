"""Alerts on the watching itself: sources that cannot be read, the exporter, and the dead man's switch."""

from __future__ import annotations

from runwatch import thresholds as t
from runwatch.alerting.promql import (
    JOB,
    NOT_OVER,
    but_not,
    duration,
    either,
    grouped,
    in_state,
    lines,
    newest,
    number,
)
from runwatch.alerting.records import beyond_interval
from runwatch.alerting.rules import Alert
from runwatch.alerting.texts import RUN

_EXPORTER_DASHBOARD = "/d/runwatch-exporter"
_JOB_LABEL = 'job="runwatch"'


def _source_down(after: float) -> str:
    """`for` is the last part of the time that the source must be down, the window is the rest."""
    window = duration(after - t.ALERT_FOR_SECONDS)
    return either(
        lines(
            f"max_over_time(runwatch:source_up[{window}]) == 0",
            f"and on (source, site) (runwatch:source_up offset {window})",
            "and on (source, site) runwatch:source_up",
        ),
        beyond_interval("runwatch:source_age_seconds", after),
    )


_SOURCE_IS_UP = lines(
    "and on (source, site) (runwatch:source_up == 1)",
    "unless on (source, site) (",
    "  " + beyond_interval("runwatch:source_age_seconds", t.SOURCE_DOWN_SECONDS).replace("\n", "\n  "),
    ")",
)

_ASKED = lines(
    f"time() - max by ({JOB}, source) (mljob_source_configured_timestamp_seconds)",
    f"> {number(t.NEVER_READ_SECONDS)}",
    "unless on (run, site, source) mljob:observed_timestamp_seconds",
)
# Before its first step a job may have no history, log or checkpoint folder yet. Where no source of steps was ever read
# there is no phase: then the start of its attempt tells how long it has been in bring-up.
_IN_BRINGUP = either(
    in_state("pending|preempted"),
    'mljob:phase{phase=~"queued|bringup"}',
    lines(
        "mljob:work_observed_timestamp_seconds - mljob:attempt_start_timestamp_seconds",
        "<= mljob:bringup_limit_seconds",
        but_not("mljob:phase"),
    ),
)
# A folder that is made with the first save is no wrong name.
_FIRST_SAVE_TO_COME = lines(
    f"time() - {newest('mljob_first_step_timestamp_seconds')}",
    "<=",
    grouped(
        either(
            f"clamp_min({number(t.CHECKPOINT_INTERVALS_ALLOWED)} * mljob:checkpoint_interval_seconds, "
            f"{number(t.NEVER_READ_SECONDS)})",
            f"0 * mljob:last_step_timestamp_seconds + {number(t.NEVER_READ_SECONDS)}",
        )
    ),
)

_UNOBSERVED = lines(
    grouped(
        either(
            beyond_interval("(time() - mljob:observed_timestamp_seconds)", t.SOURCE_DOWN_SECONDS),
            lines(
                grouped(_ASKED),
                but_not(_IN_BRINGUP),
                "unless on (run, site, source) (",
                "  label_replace(",
                "    " + _FIRST_SAVE_TO_COME.replace("\n", "\n    ") + ",",
                '    "source", "checkpoints", "", ""',
                "  )",
                ")",
            ),
        )
    ),
    _SOURCE_IS_UP,
    NOT_OVER,
)

DOWN = either(
    f"max by (shard) (up{{{_JOB_LABEL}}}) == 0",
    lines(
        f"max by (shard) (max_over_time(up{{{_JOB_LABEL}}}[{duration(t.SHARD_REMEMBERED_SECONDS)}]))",
        f"unless on (shard) max by (shard) (up{{{_JOB_LABEL}}})",
        f"and on () count(up{{{_JOB_LABEL}}})",
    ),
    f"max by (shard) (absent(up{{{_JOB_LABEL}}}))",
)
"""The shards of which no replica is scraped, by the label `shard`."""


def _of_source(severity: str, after: float, keep: float = 0.0) -> Alert:
    return Alert(
        "RunwatchSourceDown",
        severity,
        _source_down(after),
        "The source {{ $labels.source }} at {{ $labels.site }} cannot be read",
        f"Not one job of it could be read for {duration(after)}, or its last success is older than that and than "
        f"{number(t.BLIND_INTERVALS)} intervals. Facts from it stand still, and no alert begins on them.",
        keep=keep,
        dashboard=_EXPORTER_DASHBOARD,
    )


EXPORTER_ALERTS = [
    _of_source("warning", t.SOURCE_DOWN_SECONDS),
    _of_source("critical", t.SOURCE_DOWN_CRITICAL_SECONDS, t.ALERT_KEEP_FIRING_SECONDS),
    Alert(
        "RunwatchJobUnobserved",
        "warning",
        _UNOBSERVED,
        f"The {{{{ $labels.source }}}} of {RUN} has not been read for {{{{ $value | humanizeDuration }}}}",
        "That source is up and does not answer for this job: a wrong name, a lost right, or one poisoned run. Limit "
        f"max({duration(t.SOURCE_DOWN_SECONDS)}, {number(t.BLIND_INTERVALS)} intervals), "
        f"{duration(t.NEVER_READ_SECONDS)} where it never answered.",
    ),
    Alert(
        "RunwatchDown",
        "critical",
        DOWN,
        "No scrape of runwatch{{ with $labels.shard }}, shard {{ . }},{{ end }} succeeds",
        f"For {duration(t.EXPORTER_DOWN_SECONDS)}. Nobody watches its jobs.",
        wait=t.EXPORTER_DOWN_SECONDS,
        keep=t.ALERT_KEEP_FIRING_SECONDS,
        dashboard=_EXPORTER_DASHBOARD,
    ),
    Alert(
        "RunwatchJobsDropped",
        "warning",
        "max(runwatch_jobs_dropped) > 0",
        "runwatch leaves {{ $value }} jobs unwatched",
        "Discovery found {{ $value }} jobs above the limit.",
        dashboard=_EXPORTER_DASHBOARD,
    ),
    Alert(
        "RunwatchConfigReloadFailed",
        "warning",
        "min(runwatch_config_last_reload_successful) == 0",
        "runwatch could not reload its config",
        "It goes on with the one before. Its log has the fault's line and key; `runwatch check` names it too.",
        dashboard=_EXPORTER_DASHBOARD,
    ),
    Alert(
        "Watchdog",
        "none",
        "vector(1)",
        "The chain from Prometheus to the receivers works",
        "Always fires. A dead man's switch that no longer hears it tells that no alert would arrive.",
        wait=0.0,
        dashboard=_EXPORTER_DASHBOARD,
    ),
]
