"""Alerts on a job's life and progress: stalls, bring-up, interruptions, checkpoints, its gang and its state."""

from __future__ import annotations

from runwatch import thresholds as t
from runwatch.alerting.promql import (
    JOB,
    NOT_OVER,
    but_not,
    current,
    duration,
    either,
    firing,
    grouped,
    in_phase,
    in_state,
    latest,
    lines,
    newest,
    not_blind,
    number,
    unless_firing,
    where,
)
from runwatch.alerting.rules import Alert
from runwatch.alerting.texts import AT_STEP, LIMIT, RUN, limit_of, looked_up, value_of

_STALLED = lines(
    "mljob:step_age_seconds > mljob:stall_limit_seconds",
    where(in_state("running")),
    where(in_phase("stepping")),
    # Of a job whose work is results these tell whether it stands still: MLJobTrialsStalled.
    but_not("mljob:trials"),
    but_not(
        "mljob:checkpoint_timestamp_seconds - mljob:last_step_timestamp_seconds > " + number(t.HISTORY_CUT_OFF_SECONDS)
    ),
    NOT_OVER,
    not_blind("MLJobStalled", "critical"),
)

_BRINGUP_STUCK = lines(
    'mljob:progress_observed_timestamp_seconds{bucket=~"rl|sft"} - mljob:attempt_start_timestamp_seconds',
    "> mljob:bringup_limit_seconds",
    where(in_phase("bringup")),
    but_not(in_state("preempted")),
    NOT_OVER,
    not_blind("MLJobBringupStuck", "warning"),
)

_RESUME_LIMIT = (
    f"{LIMIT}"
    + looked_up("max(mljob:bringup_limit_seconds{JOB})", value_of())
    + looked_up("max(mljob_replay_expected_seconds{JOB})", f" and {value_of()} for the steps to be done again")
)
_REPLAY = either(current("mljob_replay_expected_seconds"), "0 * mljob:bringup_limit_seconds")


def _not_resumed(since: str, severity: str, *conditions: str) -> str:
    return lines(
        f"mljob:work_observed_timestamp_seconds - {since}",
        "> mljob:bringup_limit_seconds +",
        grouped(_REPLAY),
        *conditions,
        NOT_OVER,
        not_blind("MLJobNotResumed", severity),
    )


_BELOW_THE_GANG = lines(
    f"sum by ({JOB}) (",
    "  " + current("mljob_tasks", 'state=~"running|succeeded"', keep="state").replace("\n", "\n  "),
    ") <",
    current("mljob_tasks_expected"),
)

_WAITING = _not_resumed(
    "mljob:resumable_since_timestamp_seconds",
    "warning",
    where(either(in_state("preempted"), in_phase("resuming"))),
)
# Where a part of the gang fell the attempts of the others go on, and began long before. Without a scheduler nothing
# tells when a trainer that makes old steps again was started: not before the newest of its rows, if it hangs.
_HANGING = _not_resumed(
    latest(
        interruption="mljob:interruption_timestamp_seconds",
        attempt="mljob:attempt_start_timestamp_seconds",
        row=lines("mljob:last_step_timestamp_seconds", but_not("mljob_attempt_start_timestamp_seconds")),
    ),
    "critical",
    where(in_state("running")),
    where(in_phase("resuming")),
    but_not(_BELOW_THE_GANG),
)

_SILENT_STALL = lines(
    f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="history"}})',
    "-",
    current("mljob_gap_end_timestamp_seconds", 'cause="unexplained"'),
    f"<= {number(t.SILENT_STALL_SHOWN_SECONDS)}",
    NOT_OVER,
    not_blind("MLJobSilentStall", "warning"),
)

_SCHEDULER_ANSWERED = f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="scheduler"}})'

_RESTARTS = lines(
    current("mljob_interruptions_since_progress") + f" >= {t.RESTARTS_WITHOUT_PROGRESS_COUNT}",
    where(
        lines(
            _SCHEDULER_ANSWERED,
            "- mljob:interruption_timestamp_seconds",
            f"<= {number(t.RESTARTS_WITHOUT_PROGRESS_RECENT_SECONDS)}",
        )
    ),
    NOT_OVER,
    not_blind("MLJobRestartsWithoutProgress", "critical"),
)

