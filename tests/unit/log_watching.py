"""A log watch over one job's files, with the product's own parsers, that counts the bytes it reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runwatch.config.model import Config, HistorySource, Site
from runwatch.facts import Failure, HistoryUpdate, LogFacts
from runwatch.fleet import Job
from runwatch.parsing.failures import FailureFinder
from runwatch.parsing.trainer_log import TrainerLogParser
from runwatch.sources.file_roots import FileRoots
from runwatch.sources.log_files import LocalLogFiles, LogFile
from runwatch.sources.log_history import LogHistoryReader
from runwatch.sources.log_tails import Tail, TailLine
from runwatch.sources.log_watch import LogWatch

Lines = Sequence[str | TailLine]


def newest(answer: Lines | Tail | Failure | None, lines: int) -> Tail | Failure | None:
    """The answer as an interface gives it that was asked for so many lines of a log that has these."""
    if answer is None or isinstance(answer, Failure | Tail):
        return answer
    return Tail(answer[-lines:], is_whole=len(answer) < lines)


class Watched:
    """One job whose history is a log."""

    def __init__(
        self,
        log: Path | str,
        *,
        prefix: tuple[str, ...] = (),
        timezone: str = "UTC",
        roots: tuple[Path, ...] | None = None,
        paths: Sequence[str] = (),
        tail: Callable[[Job, int], Lines | Tail | Failure | None] | None = None,
        at: float | None = None,
        bucket: str = "sft",
    ) -> None:
        self.requests: list[str] = []
        self.paths = list(paths)
        site = Site(scheduler="slurm", command_prefix=prefix, timezone=timezone)
        config = Config(sites={"here": site}, file_roots=roots)
        self.job = Job(run="run", bucket=bucket, site="here", history=(HistorySource(log=str(log)),) if log else ())  # type: ignore[arg-type]
        if roots is None and log and str(log) != "auto":
            config = Config(sites={"here": site}, file_roots=(Path(log).parent,))
        self.watch = LogWatch(
            config,
            self.requests.append,
            make_trainer=TrainerLogParser,
            make_failures=FailureFinder,
            log_paths=lambda job: self.paths,
            log_tail=None if tail is None else lambda job, lines: newest(tail(job, lines), lines),
            at=at,
            fresh_seconds=0.0,
            roots=FileRoots(config.file_roots),
        )
        self.reader = LogHistoryReader(self.watch)

    def try_history(self) -> HistoryUpdate | Failure:
        return self.reader.read(self.job)

    def history(self) -> HistoryUpdate:
        update = self.try_history()
        assert isinstance(update, HistoryUpdate), update
        return update

    def facts(self) -> LogFacts:
        facts = self.watch.read(self.job)
        assert isinstance(facts, LogFacts), facts
        return facts


BEGAN = datetime(2026, 11, 29, 10, 0, tzinfo=UTC).timestamp()


def written(path: Path, text: str, modified: float, *, append: bool = False) -> None:
    with path.open("a" if append else "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, (modified, modified))


def steps(update: HistoryUpdate) -> list[int | None]:
    return [row.trainer_step for row in update.rows]


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the lengths of all ranges that are read of local files."""
    lengths: list[int] = []
    read = LocalLogFiles.read

    def counted(self: LocalLogFiles, file: LogFile, offset: int, length: int, deadline: float) -> bytes | Failure:
        data = read(self, file, offset, length, deadline)
        lengths.append(len(data) if isinstance(data, bytes) else 0)
        return data

    monkeypatch.setattr(LocalLogFiles, "read", counted)
    return lengths


BANNER = (
    "[INFO|trainer.py:1478] 2026-11-29 10:00:00,000 >> ***** Running training *****\n"
    "[INFO|trainer.py:1479] 2026-11-29 10:00:00,001 >>   Total optimization steps = {total}\n"
    "\r  0%|          | 0/{total} [00:00<?, ?it/s]"
)


def bar(step: int, total: int, elapsed: int) -> str:
    clock = f"{elapsed // 3600}:{elapsed % 3600 // 60:02}:{elapsed % 60:02}" if elapsed >= 3600 else (
        f"{elapsed // 60:02}:{elapsed % 60:02}"
    )  # fmt: skip
    return f"\r {100 * step // total:2}%|{'#' * 5}     | {step}/{total} [{clock}<09:59, 20.00s/it]"


def logged_step(step: int, total: int, *, seconds_a_step: int = 20, first: int = 0, loss: float | None = None) -> str:
    """What HF's Trainer writes for one step: the metrics, then the bar drawn anew."""
    value = loss if loss is not None else 5.0 - step / 100
    metrics = f"{{'loss': {value}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}}"
    return f"\r{' ' * 60}\r{metrics}\n{bar(step, total, (step - first) * seconds_a_step)}"
