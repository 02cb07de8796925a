"""Fixtures and small builders for tests that read W&B through the stand-in server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runwatch.config.model import HistorySource, WandbSettings
from runwatch.facts import Failure, HistoryRow, HistoryUpdate
from runwatch.fleet import Job
from runwatch.sources.protocol import Outcome
from runwatch.sources.wandb_login import WandbLogin
from runwatch.sources.wandb_online import WandbHistory
from tests.peers.wandb_server import KEY, WandbServer

START = 1_760_000_000.0


@pytest.fixture
def wandb_server() -> Iterator[WandbServer]:
    """A stand-in for W&B's API on a free port."""
    server = WandbServer()
    yield server
    server.close()


@dataclass
class Clock:
    """A clock that tests set."""

    now: float = START + 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Seen:
    """What a source delivered for its jobs, in order."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)

    def deliver(self, job: Job, outcome: Outcome) -> None:
        self.outcomes.setdefault(job.run, []).append(outcome)

    def last(self, run: str) -> Outcome:
        return self.outcomes[run][-1]

    def update(self, run: str) -> HistoryUpdate:
        last = self.last(run)
        assert isinstance(last, HistoryUpdate), last
        return last

    def failure(self, run: str) -> Failure:
        last = self.last(run)
        assert isinstance(last, Failure), last
        return last

    def rows(self, run: str) -> list[HistoryRow]:
        """All rows as a digest would hold them: a reset voids what came before."""
        rows: list[HistoryRow] = []
        for outcome in self.outcomes[run]:
            if isinstance(outcome, HistoryUpdate):
                rows = [*([] if outcome.reset else rows), *outcome.rows]
        return rows

    def steps(self, run: str) -> list[int]:
        return [row.cursor for row in self.rows(run)]


@dataclass
class Watch:
    """A source on the stand-in, its clock, and what it delivered."""

    server: WandbServer
    source: WandbHistory
    clock: Clock
    seen: Seen

    def poll(self, *names: str, minutes: float = 1.0) -> int:
        """Poll the runs `entity/project/NAME`; returns how many GraphQL requests the server got."""
        before = len(self.server.requests)
        self.source.poll([job(name) for name in names], self.seen.deliver)
        self.clock.now += 60.0 * minutes
        return len(self.server.requests) - before


def job(name: str, project: str = "entity/project") -> Job:
    """A job whose history is the run of the same name."""
    return Job(run=name, bucket="sft", site="desk", history=(HistorySource(wandb=f"{project}/{name}"),))


MakeWatch = Callable[..., Watch]


@pytest.fixture
def watch_wandb(wandb_server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeWatch]:
    """Makes sources on the stand-in: `watch_wandb(requests_per_minute=60, at=..., deadline_seconds=...)`.

    Their first poll costs one request more: the key is tried. The real client's own login, which costs another one and
    a process, is left out unless `client=True`.
    """
    made: list[WandbHistory] = []
    key_file = tmp_path / "key"
    key_file.write_text(KEY + "\n")

    def make(
        requests_per_minute: int = 6000, base_url: str | None = None, client: bool = False, **options: Any
    ) -> Watch:
        if not client:
            monkeypatch.setattr(WandbLogin, "_log_in", lambda *_arguments: None)
        clock, seen = Clock(), Seen()
        settings = WandbSettings(
            base_url=base_url or wandb_server.url, api_key_file=key_file, requests_per_minute=requests_per_minute
        )
        source = WandbHistory(settings, seen.sent.append, clock=clock, **options)
        made.append(source)
        return Watch(wandb_server, source, clock, seen)

    yield make
    for source in made:
        source.close()
