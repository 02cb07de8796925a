"""The log of Hugging Face's Trainer, and of what is built on it (LLaMA-Factory, TRL).

Per logged step the Trainer prints a dict without a step number; its own bar, which has no description and whose total
is "Total optimization steps", is drawn again right behind it and tells the step (`ProgressCallback.on_log` writes
through `tqdm.write`). transformers 4 prints numbers, 5 prints them as strings of four digits.

    [INFO|trainer.py:1478] 2026-11-29 17:45:54,009 >>   Total optimization steps = 50
    10%|█   | 5/50 [00:00<00:03, 14.42it/s]
    {'loss': '5.755', 'grad_norm': '1.281', 'learning_rate': '0.0032', 'epoch': '0.1'}
    10%|█   | 5/50 [00:00<00:03, 14.42it/s]

Bars of packing, tokenising, weights and shards have descriptions; an evaluation's bar is told by its total, and where
the totals are equal by its clock, which is younger. A dict that its bar does not follow is no row: the step would be a
guess. That is also what keeps text that a model wrote apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runwatch.parsing.log_records import LogFragment, LogRow
from runwatch.parsing.log_values import log_number, scan_pairs
from runwatch.parsing.progress_bars import ProgressBar, split_bar

_PREFIX = r"(?:[^'\"{}]{0,160}?(?:>>|\]|-|:))?\s{0,20}"
_STARTS = re.compile(_PREFIX + r"\*{5} Running training \*{5}")
_TOTAL = re.compile(_PREFIX + r"Total optimization steps = ([\d,]{1,20})", re.ASCII)
_RESUMES = re.compile(_PREFIX + r"(?:Resuming training from .{1,500}|Continuing training from global step \d{1,15})")
_V1_LINE = re.compile(r"\[[^\]]{1,80}\] [\w.]{1,120}:\d{1,6} >> (loss: .{1,1000})", re.ASCII)
_LLAMA_FACTORY = re.compile(r"\[[A-Z]{4,8}\|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] llamafactory\.", re.ASCII)
_COMPLETED = "Training completed. Do not forget to share your model"
_BANNER_LINES = 15
_NESTED_BARS = 4
_KEYS_OF_A_METRIC_LINE = ("{'loss'", "{'eval_loss'")


def metric_key(key: str) -> str:
    """Return the key that the Trainer's W&B callback gives to a logged value (`integration_utils.rewrite_logs`)."""
    for prefix in ("eval_", "test_"):
        if key.startswith(prefix):
            return f"{prefix[:-1]}/{key[len(prefix) :]}"
    return f"train/{key}"


@dataclass(slots=True)
class _Unplaced:
    """A dict of metrics that waits for the bar which tells its step."""

    values: Mapping[str, float]
    is_training_loss: bool
    is_evaluation: bool
    in_ray: bool
    time: float | None
    other_bars: int = 0


