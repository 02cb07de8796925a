"""Which sources there are, and making those that the jobs need. A new source is added here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from runwatch.config.model import Config, WandbSettings
from runwatch.facts import SourceKind
from runwatch.fleet import Job
from runwatch.sources.binding import SourceBinding
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.jsonl import JsonLinesReader
from runwatch.sources.per_job import PerJobSource
from runwatch.sources.protocol import FindsRuns, Outcome, Source
from runwatch.sources.wandb_offline import WandbOfflineReader
from runwatch.telemetry import Telemetry

_DEADLINE_SECONDS = 30.0


class SourceSet:
    """Makes each source when the first job needs it, and closes it when no job does any more.

    Args:
        telemetry: where requests are counted.
        at: hide what was recorded after this time (Unix seconds).
        clock: the time now, Unix seconds.
        progress: is told of long first reads, one line at a time.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        at: float | None = None,
        clock: Callable[[], float] = time.time,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._at = at
        self._clock = clock
        self._progress = progress
        self._bindings: dict[str, SourceBinding] = {}
        self._wandb_settings: WandbSettings | None = None
        self._finder: FindsRuns | None = None

    def bindings(self, config: Config, jobs: Iterable[Job]) -> list[SourceBinding]:
        """Return the sources that these jobs need. One whose settings changed is made anew."""
        wanted = {key for job in jobs for key in _needed(job)}
        if any(discovery.wandb for discovery in config.discover):
            wanted.add("wandb")
        if config.wandb != self._wandb_settings:
            self._close("wandb")
            self._wandb_settings = config.wandb
        for key in [key for key in self._bindings if key not in wanted]:
            self._close(key)
        for key in sorted(wanted):
            if key not in self._bindings:
                history_key = "" if key == SourceKind.CHECKPOINTS.value else key
                self._bindings[key] = SourceBinding(self._make(key, config), history_key)
        return list(self._bindings.values())

    @property
    def wandb(self) -> FindsRuns | None:
        """The W&B source, which also finds runs; None when no job and no discovery needs it."""
        return self._finder

    def close(self) -> None:
        """Release all connections and processes."""
        for key in list(self._bindings):
            self._close(key)

    def _close(self, key: str) -> None:
        binding = self._bindings.pop(key, None)
        if key == "wandb":
            self._finder = None
        if binding is not None:
            binding.source.close()

    def _make(self, key: str, config: Config) -> Source:
        if key == "wandb":
            # Only a config that names W&B pays the import of its client.
            from runwatch.sources.wandb_online import WandbHistory  # noqa: PLC0415

            online = WandbHistory(
                config.wandb,
                self._counter(SourceKind.HISTORY),
                at=self._at,
                clock=self._clock,
                deadline_seconds=_DEADLINE_SECONDS,
                progress=self._progress,
            )
            self._finder = online
            return online
        if key == "wandb_offline":
            offline = WandbOfflineReader(at=self._at)
            return PerJobSource(
                SourceKind.HISTORY,
                self._counted(offline.read),
                deadline=_DEADLINE_SECONDS,
                interval=config.interval(SourceKind.HISTORY),
                forget=offline.forget,
            )
        if key == "jsonl":
            lines = JsonLinesReader(at=self._at)
            return PerJobSource(
                SourceKind.HISTORY,
                self._counted(lines.read),
                deadline=_DEADLINE_SECONDS,
                interval=config.interval(SourceKind.HISTORY),
                forget=lines.forget,
            )
        listings = CheckpointReader(self._counter(SourceKind.CHECKPOINTS), at=self._at, clock=self._clock)
        return PerJobSource(
            SourceKind.CHECKPOINTS,
            listings.read,
            deadline=_DEADLINE_SECONDS,
            interval=config.interval(SourceKind.CHECKPOINTS),
            forget=listings.forget,
            close=listings.close,
        )

    def _counter(self, kind: SourceKind) -> Callable[[str], None]:
        return lambda site: self._telemetry.count_request(kind, site)

    def _counted(self, read: Callable[[Job], Outcome]) -> Callable[[Job], Outcome]:
        def counted(job: Job) -> Outcome:
            self._telemetry.count_request(SourceKind.HISTORY, job.site)
            return read(job)

        return counted


def _needed(job: Job) -> set[str]:
    needed = {key for key in ("wandb", "wandb_offline", "jsonl") for h in job.history if getattr(h, key) is not None}
    if job.checkpoints:
        needed.add(SourceKind.CHECKPOINTS.value)
    return needed
