"""The console of `harbor run` and of the older `tb run`: a cross-check beside the result files.

rich draws `⠇  5/16 Mean: 0.167 ━━━━ 0:00:01 0:00:03`; without a terminal it draws once, at the end. The mean is over
scored trials in Harbor 0.26 and over all, with 0 for the missing, in 0.1.x; with several datasets it is of whichever
finished last. So nothing is made of it where result files can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from runwatch.parsing.log_records import LogFragment

_FRAME = re.compile(
    r"\s{0,20}(?:[\u2800-\u28ff]\s{1,4})?(?P<done>\d{1,9})/(?P<total>\d{1,9})\s{1,4}"
    r"(?:Running trials\.\.\.|(?P<label>[A-Z][\w ]{0,60}?): (?P<value>-?\d{1,12}\.\d{1,12}|nan))(?=\s|\Z)"
)
_OLD_FRAME = re.compile(
    r"\s{0,20}(?:[\u2800-\u28ff]\s{1,4})?Running tasks \((?P<done>\d{1,9})/(?P<total>\d{1,9}), "
    r"(?P<label>Accuracy): (?P<value>\d{1,3}\.\d{1,6})%\)"
)

_ENDS = "Results written to "


@dataclass(frozen=True, slots=True)
class HarborFrame:
    """One drawing of the progress: trials done and to do, and the first metric (None before the first reward).

    `label` is the metric's name ("Mean", or a reward's key); an accuracy in percent is given as a share.
    """

    done: int
    total: int
    label: str = ""
    value: float | None = None


def parse_frame(text: str) -> HarborFrame | None:
    """Read one drawing; None where the text is none."""
    frame = _FRAME.match(text)
    share = 1.0
    if frame is None:
        frame = _OLD_FRAME.match(text)
        share = 0.01
    if frame is None:
        return None
    done, total = int(frame["done"]), int(frame["total"])
    if done > total:
        return None
    value = float(frame["value"]) * share if frame["value"] is not None else None
    return HarborFrame(done, total, frame["label"] or "", value)


@dataclass(frozen=True, slots=True)
class ConsoleProgress:
    """The newest drawing in a log, and of how many runs of Harbor the log holds drawings.

    With more than one run the newest drawing counts the trials of the last run alone.
    """

    frame: HarborFrame
    runs: int = 1


class HarborConsole:
    """Takes a log's lines in order and keeps its newest drawing.

    A run that is killed and resumed counts on under its total. Another total, fewer trials after the last one, or a
    drawing after the line with which Harbor ends, is another run.
    """

    def __init__(self) -> None:
        self._frame: HarborFrame | None = None
        self._runs = 0
        self._is_over = True

    @property
    def progress(self) -> ConsoleProgress | None:
        """What was drawn so far; None while nothing was."""
        return None if self._frame is None else ConsoleProgress(self._frame, self._runs)

    def take(self, text: str) -> None:
        """Take the next line or drawing."""
        frame = parse_frame(text)
        if frame is None:
            self._is_over = self._is_over or text.startswith(_ENDS)
            return
        former = self._frame
        if self._is_over or former is None or frame.total != former.total or frame.done < former.done == former.total:
            self._runs += 1
        self._frame, self._is_over = frame, False


def latest_frame(fragments: Iterable[LogFragment]) -> HarborFrame | None:
    """Return the last drawing among a log's fragments."""
    frames = (frame for fragment in fragments if (frame := parse_frame(fragment.text)) is not None)
    return max(enumerate(frames), key=lambda item: item[0], default=(0, None))[1]
