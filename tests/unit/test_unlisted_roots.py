"""Found jobs of which one root of checkpoints could not even be looked for: the others do not pass for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable

from runwatch.config.model import Config
from runwatch.derive.links import SitePages, measure_links
from runwatch.discovery import Finders, FleetFinder
from runwatch.facts import CheckpointListing, Failure, FailureReason
from runwatch.fleet import Job
from runwatch.measurements import Measurements
from runwatch.remembered import Remembered
from runwatch.sources.checkpoints import CheckpointReader
from runwatch.sources.folder_listing import Level, LookFailedError, ObjectStat
from runwatch.sources.wildcards import LevelListings
from runwatch.telemetry import Telemetry
from tests.unit.scripted_finders import ScriptedScheduler, record

START = 1_790_000_000.0
FORBIDDEN = Failure(FailureReason.AUTH, "gs://tmp/: HTTP 403")


class Buckets:
    """Objects by their whole address, and buckets that may not be listed."""

    def __init__(self, *steps: str) -> None:
        self.objects = [f"{step}/metadata.json" for step in steps]
        self.forbidden: set[str] = set()

    def open(self, bucket: str, prefix: str, count: Callable[[], None]) -> Store:
        return Store(self, bucket, f"{bucket}/{prefix}".rstrip("/"), count)

    def close(self) -> None:
        return None


class Store:
    def __init__(self, buckets: Buckets, bucket: str, prefix: str, count: Callable[[], None]) -> None:
        self.buckets, self.bucket, self.prefix, self.count = buckets, bucket, prefix, count

    def list_level(self, folder: str) -> Level:
        self.count()
        if self.bucket in self.buckets.forbidden:
            raise LookFailedError(FORBIDDEN)
        above = "".join(f"{part}/" for part in (self.prefix, folder) if part)
        names = {name.removeprefix(above) for name in self.buckets.objects if name.startswith(above)}
        if not names:
            raise LookFailedError(Failure(FailureReason.NOT_FOUND, f"{above} lists empty"))
        folders = tuple(sorted({name.split("/")[0] for name in names if "/" in name}))
        return Level(folders, {name: ObjectStat(90, START) for name in names if "/" not in name})

    def read_small(self, path: str) -> bytes:
        step = int(path.rpartition("/")[0].rpartition("-")[2])
        return json.dumps({"step": step, "timestamp": "2001-01-01T00:00:00"}).encode()

    def read_tail(self, path: str, length: int) -> bytes:
        raise AssertionError(path, length)


def test_a_temporary_root_that_may_not_be_listed() -> None:
    """Its newer checkpoint must not be missing from an answer, and the permanent root's not be the newest."""
    buckets = Buckets("perm/a-1/checkpoints/step-1000", "tmp/a-1/step-1900")
    buckets.forbidden.add("tmp")
    levels = LevelListings(lambda site: None, connect_buckets=lambda: buckets)
    finder = FleetFinder(Telemetry(), Remembered(None, 86_400.0), levels=levels)
    scheduler = ScriptedScheduler()
    scheduler.records = [record("/u1/a-coord", submitted=START)]
    entry = {"site": "m", "match": "^/u1/(?P<name>.+)-coord$", "bucket": "sft"}
    entry |= {"checkpoints": ["gs://perm/{name}-*", "gs://tmp/{name}-*"]}  # type: ignore[dict-item]
    sites = {"m": {"scheduler": "iris", "controller": "http://127.0.0.1:1"}}
    config = Config.model_validate({"sites": sites, "discover": [entry]})
    finders = Finders(None, {"m": scheduler})
    reader = CheckpointReader(lambda site: None, connect_buckets=lambda: buckets)

    def found(now: float) -> Job:
        fleet, _ = finder.look(config, finders, now)
        (job,) = fleet.jobs
        return job

    job = found(START)
    outcome = reader.read(job)
    assert isinstance(outcome, Failure)
    assert "gs://tmp/a-*: what its * stands for could not be looked for" in outcome.detail
    assert finder.current(config, START).jobs == (job,)
    measured = Measurements()
    measure_links(measured, SitePages(), "", job.checkpoints)
    assert [url for _, url in measured.family("mljob_link")] == [
        "https://console.cloud.google.com/storage/browser/perm/a-1"
    ]
    buckets.forbidden.clear()
    outcome = reader.read(found(START + 60))
    assert isinstance(outcome, CheckpointListing)
    assert [checkpoint.step for checkpoint in outcome.checkpoints if checkpoint.complete] == [1000, 1900]
    # What was found stays while the bucket may not be listed: its reader fails there by itself.
    buckets.forbidden.add("tmp")
    assert reader.read(found(START + 120)) == FORBIDDEN
