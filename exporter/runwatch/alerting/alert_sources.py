"""Which alerts are made from which source's facts: the one table for blindness in the rules and for inhibition.

An alert stands here with the sources without which it cannot be told to be true. While one of them is blind it does not
begin to fire; while one is down at a site, Alertmanager mutes it there. A source that can only add to an alert is not
named: trials may add a signal to a collapse, which its gradient norm and entropy show without them.

`MLJobFailed`, `MLJobTimedOut` and `MLJobTracesStranded` are in no row: an end that was seen stays true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runwatch.facts import SourceKind

WORK = "work"
"""In the table: the history of a job whose work is steps, the trials of one whose work is results."""

_SCHEDULER, _HISTORY = SourceKind.SCHEDULER.value, SourceKind.HISTORY.value
_CHECKPOINTS, _TRIALS, _LOG = SourceKind.CHECKPOINTS.value, SourceKind.TRIALS.value, SourceKind.LOG.value

ALERT_SOURCES: Mapping[str, tuple[str, ...]] = {
    "MLJobStalled": (_SCHEDULER, _HISTORY),
    "MLJobBringupStuck": (_SCHEDULER, _HISTORY),
    "MLJobNotResumed": (_SCHEDULER, WORK),
    "MLJobSilentStall": (_SCHEDULER, _HISTORY),
    "MLJobRestartsWithoutProgress": (_SCHEDULER, _CHECKPOINTS),
    "MLJobThroughputDegraded": (_HISTORY,),
    "MLJobNoCheckpoint": (_CHECKPOINTS,),
    "MLJobCheckpointStale": (_HISTORY, _CHECKPOINTS),
    "MLJobNonFinite": (_HISTORY,),
    "MLJobGradExplosion": (_HISTORY,),
    "MLJobRLCollapse": (_HISTORY,),
    "MLJobRLGradNormHigh": (_HISTORY,),
    "MLJobRLClipRatioHigh": (_HISTORY,),
    "MLJobRLImportanceRatioOff": (_HISTORY,),
    "MLJobDeadEngine": (_TRIALS,),
    "MLJobTrialsStalled": (_SCHEDULER, _TRIALS),
    "MLJobEngineIdle": (_SCHEDULER, _TRIALS, _LOG),
    "MLJobZombie": (_SCHEDULER, WORK),
    "MLJobInstantFailures": (_TRIALS,),
    "MLJobTaskFailures": (_SCHEDULER,),
    "MLJobAuthFailures": (_LOG,),
    "MLJobLossDiverging": (_HISTORY,),
    "MLJobVanished": (_SCHEDULER,),
    "MLJobTasksMissing": (_SCHEDULER,),
    "MLJobStateConflict": (_SCHEDULER, _HISTORY, _CHECKPOINTS),
}

TRIAL_BUCKETS = "datagen|eval"
_BUCKETS_OF_WORK = {_HISTORY: f'bucket!~"{TRIAL_BUCKETS}"', _TRIALS: f'bucket=~"{TRIAL_BUCKETS}"'}


def muted_by(source: str) -> Iterator[list[str]]:
    """Yield Alertmanager's matchers of the alerts that are made from a source's facts."""
    named = [alert for alert, sources in ALERT_SOURCES.items() if source in sources]
    if named:
        yield [f'alertname=~"{"|".join(named)}"']
    of_work = [alert for alert, sources in ALERT_SOURCES.items() if WORK in sources]
    if source in _BUCKETS_OF_WORK and of_work:
        yield [f'alertname=~"{"|".join(of_work)}"', _BUCKETS_OF_WORK[source]]
