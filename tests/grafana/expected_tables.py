"""What the tables of the dashboards must show of the fleet, worked out by hand from `fleet.py`.

A cell is its text. Of a cell whose value moves while the tests run, such as an age, it is the range that the value is
in, by the smallest value that it can have and how far a slow run may push it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DASH = "—"


@dataclass(frozen=True, slots=True)
class Within:
    """A number with its unit, from `low` to `high`."""

    low: float
    high: float
    unit: str

    def holds(self, text: str) -> bool:
        """Tell whether a cell's text is such a number."""
        found = re.fullmatch(rf"(-?[\d.]+) ?{re.escape(self.unit)}", text)
        return found is not None and self.low <= float(found[1]) <= self.high


class Moment:
    """A point in time, written to the second."""

    def holds(self, text: str) -> bool:
        """Tell whether a cell's text is one."""
        return re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", text) is not None


Cell = str | Within | Moment
SLOW = 4.0
"""How many minutes after the fleet was written the panels are looked at, at most."""


def minutes(age: float) -> Within:
    return Within(age, age + SLOW, "mins")


def shows(expected: Cell, text: str) -> bool:
    return text == expected if isinstance(expected, str) else expected.holds(text)


@dataclass(frozen=True, slots=True)
class Table:
    """One table: rows in order, each the cells by column. `coloured` are the cells (row, column) that have a colour."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    coloured: Mapping[tuple[int, str], str]


RED, ORANGE, BLUE, GREY = "#F2495C", "#FF9830", "#5794F2", "#808080"

# One step a minute: 140 to go are 2 h 20 min, 80 are 1 h 20 min. The collapse comes first.
RL = Table(
    ("Job", "Site", "Shaping", "State", "Step", "Target", "Reward", "pass@N", "N", "Policy Loss", "Grad Norm",
     "Entropy", "log-ratio (policy)", "TIS log-ratio", "Trend"),
    [
        ("collapsed-rl", "desk", "shaped", "running", "20", "100", "0.250", "0.500", "8", "0.0125", "1.500", "0.375",
         "0.0112", "0.0312", "collapse"),
        ("math-rl", "lab", "base", "running", "60", "200", "0.250", "0.500", "8", "0.0125", "0.310", "0.750",
         "0.0112", "0.0312", "checkpoint saved"),
    ],
    {(0, "Shaping"): BLUE, (0, "Grad Norm"): ORANGE, (0, "Trend"): RED},
)  # fmt: skip

# 120 x 1,024 tokens in 60 s are 2,048 a second; 186 min are 3.1 h, 150 min 2.5 h. `delphi` of the desk has no config:
# no target, so no ETA, and no tokens. Of an ended job there is no ETA.
SFT = Table(
    ("Job", "Site", "State", "Step", "Target", "Loss", "Grad Norm", "tok/s", "ETA", "Trend"),
    [
        ("done-sft", "lab", "succeeded", "50", "50", "1.2500", "0.200", "2,048", DASH, "completed"),
        ("delphi", "lab", "running", "214", "400", "2.2500", "0.450", "2,048", "3.1 hours", "checkpoint saved"),
        ("delphi", "desk", "running", "100", DASH, "3.0000", "0.600", DASH, DASH, "stable"),
        ("lr-a", "lab", "running", "50", "200", "1.5000", "0.250", "2,048", "2.5 hours", "stable"),
    ],
    {(0, "State"): GREY, (0, "Trend"): GREY},
)

# Six results of 12, turns (4 x 4 + 6 + 8) / 6 = 5, reward 3 of 5, one exception of 6. One chunk is still to come.
DATAGEN = Table(
    ("Run", "Site", "Tracker row", "State", "Chunks", "of", "Running", "Hung", "Failed", "Trials", "avg_turns", "Mean",
     "exc%", "Trend"),
    [("datagen-qwen", "desk", "112", "running", "1", "3", "1", "0", "0", "6", "5.00", "0.600", "16.7%", "stable")],
    {},
)  # fmt: skip

# Four results have a reward, two of these passed.
EVAL = Table(
    ("Model × benchmark", "Site", "Kind", "State", "Trials", "Target", "pass-rate", "top exception", "Exceptions",
     "Tunnel", "API base", "Engine", "Progress", "Trend"),
    [
        ("tb2-qwen", "desk", "terminal-bench-2", "running", "5", "20", "0.500", "AgentTimeoutError", "2", "passed",
         "passed", "passed", "passed", "stable"),
    ],
    {},
)  # fmt: skip

# `gpu-ci` ran for half an hour.
OTHER = Table(
    ("Job", "Site", "Type", "State", "Elapsed", "Note"),
    [
        ("gpu-ci", "lab", "gpu-ci", "failed", "30.0 mins", "failed"),
        ("publish", "lab", "datagen-consolidate", "running", minutes(30), DASH),
    ],
    {(0, "State"): RED, (0, "Note"): RED},
)

# `delphi` of the lab was preempted once and stood still from step 119 (2 h ago) to step 120 (95 min ago): 25 min.
# Goodput: productive time (a step each minute) over the time since the start. `math-rl` 60 of 120 min, `delphi` of the
# lab 215 of 241, `lr-a` 50 of 60, `done-sft` 50 of 60. Without a scheduler a job starts at its first step.
TRAINING_HEALTH = Table(
    ("Job", "Site", "State", "Step", "Target", "tok/s", "Preempts", "Preempts*", "Gaps", "Gap time", "Unexplained",
     "Checkpoint", "Lag", "Age", "Goodput", "ETA", "Trend"),
    [
        ("collapsed-rl", "desk", "running", "20", "100", DASH, DASH, DASH, "0", "0 s", DASH, DASH, DASH, DASH,
         Within(76, 95, "%"), "1.3 hours", "collapse"),
        ("done-sft", "lab", "succeeded", "50", "50", "2,048", "0", DASH, "0", "0 s", "0", DASH, DASH, DASH,
         "83.3%", DASH, "completed"),
        ("delphi", "lab", "running", "214", "400", "2,048", "1", DASH, "1", "25.0 mins", "0", "200", "14", minutes(15),
         Within(87, 89.3, "%"), "3.1 hours", "checkpoint saved"),
        ("math-rl", "lab", "running", "60", "200", DASH, "0", DASH, "0", "0 s", "0", "50", "10", minutes(10.5),
         Within(48, 50, "%"), "2.3 hours", "checkpoint saved"),
        ("delphi", "desk", "running", "100", DASH, DASH, DASH, DASH, "0", "0 s", DASH, DASH, DASH, DASH,
         Within(94, 99.1, "%"), DASH, "stable"),
        ("lr-a", "lab", "running", "50", "200", "2,048", "0", DASH, "0", "0 s", "0", DASH, DASH, DASH,
         Within(78, 83.4, "%"), "2.5 hours", "stable"),
    ],
    {(0, "Trend"): RED, (1, "State"): GREY, (1, "Trend"): GREY},
)  # fmt: skip

# Of `unread` nothing could be looked at: it is unknown, which is neither running nor waiting.
BRINGUP = Table(
    ("Job", "Site", "Bucket", "State", "Since", "For", "Step", "Target", "Phase", "Waits for", "Trend"),
    [
        ("bringup-rl", "desk", "rl", "running", Moment(), minutes(10), DASH, "100", "bringup", DASH, "deep probe"),
        ("unread", "desk", "sft", "unknown", DASH, DASH, DASH, DASH, DASH, DASH, "unknown"),
        ("lr-b", "lab", "sft", "pending", DASH, DASH, DASH, DASH, DASH, "capacity", "queued"),
        ("lr-c", "lab", "sft", "pending", DASH, DASH, DASH, DASH, DASH, "queue", "queued"),
        ("queued-sft", "lab", "sft", "pending", DASH, DASH, DASH, DASH, DASH, "queue", "queued"),
    ],
    {(0, "Trend"): ORANGE, (1, "State"): ORANGE, (1, "Trend"): ORANGE},
)

FIRING = Table(
    ("Alert", "Severity", "Job", "Site", "Bucket", "Source", "Action", "Since"),
    [
        ("MLJobRLCollapse", "critical", "collapsed-rl", "desk", "rl", DASH, "recommend", Moment()),
        ("MLJobFailed", "warning", "gpu-ci", "lab", "other", DASH, DASH, Moment()),
        ("MLJobRLGradNormHigh", "warning", "collapsed-rl", "desk", "rl", DASH, DASH, Moment()),
    ],
    {(0, "Severity"): RED, (1, "Severity"): ORANGE, (2, "Severity"): ORANGE},
)

NONE = "0"
BY_STATE = Table(
    ("Bucket", "pending", "running", "preempted", "succeeded", "failed", "timeout", "killed", "vanished", "unknown"),
    [
        ("datagen", NONE, "1", NONE, NONE, NONE, NONE, NONE, NONE, NONE),
        ("eval", NONE, "1", NONE, NONE, NONE, NONE, NONE, NONE, NONE),
        ("other", NONE, "1", NONE, NONE, "1", NONE, NONE, NONE, NONE),
        ("rl", NONE, "3", NONE, NONE, NONE, NONE, NONE, NONE, NONE),
        ("sft", "3", "3", NONE, "1", NONE, NONE, NONE, NONE, "1"),
    ],
    {(2, "failed"): RED, (4, "unknown"): ORANGE},
)

FLEET_TABLES = {
    "Firing alerts": FIRING, "Jobs by bucket and state": BY_STATE, "RL": RL, "SFT": SFT, "Datagen": DATAGEN,
    "Eval": EVAL, "Other": OTHER, "Training health": TRAINING_HEALTH, "Bring-up: no step or result yet": BRINGUP,
}  # fmt: skip

FLEET_STATS = {
    "Firing: critical": {"critical": "1"},
    "Firing: warning": {"warning": "2"},
    "Jobs in trouble": {"Jobs in trouble": "2"},  # a collapse, a failure
    "Jobs to look at": {"Jobs to look at": "2"},  # `bringup-rl` is marked as a new setting, `unread` is unknown
    "Jobs that are not over, by bucket": {"datagen": "1", "eval": "1", "other": "1", "rl": "3", "sft": "7"},
}
