"""Where found jobs' facts lie: in a bucket of the real fake-gcs-server, and in a project of the W&B stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud import storage

from runwatch.config.model import Config
from runwatch.discovery import Finders, FleetFinder
from runwatch.facts import Failure, FailureReason
from runwatch.fleet import Job
from runwatch.remembered import Remembered
from runwatch.sources.gcs import GcsConnection
from runwatch.sources.protocol import FindsRuns
from runwatch.sources.wildcards import LevelListings
from runwatch.telemetry import Telemetry
from tests.peers.gcs_server import client_of, running_gcs_server, upload
from tests.peers.wandb_fixtures import START, MakeWatch
from tests.peers.wandb_server import Fault, WandbServer
from tests.peers.wandb_server_runs import PeerRun
from tests.unit.scripted_finders import ScriptedScheduler, record


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_gcs_server() as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[storage.Client]:
    with client_of(url) as connected:
        yield connected


class Looks:
    """Looks at one Iris site whose jobs have the given places."""

    def __init__(self, client: storage.Client | None = None, wandb: FindsRuns | None = None, **places: object) -> None:
        entry = {"site": "m", "match": "^/u1/(?P<name>.+)-coord$", "bucket": "sft", **places}
        sites = {"m": {"scheduler": "iris", "controller": "http://127.0.0.1:1"}}
        self.config = Config.model_validate({"sites": sites, "discover": [entry]})
        self.scheduler = ScriptedScheduler()
        self.requests: list[str] = []
        levels = LevelListings(self.requests.append, connect_buckets=lambda: GcsConnection(client, timeout=5.0))
        self.finder = FleetFinder(Telemetry(), Remembered(None, 86_400.0), levels=levels)
        self.finders = Finders(wandb, {"m": self.scheduler})
        self.now = START
        self.failures: tuple[Failure, ...] = ()

    def jobs(self) -> dict[str, Job]:
        self.now += 60.0
        self.requests.clear()
        fleet, self.failures = self.finder.look(self.config, self.finders, self.now)
        return {job.run: job for job in fleet.jobs}

    def checkpoints(self) -> dict[str, tuple[str, ...]]:
        return {run: job.checkpoints for run, job in self.jobs().items()}


def test_roots_in_a_bucket_cost_one_listing_for_all_jobs(client: storage.Client) -> None:
    looks = Looks(client, checkpoints=["gs://roots/checkpoints/{name}-*"])
    looks.scheduler.records = [record(f"/u1/{name}-coord", submitted=START) for name in ("a", "b", "c")]
    assert looks.checkpoints() == {"a": (), "b": (), "c": ()}  # not even the bucket
    assert looks.failures == ()
    upload(
        client,
        "roots",
        {
            "checkpoints/a-11aa/.executor_info": b"{}",
            "checkpoints/b-22bb/checkpoints/step-5/metadata.json": b"{}",
            "checkpoints/other/x": b"",
            "elsewhere/c-33cc/x": b"",
        },
    )
    assert looks.checkpoints() == {
        "a": ("gs://roots/checkpoints/a-11aa",),
        "b": ("gs://roots/checkpoints/b-22bb",),
        "c": (),
    }
    assert looks.requests == ["m"]
    # A second one appears: what was found stays.
    upload(client, "roots", {"checkpoints/a-99zz/.executor_info": b"{}", "checkpoints/c-33cc/.executor_info": b"{}"})
    assert looks.checkpoints() == {
        "a": ("gs://roots/checkpoints/a-11aa",),
        "b": ("gs://roots/checkpoints/b-22bb",),
        "c": ("gs://roots/checkpoints/c-33cc",),
    }
    looks.jobs()
    assert looks.requests == []


def test_of_several_roots_the_childs_else_the_one_written_last(client: storage.Client) -> None:
    for name in ("a-11aa/.executor_info", "a-33cc/checkpoints/step-5/metadata.json", "a-22bb/.executor_info"):
        upload(client, "several", {name: b"{}"})
    looks = Looks(client, checkpoints=["gs://several/{name}-*"])
    looks.scheduler.records = [record("/u1/a-coord", submitted=START)]
    assert looks.checkpoints() == {"a": ("gs://several/a-22bb",)}
    child = "/u1/a-coord/checkpoints-a_11aa-efc771c2"
    looks.scheduler.records = [record("/u1/a-coord", submitted=START, child=child)]
    assert looks.checkpoints() == {"a": ("gs://several/a-11aa",)}


def test_a_store_that_cannot_be_reached_is_a_failure_and_keeps_what_was_found(
    client: storage.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(client, "kept", {"a-11aa/.executor_info": b"{}"})
    looks = Looks(client, checkpoints=["gs://kept/{name}-*"])
    looks.scheduler.records = [record("/u1/a-coord", submitted=START)]
    found = {"a": ("gs://kept/a-11aa",)}
    assert looks.checkpoints() == found
    looks.scheduler.records = [record("/u1/a-coord", submitted=START + 100.0), record("/u1/b-coord", submitted=START)]
    with monkeypatch.context() as patched:
        patched.setattr(client._connection, "API_BASE_URL", "http://127.0.0.1:1")
        assert looks.checkpoints() == {**found, "b": ("gs://kept/b-*",)}  # its reader fails at it
        assert [failure.reason for failure in looks.failures] == [FailureReason.NETWORK]
    assert looks.checkpoints() == {**found, "b": ()}
    assert looks.failures == ()


def test_runs_of_a_project_are_listed_once_for_all_jobs(wandb_server: WandbServer, watch_wandb: MakeWatch) -> None:
    watch = watch_wandb(client=True)
    looks = Looks(wandb=watch.source, history={"wandb": "lab/mid/{name}-*"})
    looks.scheduler.records = [record(f"/u1/{name}-coord", submitted=START) for name in ("a", "b")]

    def histories() -> dict[str, list[str | None]]:
        watch.clock.now += 600.0  # past every pause after a failure
        return {run: [source.wandb for source in job.history] for run, job in looks.jobs().items()}

    assert (histories(), looks.failures) == ({"a": [], "b": []}, ())  # there is no such project yet
    for name, created in (("a-11aa", 10.0), ("a-22bb", 30.0), ("a-33cc", 20.0), ("other", 40.0)):
        wandb_server.add(PeerRun("lab", "mid", name, created_at=START + created, display_name="b-1"))
    before = len(wandb_server.requests)
    assert histories() == {"a": ["lab/mid/a-22bb"], "b": []}
    assert len(wandb_server.requests) - before <= 2
    wandb_server.add(PeerRun("lab", "mid", "b-44dd"))
    wandb_server.fault = lambda _request: Fault(500)
    assert histories() == {"a": ["lab/mid/a-22bb"], "b": []}
    assert [failure.is_answer for failure in looks.failures] == [False]
    wandb_server.fault = lambda _request: None
    assert (histories(), looks.failures) == ({"a": ["lab/mid/a-22bb"], "b": ["lab/mid/b-44dd"]}, ())
