"""Measurements from a job's logs: their last write, the engine, what stands around it, and what was set aside."""

from __future__ import annotations

from runwatch.facts import LogFacts, SourceKind
from runwatch.figures import duration
from runwatch.measurements import Evidence, Measurements
from runwatch.thresholds import AUTH_FAILURES_SECONDS, ENGINE_IDLE_SECONDS

_ENGINE_BUCKETS = ("datagen", "eval")
_TOPIC = "log"


def measure_log(measured: Measurements, facts: LogFacts, *, bucket: str, observed: float) -> list[Evidence]:
    """Set what the logs tell, and return the evidence for it.

    Args:
        measured: where it is set.
        facts: what was read.
        bucket: the job's; engine, uploads and launch checks are measured for datagen and eval only.
        observed: when the logs were last read, Unix seconds. Ages end there, not now.
    """
    measured.set("mljob_log_last_write_timestamp_seconds", facts.last_write)
    evidence = [Evidence(_TOPIC, f"read: {', '.join(facts.files) or 'no file'}")]
    if bucket in _ENGINE_BUCKETS:
        evidence += _measure_engine(measured, facts, observed)
        evidence += _measure_surroundings(measured, facts)
        evidence += _measure_console(measured, facts)
    if bucket == "datagen":
        evidence += _measure_upload(measured, facts)
    evidence += [
        Evidence(
            _TOPIC,
            f"end: {failure.reason}: {failure.text}",
            {} if failure.time is None else {"failure_timestamp_seconds": failure.time},
        )
        for failure in facts.failures
    ]
    if facts.unparsed:
        text = f"lines that look like metrics and could not be read: {facts.unparsed}"
        evidence.append(Evidence(_TOPIC, text, {"lines": facts.unparsed}))
    return [*evidence, *_ignored(facts), *(Evidence(_TOPIC, note) for note in facts.notes)]


def _measure_engine(measured: Measurements, facts: LogFacts, observed: float) -> list[Evidence]:
    running, success = facts.running_requests, facts.last_success
    evidence: list[Evidence] = []
    reported = facts.running_requests_time
    is_current = reported is None or observed - reported <= ENGINE_IDLE_SECONDS
    # An engine that runs requests reports them all the time, one that runs none falls silent.
    measured.set("mljob_engine_running_requests", running if is_current or not running else None)
    measured.set("mljob_engine_last_success_timestamp_seconds", success)
    if facts.auth_failures:
        recent = [time for time in facts.auth_failures if observed - time <= AUTH_FAILURES_SECONDS]
        measured.set("mljob_auth_failures", len(recent))
        text = f"the sandbox provider refused {len(recent)} times within {duration(AUTH_FAILURES_SECONDS)}"
        evidence.append(Evidence(_TOPIC, text, {"newest_timestamp_seconds": max(facts.auth_failures)}))
    if running is None and success is None:
        return evidence
    serves = bool(running) and is_current
    answers = success is not None and observed - success <= ENGINE_IDLE_SECONDS
    measured.set("mljob_infra_check", float(serves or answers), check="engine")
    fields: dict[str, object] = {"running_requests": running}
    if reported is not None:
        fields["reported_timestamp_seconds"] = reported
    if success is not None:
        fields["last_success_timestamp_seconds"] = success
    return [*evidence, Evidence(_TOPIC, "engine: its newest reports and answers 200 in the log", fields)]


def _measure_surroundings(measured: Measurements, facts: LogFacts) -> list[Evidence]:
    evidence = []
    if facts.tunnel_up is not None:
        measured.set("mljob_infra_check", float(facts.tunnel_up), check="tunnel")
    if facts.api_base_public is not None:
        measured.set("mljob_infra_check", float(facts.api_base_public), check="api_base")
        kind = "public" if facts.api_base_public else "internal: a sandbox elsewhere cannot reach it"
        evidence.append(Evidence(_TOPIC, f"api_base points at {facts.api_base_host}, {kind}"))
    if facts.auth_failures_without_time:
        text = f"{facts.auth_failures_without_time} refusals by the sandbox provider carry no time and are not counted"
        evidence.append(Evidence(_TOPIC, text))
    return evidence


def _measure_console(measured: Measurements, facts: LogFacts) -> list[Evidence]:
    """Take the count of trials from Harbor's own console where no results were read, and say where it comes from.

    What is drawn is of one run of Harbor: of several runs, or of one datagen chunk, it is not the whole job's. Where
    the folder of the trials answered, be it that nothing is there, the console counts for nothing. The printed mean is
    no measurement: versions 0.1.x count trials without a reward as 0.
    """
    if facts.console is None:
        return []
    frame, runs = facts.console.frame, facts.console.runs
    text = f"Harbor's console: {frame.done} of {frame.total} trials"
    fields: dict[str, object] = {"done": frame.done, "total": frame.total}
    if frame.value is not None:
        text += f", it prints {frame.label} {frame.value:.3f} (what that is over differs by version: not used)"
        fields["printed"] = frame.value
    answered = measured.get("mljob_observed_timestamp_seconds", source=SourceKind.TRIALS.value) is not None
    known = (measured.get(name) is not None for name in ("mljob_trials", "mljob_trials_target"))
    if answered or any(known):
        why = "not counted: the folder of the trials was looked at"
    elif facts.chunk is not None and facts.chunks != 1:
        why = "not counted: it is of one chunk"
    elif runs > 1:
        why = f"not counted: the log holds {runs} runs of Harbor, and this is of the last"
    else:
        measured.set("mljob_trials", frame.done)
        measured.set("mljob_trials_target", frame.total)
        why = "counted, since no results were read"
    return [Evidence(_TOPIC, f"{text}; {why}", fields)]


def _measure_upload(measured: Measurements, facts: LogFacts) -> list[Evidence]:
    uploaded = len(facts.uploaded_chunks)
    chunks = sum(measured.family("mljob_chunks").values())  # by the folder of the trials: some may have no log yet
    complete = facts.upload_complete is True and not 0 < uploaded < chunks
    measured.set("mljob_upload_complete", float(complete))
    if complete:
        measured.set("mljob_upload_timestamp_seconds", facts.upload_time)
        return [Evidence(_TOPIC, "upload: the log says that it is complete")]
    if uploaded and facts.upload_complete is not False:
        some = "1 chunk is uploaded" if uploaded == 1 else f"{uploaded} chunks are uploaded"
        return [Evidence(_TOPIC, f"upload: the logs say that {some}, not that all are", {"uploaded": uploaded})]
    failed = facts.upload_complete is False
    return [Evidence(_TOPIC, "upload: it failed" if failed else "upload: the log holds no line of a completed one")]


def _ignored(facts: LogFacts) -> list[Evidence]:
    evidence = []
    for kind in facts.ignored:
        text = f"ignored {kind.count} lines as benign: {kind.reason}"
        fields: dict[str, object] = {"count": kind.count, "newest": kind.example}
        if kind.fault:
            text = f"not benign here: {kind.reason}, {kind.count} lines, beside a fault"
            fields["beside"] = kind.fault
        evidence.append(Evidence(_TOPIC, text, fields))
    return evidence
