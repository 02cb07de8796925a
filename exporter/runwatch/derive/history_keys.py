"""Under which keys trainers log what every training job has: the one home of these aliases (RL: `rl_keys`).

Levanter, HF Trainer (and what is built on it), SkyRL's SFT trainer, Megatron and NeMo. Of several keys in one row the
first wins. `train/train_loss` (HF's mean over the whole run, logged once at the end) is left out on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

LOSS_KEYS = ("train/loss", "loss", "train_loss", "training/loss", "reduced_train_loss", "lm loss")
LOSS_NONFINITE_RANKS_KEYS = ("train/loss_nan_ranks", "loss_nan_ranks")
GRAD_NORM_KEYS = ("grad/norm/total", "train/grad_norm", "grad_norm", "training/grad_norm", "grad-norm")
LEARNING_RATE_KEYS = (
    *("optim/learning_rate", "train/learning_rate", "learning_rate", "lr", "training/learning_rate"),
    "learning-rate",
)
VALIDATION_LOSS_KEYS = (
    *("eval/loss", "eval_loss", "val/loss", "val_loss", "validation/loss", "validation_loss"),
    "lm loss validation",
)
TOKENS_PER_SECOND_KEYS = ("throughput/tokens_per_second", "train/tokens_per_second", "tokens_per_second")
RUNTIME_KEY = "_runtime"

_EXAMPLES_RATE_KEY, _DURATION_KEY = "throughput/examples_per_second", "throughput/duration"
_WHOLE_WITHIN = 1e-3

EVALUATION_PREFIXES = (
    *("eval/", "val/", "validation/", "test/", "eval_", "val_", "validation_", "test_"),
    *("val-core/", "val-aux/"),  # verl
    # SkyRL and NeMo-RL log how long an evaluation took, and what its engines did, beside it
    *("timing/eval", "timing/validation/", "vllm/eval/"),
    "lm_eval/",  # Levanter's evaluation harness
    *("lm loss validation", "lm loss test"),  # Megatron, also with more behind it
)
_COUNTERS = ("epoch", "global_step", "num_input_tokens_seen")
_NOT_TRAINING = frozenset(prefix + name for prefix in ("", "train/", "trainer/") for name in _COUNTERS)
"""HF's Trainer adds its counters to every row, also to that of an evaluation."""

_LEVANTER_KEYS = ("run_progress", _DURATION_KEY)
"""Keys that only Levanter logs."""
_LIGHTNING_KEYS = ("trainer/global_step", "epoch")
"""What Lightning's logger for W&B adds to each row, beside one another under these names only there (NeMo is built on
it): the number of batches that stepped before this one."""


def counts_from_zero(values: Mapping[str, float]) -> bool:
    """Tell whether a row is of a trainer whose first step is 0: its last is one below the number of steps."""
    return any(key in values for key in _LEVANTER_KEYS) or all(key in values for key in _LIGHTNING_KEYS)


def first_of(keys: tuple[str, ...], values: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the first of the keys that the row has, with its value."""
    return next(((key, values[key]) for key in keys if key in values), None)


def sequences_of(values: Mapping[str, float]) -> int | None:
    """Return how many sequences the row's step took, as Levanter's rate and duration tell; None where they do not."""
    rate, seconds = values.get(_EXAMPLES_RATE_KEY), values.get(_DURATION_KEY)
    if rate is None or seconds is None or not math.isfinite(rate * seconds):
        return None
    sequences = round(rate * seconds)
    return sequences if sequences > 0 and abs(rate * seconds - sequences) < _WHOLE_WITHIN else None


def is_evaluation_only(values: Mapping[str, float]) -> bool:
    """Tell whether a row holds results of an evaluation and nothing of training.

    An evaluation before the first update is logged at step 0: it is no training step, and the job is still in
    bring-up. Keys that begin with `_` and step counters tell neither way; a row with nothing else is a step.
    """
    told = [key for key in values if not key.startswith("_") and key not in _NOT_TRAINING]
    return bool(told) and all(key.startswith(EVALUATION_PREFIXES) for key in told)
