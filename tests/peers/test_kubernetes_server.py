"""The stand-in itself keeps to the API: selectors, pages and failures as the real client understands them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.peers.kubernetes_api import KubernetesApiServer
from tests.peers.kubernetes_fixtures import kubernetes_server
from tests.peers.kubernetes_objects import job, pod, running

__all__ = ["kubernetes_server"]


@pytest.fixture
def api(kubernetes_server: KubernetesApiServer) -> Iterator[client.CoreV1Api]:
    settings = client.Configuration()
    settings.host = kubernetes_server.url
    settings.retries = False
    api_client = client.ApiClient(settings)
    yield client.CoreV1Api(api_client)
    api_client.rest_client.pool_manager.clear()


def test_selectors_and_pages(kubernetes_server: KubernetesApiServer, api: client.CoreV1Api) -> None:
    for number in range(7):
        phase = "Running" if number % 2 else "Pending"
        kubernetes_server.put("pods", pod(f"p{number}", None, phase, running(1), labels={"half": str(number // 4)}))
    chosen = api.list_namespaced_pod("runs", label_selector="half=0", field_selector="status.phase=Running")
    assert [found.metadata.name for found in chosen.items] == ["p1", "p3"]
    first = api.list_namespaced_pod("runs", limit=3)
    assert (len(first.items), first.metadata.remaining_item_count) == (3, 4)
    kubernetes_server.remove("pods", "p5")
    second = api.list_namespaced_pod("runs", limit=3, _continue=first.metadata._continue)
    assert [found.metadata.name for found in second.items] == ["p3", "p4", "p5"]
    assert second.metadata.resource_version == first.metadata.resource_version
    kubernetes_server.compact_after = [1]
    with pytest.raises(client.ApiException) as expired:
        api.list_namespaced_pod("runs", limit=3, _continue=first.metadata._continue)
    assert (expired.value.status, "Expired" in str(expired.value.body)) == (410, True)


def test_its_objects_are_what_the_client_s_models_expect(
    kubernetes_server: KubernetesApiServer, api: client.CoreV1Api
) -> None:
    whole = kubernetes_server.put("jobs", job("train", size=2, chips=8))
    kubernetes_server.put("pods", pod("train-a", whole, "Running", running(20)))
    (found,) = client.BatchV1Api(api.api_client).list_namespaced_job("runs").items
    assert (found.spec.parallelism, found.status.active) == (2, 2)
    assert found.spec.template.spec.containers[0].resources.limits == {"nvidia.com/gpu": "8"}
    (of_job,) = api.list_namespaced_pod("runs").items
    assert of_job.metadata.owner_references[0].uid == found.metadata.uid
    assert of_job.status.container_statuses[0].state.running.started_at.timestamp() == 1_790_000_020.0