class HuggingFaceLogParser:
    """Takes fragments one by one.

    Attributes:
        name: The format's name.
        recognised: The Trainer's own bar was seen.
        hinted: A line of LLaMA-Factory's or the Trainer's start was seen.
        unparsed: Lines that look like metrics and gave no row.
        completed: The Trainer said that this start of it came to its end.
        attempt: How many starts were seen before this one.
        position: The newest step, by the place in the log, without values: the bar moves more often than rows come.
    """

    name = "hugging_face"

    def __init__(self) -> None:
        self.recognised = False
        self.hinted = False
        self.unparsed = 0
        self.completed = False
        self.attempt = 0
        self.position: LogRow | None = None
        self._total: int | None = None
        self._announced: int | None = None
        self._starting = False
        self._banner_lines_left = 0
        self._bar: ProgressBar | None = None
        self._skipped = False
        self._unplaced: _Unplaced | None = None

    @property
    def total_steps(self) -> int | None:
        """The total of the Trainer's bar, before it is drawn the one that the banner announced."""
        return self._total if self._total is not None else self._announced

    def feed(self, fragment: LogFragment) -> LogRow | None:
        """Take the next fragment, and return the row that is complete with it."""
        if fragment.rank is not None and fragment.rank != 0:
            return None  # only the first process of the whole world prints; others print their own losses, if anything
        bar, text = split_bar(fragment.text)
        row = self._take_bar(bar, fragment) if bar is not None else None
        text = text.strip()
        if text:
            row = self._take_text(text, fragment) or row
        return row

    def skip(self) -> None:
        """Note that a part of the log was left out here: what waits for its bar, and the bar's clock, are void."""
        self._unplaced = None
        self._banner_lines_left = 0
        self._skipped = True

    def finish(self) -> list[LogRow]:
        """Return nothing: a dict whose bar never came has no step."""
        self._drop_unplaced()
        return []

    def _take_bar(self, bar: ProgressBar, fragment: LogFragment) -> LogRow | None:
        if bar.description or bar.done is None or bar.total is None:
            return None
        unplaced = self._unplaced
        if not self._is_training(bar, unplaced):
            if unplaced is not None:
                unplaced.other_bars += 1
                if not unplaced.is_evaluation or unplaced.other_bars > _NESTED_BARS:
                    self._drop_unplaced()
            return None
        if bar.done == 0 and (unplaced is None or not unplaced.is_evaluation):
            self._drop_unplaced()  # a resumed run's bar begins at 0, whatever its step
            self.recognised = self.recognised or self._announced is not None
            return None
        self.recognised = True
        time = unplaced.time if unplaced is not None and unplaced.time is not None else fragment.time
        if bar.done > 0:
            self.position = LogRow(bar.done, {}, time, bar.elapsed, self.attempt)
        if unplaced is None:
            return None
        self._unplaced = None
        return LogRow(bar.done, unplaced.values, time, bar.elapsed, self.attempt)

    def _is_training(self, bar: ProgressBar, unplaced: _Unplaced | None) -> bool:
        """Tell whether a bar is the Trainer's own, and note where it stands."""
        behind_loss = unplaced is not None and unplaced.is_training_loss
        expected = self._announced if self._starting else self._total
        if expected is None:
            # Without the banner a loss and its bar tell the total; not in Ray, whose agents may train and print it.
            told = behind_loss and unplaced is not None and not unplaced.in_ray and bar.done
            expected = self._total if self._total is not None else bar.total if told else None
        begins = bar.total == expected and (bar.done == 0 or self._bar is None or not self._goes_on(bar))
        if self._starting and begins:
            self._begin_attempt(bar)
            return True
        if bar.total != (self._total if self._total is not None else expected):
            return False
        if not self._goes_on(bar):
            # An evaluation's bar of the same total, or a start whose banner was not read.
            if not behind_loss and not self._skipped and (bar.done != 0 or self._announced is not None):
                return False
            self._begin_attempt(bar)
            return True
        self._skipped = False
        self._total, self._bar = bar.total, bar
        return True

    def _goes_on(self, bar: ProgressBar) -> bool:
        last = self._bar
        return last is None or ((bar.done or 0) >= (last.done or 0) and bar.elapsed >= last.elapsed)

    def _begin_attempt(self, bar: ProgressBar) -> None:
        if self._bar is not None:
            self.attempt += 1
        self._starting = self._skipped = False
        self.completed = False
        self._total, self._bar = bar.total, bar

    def _take_text(self, text: str, fragment: LogFragment) -> LogRow | None:
        if self._banner_lines_left:
            self._banner_lines_left -= 1
            if (total := _TOTAL.fullmatch(text)) is not None:
                self._announce(total[1])
        if _STARTS.fullmatch(text):
            self._banner_lines_left = _BANNER_LINES
            self.hinted = True
        elif _RESUMES.fullmatch(text):
            self._announced = self._announced if self._announced is not None else self._total
            self._starting = self._announced is not None
        elif text.startswith(_COMPLETED):
            self.completed = self.completed or self._bar is not None
        elif text.startswith("["):
            self.hinted = self.hinted or _LLAMA_FACTORY.match(text) is not None
            return self._take_v1(text, fragment)
        self._drop_unplaced()
        if text.startswith("{'"):
            self._take_dict(text, fragment)
        return None

    def _announce(self, total: str) -> None:
        number = log_number(total)
        if number is not None and number > 0:
            self._announced = int(number)
            self._starting = True

    def _take_dict(self, text: str, fragment: LogFragment) -> None:
        pairs = scan_pairs(text)
        if pairs is None or not pairs.closed:
            if self.recognised and text.startswith(_KEYS_OF_A_METRIC_LINE):
                self.unparsed += 1
            return
        if "train_runtime" in pairs.keys:
            self.completed = self.completed or self._bar is not None
            return
        if "epoch" not in pairs.keys:
            return
        self._unplaced = _Unplaced(
            {metric_key(key): value for key, value in pairs.values.items()},
            is_training_loss="loss" in pairs.keys and not pairs.keys.isdisjoint(("learning_rate", "grad_norm")),
            is_evaluation=any(key.startswith("eval_") for key in pairs.keys),
            in_ray=bool(fragment.actor),
            time=fragment.time,
        )

    def _take_v1(self, text: str, fragment: LogFragment) -> LogRow | None:
        """Read a line of LLaMA-Factory's `v1` trainer: `loss: 1.2, grad_norm: 0.1, ..., step: 10, total_steps: 50`."""
        self._drop_unplaced()
        found = _V1_LINE.fullmatch(text)
        if found is None:
            return None
        pairs = [pair.partition(": ") for pair in found[1].split(", ")]
        values = {key: number for key, _, value in pairs if (number := log_number(value)) is not None}
        step, total = values.pop("step", None), values.pop("total_steps", None)
        if step is None or total is None or not (0 < step <= total < 1e15):
            self.unparsed += 1
            return None
        if self.position is not None and step < self.position.step:
            self.attempt += 1
        self.recognised, self._total = True, int(total)
        self.position = LogRow(int(step), {}, fragment.time, None, self.attempt)
        return LogRow(int(step), {metric_key(k): v for k, v in values.items()}, fragment.time, attempt=self.attempt)

    def _drop_unplaced(self) -> None:
        if self._unplaced is not None and self.recognised:
            self.unparsed += 1
        self._unplaced = None
