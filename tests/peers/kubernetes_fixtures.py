"""A watch of one Kubernetes site whose API the tests serve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from kubernetes import client

from runwatch.config.model import Site
from runwatch.facts import Failure, SchedulerFacts
from runwatch.fleet import Job
from runwatch.sources.kubernetes_scheduler import KubernetesScheduler
from runwatch.sources.protocol import Outcome
from tests.peers.kubernetes_api import KubernetesApiServer


@dataclass
class Watch:
    """One site, watched: `poll` returns the outcome of each `scheduler_job`."""

    server: KubernetesApiServer
    source: KubernetesScheduler
    counted: list[str] = field(default_factory=list)

    def poll(self, *scheduler_jobs: str) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        jobs = [Job(run=f"run {name}", bucket="sft", site="cw", scheduler_job=name) for name in scheduler_jobs]
        self.source.poll(jobs, lambda job, outcome: found.__setitem__(job.scheduler_job, outcome))
        assert set(found) == set(scheduler_jobs)
        return found

    def facts(self, scheduler_job: str) -> SchedulerFacts:
        found = self.poll(scheduler_job)[scheduler_job]
        assert isinstance(found, SchedulerFacts), found
        return found

    def failure(self, scheduler_job: str) -> Failure:
        found = self.poll(scheduler_job)[scheduler_job]
        assert isinstance(found, Failure), found
        return found


@pytest.fixture
def kubernetes_server() -> Iterator[KubernetesApiServer]:
    server = KubernetesApiServer()
    yield server
    server.close()


def watched(server: KubernetesApiServer, deadline_seconds: float) -> Iterator[Watch]:
    settings = client.Configuration()
    settings.host = server.url
    settings.retries = False
    api_client = client.ApiClient(settings)
    counted: list[str] = []
    site = Site(scheduler="kubernetes", namespace="runs")
    source = KubernetesScheduler("cw", site, counted.append, api_client=api_client, deadline_seconds=deadline_seconds)
    yield Watch(server, source, counted)
    source.close()
    api_client.rest_client.pool_manager.clear()


@pytest.fixture
def watch(kubernetes_server: KubernetesApiServer) -> Iterator[Watch]:
    yield from watched(kubernetes_server, 60.0)


@pytest.fixture
def hasty_watch(kubernetes_server: KubernetesApiServer) -> Iterator[Watch]:
    yield from watched(kubernetes_server, 1.0)
