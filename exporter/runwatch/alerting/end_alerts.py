"""Alerts on how a job ended. An end that was seen stays true: no blindness keeps them from firing."""

from __future__ import annotations

from runwatch import thresholds as t
from runwatch.alerting.promql import (
    JOB,
    but_not,
    current,
    duration,
    either,
    firing,
    in_state,
    indented,
    lines,
    number,
    where,
)
from runwatch.alerting.records import UNREAD_SCHEDULER
from runwatch.alerting.rules import Alert
from runwatch.alerting.texts import AT_STEP, RUN, limit_of

_NO_SUCCESSOR = but_not("mljob:successor")


def _ended(state: str, matchers: str = "") -> str:
    selector = in_state(state) if not matchers else in_state(state).replace("}", f", {matchers}}}")
    return f"max by ({JOB}) ({selector})"


def _failed(severity: str, matchers: str) -> str:
    """The recorded end is that of the run: a link that failed while the next one waits has none.

    After a restart of the exporter a failure that only the run told is in doubt until its scheduler was read, or was
    asked for long: none begins on it, and one that fires goes on.
    """
    return either(
        lines(
            _ended("failed", matchers),
            where(f"time() - mljob:end_timestamp_seconds <= {number(t.FAILED_SHOWN_SECONDS)}"),
        ),
        lines(
            f"max by ({JOB}) ({in_state('unknown')})",
            where(UNREAD_SCHEDULER),
            where(firing("MLJobFailed", severity)),
        ),
    )


# For how long it has had no task is not known after a restart of the exporter, nor when nobody could look: it is borne
# anew then, and one that fires goes on.
_VANISHED = either(
    _ended("vanished"),
    lines(
        f"sum by ({JOB}) (\n{indented(current('mljob_tasks', keep='state'))}\n) == 0",
        where(in_state("running")),
        where(firing("MLJobVanished", "critical")),
    ),
)

# Levanter numbers its steps from 0: its last one is target - 1.
_STEPS_MISSING = lines(current("mljob_target_step"), "-", current("mljob_step"), "> 1")
# Its history was read, for that tells the target too, and holds no step; and no checkpoint tells of any.
_NO_STEP_MADE = lines(current("mljob_target_step"), but_not("mljob_step"), but_not("mljob_checkpoint_step"))
_TRIALS_MISSING = lines(current("mljob_trials_target"), "-", current("mljob_trials"), "> 0")

_REASON = (
    "{{ range printf `mljob_end_reason{run=%q,site=%q} == 1` $labels.run $labels.site | query }}"
    " Reason: {{ .Labels.reason }}.{{ end }}"
)
_RESULTS = limit_of("mljob_trials", label="results:", form="")

_FAILED_TEXT = f"It ended in failure within the last {duration(t.FAILED_SHOWN_SECONDS)}, and no successor waits."

END_ALERTS = [
    Alert(
        "MLJobFailed",
        "critical",
        _failed("critical", 'bucket!="other"'),
        f"{RUN} failed",
        f"{_FAILED_TEXT}{_REASON}{AT_STEP}",
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
    Alert(
        "MLJobFailed",
        "warning",
        _failed("warning", 'bucket="other"'),
        f"{RUN} failed",
        f"{_FAILED_TEXT}{_REASON}{AT_STEP}",
    ),
    Alert(
        "MLJobTimedOut",
        "warning",
        lines(_ended("timeout"), where(either(_STEPS_MISSING, _NO_STEP_MADE, _TRIALS_MISSING)), _NO_SUCCESSOR),
        f"{RUN} ended at its wall-time limit before it was done, and its chain ran out",
        f"Steps or results are missing and no successor waits{_RESULTS}.{AT_STEP}",
    ),
    Alert(
        "MLJobTracesStranded",
        "warning",
        lines(
            _ended("timeout", 'bucket="datagen"'),
            where(current("mljob_upload_complete") + " == 0"),
            _NO_SUCCESSOR,
        ),
        f"The traces of {RUN} are not uploaded, and it is over",
        f"It ended at its wall-time limit before its upload was complete{_RESULTS}: consolidate by hand.",
    ),
    Alert(
        "MLJobVanished",
        "critical",
        _VANISHED,
        f"{RUN} vanished",
        f"Its record is gone, or it counts as running without a task, and no source saw it end.{AT_STEP}",
        wait=t.ALERT_VANISHED_FOR_SECONDS,
        keep=t.ALERT_KEEP_FIRING_SECONDS,
    ),
]
