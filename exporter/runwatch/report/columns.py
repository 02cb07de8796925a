"""The columns of the tables, once: terminal, page and dashboards are made from these lists."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CellFormat(StrEnum):
    """How a cell is made from a job's report."""

    NAME = "the job's name, with its site and shaping where they matter"
    BUCKET = "the job's bucket"
    KIND = "the job's finer kind"
    STATE = "the job's state"
    STEP_OF_TARGET = "current step / last step"
    FIXED = "a number with fixed decimals"
    FIXED_OF_LARGEST_N = "a number with fixed decimals, of the series with the largest label value"
    TRIALS_OF_TARGET = "results so far / results to come in all"
    CHUNKS = "chunks done / all, and how many of the others run, hang, failed"
    TOP_EXCEPTION = "the most frequent exception of trials, and how often it came"
    INFRASTRUCTURE = "the launch checks: passed, failed or not seen"
    WHOLE = "a whole number with thousands separators"
    PERCENT = "a ratio as percent"
    DURATION = "a length of time"
    PREEMPTIONS = "gang interruptions by preemption; the scheduler's own sum, marked *, where attempts are not known"
    GAPS = "count / hours of closed gaps, and how many of them came from each known cause, or from none"
    CHECKPOINT = "step, lag and age of the newest complete checkpoint"
    SINCE = "when the job started, and how long that is ago"
    ELAPSED = "time since the job's start, to its end"
    WAITING = "what a job without a step waits for"
    NOTE = "the note on the job, and what matters most now"
    TREND = "what matters most now, in words, worst first"


_TEXTS = frozenset({CellFormat.NAME, CellFormat.TOP_EXCEPTION, CellFormat.TREND, CellFormat.NOTE, CellFormat.WAITING})


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
        return self.format in _TEXTS


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
        Column("Preempts", CellFormat.PREEMPTIONS, ("mljob_interruptions", "mljob_preemptions")),
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

DATAGEN_TABLE = TableKind(
    "datagen",
    "Datagen",
    (
        Column("Run", CellFormat.NAME),
        Column("Chunks", CellFormat.CHUNKS, ("mljob_chunks",)),
        Column("Trials", CellFormat.WHOLE, ("mljob_trials",)),
        Column("avg_turns", CellFormat.FIXED, ("mljob_trial_turns",), decimals=2),
        Column("Mean", CellFormat.FIXED, ("mljob_trial_reward",), decimals=3),
        Column("exc%", CellFormat.PERCENT, ("mljob_trial_exception_ratio",), decimals=1),
        _TREND,
    ),
)

EVAL_TABLE = TableKind(
    "eval",
    "Eval",
    (
        Column("Model × benchmark", CellFormat.NAME),
        Column("Trials", CellFormat.TRIALS_OF_TARGET, ("mljob_trials", "mljob_trials_target")),
        Column("pass-rate", CellFormat.FIXED, ("mljob_trial_pass_ratio",), decimals=3),
        Column("top exception", CellFormat.TOP_EXCEPTION, ("mljob_trial_exceptions", "mljob_trial_exception_ratio")),
        Column("Infra", CellFormat.INFRASTRUCTURE, ("mljob_infra_check",)),
        _TREND,
    ),
)

BRINGUP_TABLE = TableKind(
    "bringup",
    "Bring-up: no step or result yet",
    (
        _JOB,
        _BUCKET,
        _STATE,
        Column("Since", CellFormat.SINCE, ("mljob_start_timestamp_seconds",)),
        _STEP,
        Column("Waits for", CellFormat.WAITING, ("mljob_phase", "mljob_waiting")),
    ),
)

OTHER_TABLE = TableKind(
    "other",
    "Other",
    (
        _JOB,
        Column("Type", CellFormat.KIND),
        _STATE,
        Column("Elapsed", CellFormat.ELAPSED, ("mljob_start_timestamp_seconds", "mljob_end_timestamp_seconds")),
        Column("Note", CellFormat.NOTE, ("mljob_trend",)),
    ),
)

TABLES: tuple[TableKind, ...] = (
    RL_TABLE, SFT_TABLE, DATAGEN_TABLE, EVAL_TABLE, OTHER_TABLE, TRAINING_HEALTH_TABLE, BRINGUP_TABLE,
)  # fmt: skip
"""All tables, in the order in which they are shown."""
