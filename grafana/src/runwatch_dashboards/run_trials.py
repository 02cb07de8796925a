"""The *Run* dashboard: results of datagen and eval jobs, and the engine and the checks that they depend on."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import statetimeline, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery

from runwatch import thresholds as t
from runwatch.alerting.promql import JOB, number
from runwatch.figures import percent
from runwatch_dashboards import palette
from runwatch_dashboards.graphs import coloured, dashed, graph, line, stacked, stepped, timeline
from runwatch_dashboards.panels import limited, prop
from runwatch_dashboards.queries import OF_RUN, value


def _of(metric: str, legend: str, ref: str = "A", keep: str = "") -> Dataquery:
    return line(ref, value(metric, OF_RUN, keep=keep), legend)


_CHUNK_STATES = {
    "done": palette.GOOD,
    "running": palette.NEUTRAL,
    "hung": palette.BAD,
    "failed": palette.WARNING,
    "pending": palette.GREY,
}


def checks() -> statetimeline.Panel:
    """Return the launch checks, and the upload of traces, over time."""
    words = {"0": ("no", palette.WARNING), "1": ("yes", palette.GOOD)}
    uploaded = {"0": ("not yet", palette.GREY), "1": ("yes", palette.GOOD)}
    return (
        timeline(
            "Launch checks and upload",
            "Whether tunnel, address, engine and progress were seen in the log, and whether the traces are uploaded. "
            "A hole: "
            "not seen either way.",
            [
                _of("mljob_infra_check", "{{check}}", "check", keep="check"),
                _of("mljob_upload_complete", "uploaded", "upload"),
            ],
        )
        .mappings([palette.missing(), palette.words(words)])
        .override_by_query("upload", [prop("mappings", [palette.missing(), palette.words(uploaded)])])
        .height(6)
    )


def _results() -> Iterator[timeseries.Panel]:
    yield stepped(
        graph(
            "Results against target",
            "Results over the whole job, those that were scored, and how many there will be.",
            "locale",
            [
                _of("mljob_trials", "results", "results"),
                _of("mljob_trials_scored", "scored", "scored"),
                _of("mljob_trials_agent_ran", "agent ran", "ran"),
                _of("mljob_trials_target", "target", "target"),
            ],
        )
    ).override_by_query("target", dashed(palette.NEUTRAL))
    seen = (
        f"min by ({JOB}) (max by ({JOB}, source) "
        f'(mljob_observed_timestamp_seconds{{{OF_RUN}, source=~"trials|scheduler", bucket=~"datagen|eval"}}))'
    )
    age = f"{seen} - {value('mljob_last_trial_timestamp_seconds', OF_RUN)}"
    limits = " or ".join(
        f'0 * max by ({JOB}) (mljob_trials{{{OF_RUN}, bucket="{bucket}"}}) + {number(seconds)}'
        for bucket, seconds in (("eval", t.TRIALS_STALLED_EVAL_SECONDS), ("datagen", t.TRIALS_STALLED_DATAGEN_SECONDS))
    )
    yield (
        graph(
            "Time since the last result",
            "When trials and scheduler last answered. Above the limit no results come, while some are missing; the "
            "rule counts "
            "from the newest attempt's start where that is later.",
            "s",
            [line("age", age, "since the last result"), line("limit", limits, "limit")],
        )
        .override_by_query("limit", dashed(palette.BAD))
        .min(0)
    )
    yield graph(
        "Pass ratio and mean reward",
        "Share of scored trials with a reward above 0, and the mean reward of scored ones.",
        "none",
        [_of("mljob_trial_pass_ratio", "pass ratio", "ratio"), _of("mljob_trial_reward", "mean reward", "reward")],
    )


def _trials() -> Iterator[timeseries.Panel]:
    yield limited(
        graph(
            "Turns a trial",
            f"Mean, of trials whose agent ran. At the line or below, over {t.DEAD_ENGINE_TRIALS_COUNT} trials or "
            "more, the engine is "
            "dead (datagen), where a trial has more than one turn.",
            "none",
            [_of("mljob_trial_turns", "mean turns")],
        ),
        (t.DEAD_ENGINE_TURNS, palette.GOOD),
        base=palette.BAD,
    ).min(0)
    yield stepped(
        stacked(
            graph(
                "Exceptions by class",
                "Trials with an exception. Timeouts and full contexts of agents are no fault: such a trial is scored.",
                "locale",
                [_of("mljob_trial_exceptions", "{{exception}}", keep="exception")],
            )
        )
    )
    yield (
        graph(
            "Share of trials with an exception",
            "Of all trials, whatever the exception.",
            "percentunit",
            [_of("mljob_trial_exception_ratio", "with an exception")],
        )
        .axis_soft_min(0)
        .axis_soft_max(1)
    )
    yield limited(
        stepped(
            graph(
                "Instant failures",
                "No output tokens and over as it began. From the line on, and over "
                f"{percent(t.INSTANT_FAILURES_SHARE)} of the "
                "trials, do not use the results.",
                "locale",
                [_of("mljob_trial_instant_failures", "instant failures")],
            )
        ),
        (t.INSTANT_FAILURES_COUNT, palette.BAD),
        base=palette.GOOD,
    ).min(0)
    chunks = stepped(
        stacked(
            graph(
                "Chunks by state",
                "Datagen chunks. Hung: it runs, its log is silent and its trials do not move, for "
                f"{number(t.CHUNK_HUNG_SECONDS / t.HOUR)} h.",
                "none",
                [_of("mljob_chunks", "{{state}}", keep="state")],
            )
        )
    )
    yield coloured(chunks, _CHUNK_STATES)


def _engine() -> Iterator[timeseries.Panel]:
    yield graph(
        "Requests that the engine runs",
        "By its newest reports in the log.",
        "locale",
        [_of("mljob_engine_running_requests", "running")],
    ).min(0)
    log_seen = f'max by ({JOB}) (mljob_observed_timestamp_seconds{{{OF_RUN}, source="log"}})'
    yield limited(
        graph(
            "Time since the engine's last answer 200",
            "When the log was last read. Above the line, and without a running request, the engine is idle.",
            "s",
            [
                line(
                    "age", f"{log_seen} - {value('mljob_engine_last_success_timestamp_seconds', OF_RUN)}", "since a 200"
                )
            ],
        ),
        (t.ENGINE_IDLE_SECONDS, palette.WARNING),
        base=palette.GOOD,
    ).min(0)
    yield limited(
        stepped(
            graph(
                "Refusals by the sandbox provider",
                f"In the {number(t.AUTH_FAILURES_SECONDS / t.MINUTE)} min before the log was read. From the line on "
                "its key is wrong, "
                "or it is used up.",
                "locale",
                [_of("mljob_auth_failures", "refusals")],
            )
        ),
        (t.AUTH_FAILURES_COUNT, palette.WARNING),
        base=palette.GOOD,
    ).min(0)


def results() -> Iterator[timeseries.Panel]:
    """Yield the graphs of a datagen or eval job's results."""
    yield from _results()
    yield from _trials()
    yield from _engine()
