"""Jobs of which two replicas of the exporter tell unlike things, each job another situation; what is true is `a`'s."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.grafana.told_pages import HOUR, Told, sample

NAMES = (
    "a.b*c+", 'it\'s "quoted"', "back\\slash", "ünï/code #1@x&y=1", "$__all-2", "${site}", "<b>bold</b>",
    "{curly}|pipe",
    "  spaces  ", "100%", "All",
)  # fmt: skip
"""Names of runs that mean something to Grafana, PromQL, regular expressions, addresses or HTML."""


def gaps(told: Told, cause: str, ended: float) -> Told:
    """Tell of one gap of 25 minutes, by its cause."""
    for word in ("preemption", "unknown"):
        told.add("mljob_gaps", float(word == cause), cause=word)
        told.add("mljob_gap_seconds", 1500.0 * (word == cause), cause=word)
    return told.add("mljob_gap_end_timestamp_seconds", ended, cause=cause).add("mljob_step", 100)


def chunks(told: Told, done: float, turns: float) -> Told:
    for state, count in {"done": done, "running": 5 - done, "hung": 0, "failed": 0, "pending": 0}.items():
        told.add("mljob_chunks", count, state=state)
    return told.add("mljob_trials", 20).add("mljob_trial_turns", turns)


def grid(running: float, eta: float) -> str:
    cells = {"running": running, "pending": 0.0, "done": 3 - running, "failed": 0.0}
    counted = "".join(sample("runwatch_grid_cells", n, grid="g", site="grid", state=word) for word, n in cells.items())
    return counted + sample("runwatch_grid_long_pole", eta, grid="g", run="cell")


def ending(told: Told, ended: float) -> Told:
    """Tell that a link of a chain ran into its time limit."""
    told.add("mljob_end_timestamp_seconds", ended).add("mljob_end_reason", 1, reason="wall_time")
    return told.add("mljob_exit_code", 1)


def watched(bucket: str, jobs: float) -> str:
    return sample("runwatch_jobs", jobs, bucket=bucket)


def polls(source: str, since: float) -> str:
    """Tell of a source that is polled for 0.6 s of each second."""
    return sample("runwatch_poll_duration_seconds_sum", 0.6 * (time.time() - since), source=source, site="s")


class Replicas:
    """What the replicas tell; `later` from the second look on, `over` once all jobs have ended.

    The gap ends (`gap_ended`) when it is long known that the scheduler does not answer `b`: until the rules know that,
    two replicas with unlike causes are equally good.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self.gap_ended = False
        self.later = False
        self.over = False

    def a(self) -> str:
        """Return what the replica tells that all sources answer."""
        now = self.now
        if self.over:
            return Told("ended", now, state="succeeded", phase="finished", verdict="completed").text
        told = [
            Told("log-blind", now, sources=("scheduler", "history", "log")),
            self.gap(Told("gap", now), "preemption").add("mljob_interruptions", 1, cause="preemption"),
            Told("half-each", now, blind=("history",)),
            Told("next-link", now).add("mljob_step", 100).add("mljob_eta_seconds", HOUR),
            Told("disagree", now).add("mljob_step", 100),
            chunks(Told("dead", now, bucket="datagen", sources=("trials",)), 2, 1.05),
            chunks(Told("alive", now, bucket="datagen", sources=("trials",)), 2, 1.051),
            Told("at-limit", now, bucket="rl").add("mljob_rl_step", 1).add("mljob_rl_grad_norm", 1.0),
            Told("above-limit", now, bucket="rl").add("mljob_rl_step", 1).add("mljob_rl_grad_norm", 1.0001),
            Told("cell", now, site="grid"),
            *(Told(name, now, site="names").add("mljob_step", 100) for name in NAMES),
            *self.alike(),
        ]
        return (
            "".join(one.text for one in told)
            + grid(1, HOUR)
            + polls("history", now)
            + polls("log", now)
            + watched("sft", 20)
        )

    def b(self) -> str:
        """Return what the replica tells that is blind for each job in another way."""
        now, ended = self.now, self.now - HOUR
        if self.over:
            return self.a()
        timeout = Told("next-link", now, blind=("scheduler",), state="timeout", phase="finished", verdict="timeout")
        told = [
            Told("log-blind", now, sources=("scheduler", "history", "log"), blind=("log",), verdict="unobserved"),
            self.gap(Told("gap", now, blind=("scheduler",), verdict="unobserved"), "unknown"),
            Told("half-each", now, blind=("scheduler",)),
            ending(timeout, ended).add("mljob_step", 100),
            Told("disagree", now, state="failed", phase="finished", verdict="failed"),
            chunks(Told("dead", now, bucket="datagen", sources=("trials",)), 3, 1.05),
            Told("cell", now, site="grid", blind=("scheduler", "history")),
            *self.alike(),
        ]
        return "".join(one.text for one in told) + grid(3, 30 * HOUR) + polls("history", now)

    def gap(self, told: Told, cause: str) -> Told:
        """Tell of a gap by its cause once it ended: half an hour after the scheduler last answered `b`."""
        return gaps(told, cause, self.now - HOUR / 2) if self.gap_ended else told

    def alike(self) -> Iterator[Told]:
        """Yield what both replicas tell."""
        now = self.now
        yield Told("relabelled", now, owner="bo" if self.later else "ana").add("mljob_step", 100)
        unread = ("history", "log") if self.later else ("history",)
        yield Told("unread", now, site="unread", sources=("history", "log"), blind=unread, verdict="unobserved")
        if not self.later:
            yield Told("forgotten", now).add("mljob_step", 100)

    def c(self) -> str:
        """Return what a shard of its own tells, which goes down."""
        return "" if self.later else Told("elsewhere", self.now, site="c").add("mljob_step", 100).text