_FAILURE_TIME = newest("mljob_interruption_timestamp_seconds", 'cause="failure"')
_FAILURES = current("mljob_interruptions", 'cause="failure"')
_SHOWN = duration(t.TASK_FAILURE_SHOWN_SECONDS)

_ENDED_ALIKE = looked_up(
    "max(mljob_failures_ended_alike{JOB})",
    "{{ if eq (. | first | value) 1.0 }} The last two ends were one and the same failure: not transient."
    "{{ else }} The last two ends differ.{{ end }}",
)

_TASK_FAILURES = lines(
    _FAILURES,
    where(lines(_SCHEDULER_ANSWERED, "-", _FAILURE_TIME, f"<= {number(t.TASK_FAILURE_SHOWN_SECONDS)}")),
    NOT_OVER,
    not_blind("MLJobTaskFailures", "warning"),
)

_INTERVALS = f"{number(t.CHECKPOINT_INTERVALS_ALLOWED)} * mljob:checkpoint_interval_seconds"


def _not_while_unknown(unknown: str, blind: str, name: str, severity: str) -> str:
    """Return the line that lets an alert not begin for jobs of which one blind source leaves something unknown."""
    condition = lines(unknown, where(f'mljob:blind{{source="{blind}"}}'), unless_firing(name, severity))
    return but_not(condition)


# What waits or does steps again has nothing to save: the age begins anew with the first new step, which a blind history
# does not tell. One that fires goes on then.
_HAS_NOTHING_TO_SAVE = but_not(
    lines(
        in_phase("queued|resuming"),
        "unless on (run, site) (",
        '  mljob:blind{source="history"}',
        f"  {where(firing('MLJobNoCheckpoint', 'critical'))}",
        ")",
    )
)
# Without the scheduler it is new steps that tell that it still makes some.
_STEPPING_UNKNOWN = _not_while_unknown(
    lines(
        f'max by ({JOB}) (mljob:observed_timestamp_seconds{{source="history"}})',
        f"- mljob:last_step_timestamp_seconds > {number(t.BLIND_FLOOR_SECONDS)}",
    ),
    "scheduler",
    "MLJobCheckpointStale",
    "warning",
)


def _without_saves(age: str, floor: float, name: str, severity: str, *conditions: str) -> str:
    return lines(
        f"{age} >",
        grouped(
            either(
                f"clamp_min({_INTERVALS}, {number(floor)})",
                f"0 * {age} + {number(t.CHECKPOINT_UNKNOWN_INTERVAL_SECONDS)}",
            )
        ),
        *conditions,
        NOT_OVER,
        not_blind(name, severity),
    )


def _saves_limit(floor: float) -> str:
    return LIMIT + looked_up(
        "max(mljob:checkpoint_interval_seconds{JOB})",
        f"max({duration(floor)}, {number(t.CHECKPOINT_INTERVALS_ALLOWED)} intervals of {value_of()})",
        f"{duration(t.CHECKPOINT_UNKNOWN_INTERVAL_SECONDS)}, for its interval is not known",
    )


_TASKS_MISSING = lines(
    _BELOW_THE_GANG,
    where(current("mljob_tasks", 'state="running"') + " > 0"),
    where(in_state("running")),
    NOT_OVER,
    not_blind("MLJobTasksMissing", "warning"),
)

# Also of a job that is over: whether it is, is what the sources may disagree on.
_STATE_CONFLICT = lines(
    current("mljob_state_conflict") + " == 1",
    not_blind("MLJobStateConflict", "warning"),
)

