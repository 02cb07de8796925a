"""The columns of the tables, once: terminal, page and dashboards are made from these lists."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CellFormat(StrEnum):
    """How a cell is made from a job's report."""

    NAME = "the job's name, with its site and shaping where they matter"
    BUCKET = "the job's bucket"
    STATE = "the job's state"
    STEP_OF_TARGET = "current step / last step"
    FIXED = "a number with fixed decimals"
    FIXED_OF_LARGEST_N = "a number with fixed decimals, of the series with the largest label value"
    WHOLE = "a whole number with thousands separators"
    PERCENT = "a ratio as percent"
    DURATION = "a length of time"
    PREEMPTIONS = "gang interruptions by preemption"
    GAPS = "count / hours of closed gaps, and how many of them nothing explains"
    CHECKPOINT = "step, lag and age of the newest complete checkpoint"
    SINCE = "when the job started, and how long that is ago"
    ELAPSED = "time since the job's start, to its end"
    WAITING = "what a job without a step waits for"
    TREND = "what matters most now, in words, worst first"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `metrics` are names of the catalogue, in the order that the format takes them. `labels` picks one series of a
    metric with added labels. `decimals` counts for numbers and percents.
    """

    title: str
    format: CellFormat
    metrics: tuple[str, ...] = ()
    decimals: int = 0
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether a cell may be wrapped. Figures never are."""
        return self.format in {CellFormat.NAME, CellFormat.TREND, CellFormat.WAITING}


@dataclass(frozen=True, slots=True)
class TableKind:
    """One table: its key for scripts, its title and its columns, the job first and the words last."""

    key: str
    title: str
    columns: tuple[Column, ...]


_JOB = Column("Job", CellFormat.NAME)
_BUCKET = Column("Bucket", CellFormat.BUCKET)
_STATE = Column("State", CellFormat.STATE, ("mljob_state",))
_STEP = Column("Step", CellFormat.STEP_OF_TARGET, ("mljob_step", "mljob_target_step"))
_TOKENS = Column("tok/s", CellFormat.WHOLE, ("mljob_tokens_per_second",))
_ETA = Column("ETA", CellFormat.DURATION, ("mljob_eta_seconds",))
_TREND = Column("Trend", CellFormat.TREND, ("mljob_trend",))

RL_TABLE = TableKind(
    "rl",
    "RL",
    (
        _JOB,
        _STEP,
        Column("Reward", CellFormat.FIXED, ("mljob_rl_reward",), decimals=3),
        Column("pass@N", CellFormat.FIXED_OF_LARGEST_N, ("mljob_rl_pass_at_n",), decimals=3),
        Column("Policy Loss", CellFormat.FIXED, ("mljob_rl_policy_loss",), decimals=4),
        Column("Grad Norm", CellFormat.FIXED, ("mljob_rl_grad_norm",), decimals=3),
        Column("Entropy", CellFormat.FIXED, ("mljob_rl_policy_entropy",), decimals=3),
        Column(
            "log-ratio (policy)", CellFormat.FIXED, ("mljob_rl_log_ratio_abs",), decimals=4, labels=(("stat", "mean"),)
        ),
        Column("TIS log-ratio", CellFormat.FIXED, ("mljob_rl_tis_log_ratio_abs_mean",), decimals=4),
        _TREND,
    ),
)

SFT_TABLE = TableKind(
    "sft",
    "SFT",
    (
        _JOB,
        _STEP,
        Column("Loss", CellFormat.FIXED, ("mljob_loss",), decimals=4),
        Column("Grad Norm", CellFormat.FIXED, ("mljob_grad_norm",), decimals=3),
        _TOKENS,
        _ETA,
        _TREND,
    ),
)

TRAINING_HEALTH_TABLE = TableKind(
    "training_health",
    "Training health",
    (
        _JOB,
        _STEP,
        _TOKENS,
        # Attempts are what preemptions are counted from; where no scheduler was read there is nothing to count.
        Column("Preempts", CellFormat.PREEMPTIONS),
        Column("Gaps", CellFormat.GAPS, ("mljob_gaps", "mljob_gap_seconds")),
        Column(
            "Checkpoint",
            CellFormat.CHECKPOINT,
            ("mljob_checkpoint_step", "mljob_checkpoint_lag_steps", "mljob_checkpoint_timestamp_seconds"),
        ),
        Column("Goodput", CellFormat.PERCENT, ("mljob_goodput_ratio",), decimals=1),
        _ETA,
        _TREND,
    ),
)

BRINGUP_TABLE = TableKind(
    "bringup",
    "Bring-up: no step yet",
    (
        _JOB,
        _BUCKET,
        _STATE,
        Column("Since", CellFormat.SINCE, ("mljob_start_timestamp_seconds",)),
        _STEP,
        Column("Waits for", CellFormat.WAITING, ("mljob_phase",)),
    ),
)

OTHER_TABLE = TableKind(
    "other",
    "Other",
    (
        _JOB,
        _BUCKET,
        _STATE,
        Column("Elapsed", CellFormat.ELAPSED, ("mljob_start_timestamp_seconds", "mljob_end_timestamp_seconds")),
        _TREND,
    ),
)

TABLES: tuple[TableKind, ...] = (RL_TABLE, SFT_TABLE, OTHER_TABLE, TRAINING_HEALTH_TABLE, BRINGUP_TABLE)
"""All tables, in the order in which they are shown."""