PROGRESS_ALERTS = [
    Alert(
        "MLJobStalled",
        "critical",
        _STALLED,
        f"{RUN} has made no step for {{{{ $value | humanizeDuration }}}}",
        f"It runs, and logged no step for {{{{ $value | humanizeDuration }}}}{limit_of('mljob:stall_limit_seconds')}."
        f"{AT_STEP}",
        wait=t.ALERT_STALL_FOR_SECONDS,
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobBringupStuck",
        "warning",
        _BRINGUP_STUCK,
        f"{RUN} has made no first step for {{{{ $value | humanizeDuration }}}}",
        "Its newest attempt started {{ $value | humanizeDuration }} ago and has made no step"
        f"{limit_of('mljob:bringup_limit_seconds')}.",
        wait=t.ALERT_STALL_FOR_SECONDS,
    ),
    Alert(
        "MLJobNotResumed",
        "warning",
        _WAITING,
        f"{RUN} has not resumed for {{{{ $value | humanizeDuration }}}}",
        "No new step or result for {{ $value | humanizeDuration }} since the newest interruption, or since the newest "
        f"link of its chain started ({_RESUME_LIMIT}).{AT_STEP}",
    ),
    Alert(
        "MLJobNotResumed",
        "critical",
        _HANGING,
        f"{RUN} has run again for {{{{ $value | humanizeDuration }}}} and does nothing new",
        "The whole gang runs, and {{ $value | humanizeDuration }} after the later of its newest interruption and its "
        "newest attempt's start (without a scheduler: its newest row) no new step or result came "
        f"({_RESUME_LIMIT}): a hang.{AT_STEP}",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobSilentStall",
        "warning",
        _SILENT_STALL,
        f"{RUN} stood still without an interruption, and went on {{{{ $value | humanizeDuration }}}} ago",
        "A gap between logged steps ended {{ $value | humanizeDuration }} ago, and the scheduler shows no interruption "
        f"in it.{AT_STEP}",
    ),
    Alert(
        "MLJobRestartsWithoutProgress",
        "critical",
        _RESTARTS,
        f"{RUN} was interrupted {{{{ $value }}}} times without progress",
        "{{ $value }} interruptions since its newest complete checkpoint (without checkpoints: since its newest step "
        f"or result), the newest of them within {duration(t.RESTARTS_WITHOUT_PROGRESS_RECENT_SECONDS)}; limit "
        f"{t.RESTARTS_WITHOUT_PROGRESS_COUNT}.{AT_STEP}",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobTaskFailures",
        "warning",
        _TASK_FAILURES,
        f"{RUN} was interrupted by a failure, and goes on",
        f"A failure ended an attempt within the last {_SHOWN}; {{{{ $value }}}} such interruptions so far."
        f"{_ENDED_ALIKE}{AT_STEP}",
    ),
    Alert(
        "MLJobNoCheckpoint",
        "critical",
        _without_saves(
            "mljob:no_checkpoint_seconds",
            t.NO_CHECKPOINT_FLOOR_SECONDS,
            "MLJobNoCheckpoint",
            "critical",
            _HAS_NOTHING_TO_SAVE,
        ),
        f"{RUN} has no complete checkpoint after {{{{ $value | humanizeDuration }}}} of steps",
        "Its checkpoints were read and none is complete, {{ $value | humanizeDuration }} after its first step, or its "
        f"first new step after an interruption ({_saves_limit(t.NO_CHECKPOINT_FLOOR_SECONDS)}): all of it would be "
        f"lost.{AT_STEP}",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobCheckpointStale",
        "warning",
        _without_saves(
            "mljob:checkpoint_age_seconds",
            t.CHECKPOINT_STALE_FLOOR_SECONDS,
            "MLJobCheckpointStale",
            "warning",
            where(in_phase("stepping")),
            _STEPPING_UNKNOWN,
        ),
        f"{RUN} has saved no complete checkpoint for {{{{ $value | humanizeDuration }}}}",
        "It makes steps, and {{ $value | humanizeDuration }} passed since its newest complete checkpoint, or since its "
        "first new step after an interruption, if that was later "
        f"({_saves_limit(t.CHECKPOINT_STALE_FLOOR_SECONDS)}).{AT_STEP}",
    ),
    Alert(
        "MLJobTasksMissing",
        "warning",
        _TASKS_MISSING,
        f"{RUN} lacks tasks: {{{{ $value }}}} run or succeeded, fewer than its gang",
        "Running and succeeded tasks: {{ $value }}"
        f"{limit_of('mljob_tasks_expected', label='gang size', form='')}, for "
        f"{duration(t.ALERT_TASKS_MISSING_FOR_SECONDS)}. The others are gone or wait.",
        wait=t.ALERT_TASKS_MISSING_FOR_SECONDS,
    ),
    Alert(
        "MLJobStateConflict",
        "warning",
        _STATE_CONFLICT,
        f"The sources of {RUN} disagree on whether it is alive or moves",
        "Two sources that answered contradict each other for over "
        f"{duration(t.ALERT_STATE_CONFLICT_FOR_SECONDS)}: `runwatch explain` shows both.{AT_STEP}",
        wait=t.ALERT_STATE_CONFLICT_FOR_SECONDS,
    ),
]
