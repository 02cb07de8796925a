"""Logs, the past, and how a cluster is reached: kubeconfig files, service accounts, broken ones of both."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from kubernetes.config import incluster_config

from runwatch.config.model import Site
from runwatch.facts import AttemptEnd, Failure, FailureReason, SchedulerFacts, SchedulerState
from runwatch.fleet import Job
from runwatch.sources.kubernetes_client import KubernetesApi
from runwatch.sources.kubernetes_scheduler import KubernetesScheduler
from runwatch.sources.log_tails import Tail
from runwatch.sources.protocol import Outcome
from tests.peers.kubernetes_api import Fault, KubernetesApiServer
from tests.peers.kubernetes_fixtures import Watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import T0, Object, condition, job, pod, running, stamp, terminated, waiting

__all__ = ["kubernetes_server", "watch"]

SECRET = "t0ps3cret"


def index(number: int, made: float = 0.0) -> Object:
    return {"labels": {"batch.kubernetes.io/job-completion-index": str(number)}, "made": made}


def texts(found: Tail | Failure) -> tuple[list[str], bool]:
    """The lines of a tail without their times, and whether they are the whole log."""
    assert isinstance(found, Tail), found
    return [line if isinstance(line, str) else line.text for line in found.lines], found.is_whole


def put_ranks(server: KubernetesApiServer) -> None:
    """Rank 0 was started twice, rank 1 once."""
    whole = server.put("jobs", job("train", size=2))
    server.put("pods", pod("train-0-old", whole, "Failed", terminated(1, 50, 1), **index(0)))
    server.put("pods", pod("train-0-new", whole, "Running", running(70), **index(0, 60)))
    server.put("pods", pod("train-1-only", whole, "Running", running(5), **index(1)))
    for name in ("train-0-old", "train-0-new", "train-1-only"):
        server.logs[("runs", name, False)] = [f"{name} line {number}" for number in range(300)]


def test_the_log_is_that_of_the_first_task_s_newest_pod(watch: Watch) -> None:
    put_ranks(watch.server)
    watch.facts("train")
    asked = len(watch.server.requests)
    newest = ["train-0-new line 297", "train-0-new line 298", "train-0-new line 299"]
    assert texts(watch.source.log_tail("train", 3)) == (newest, False)
    # The poll's listing is shared: the log itself is the only request.
    (request,) = watch.server.requests[asked:]
    assert request.path == "/api/v1/namespaces/runs/pods/train-0-new/log"
    wanted = {"container": "main", "tailLines": "3", "limitBytes": "1048576", "previous": "false", "timestamps": "true"}
    assert {key: value.lower() for key, value in request.query.items()} == wanted


def put_kubeflow_pod(watch: Watch, name: str, role: str, number: int, made: float) -> None:
    owner = {"kind": "PyTorchJob", "metadata": {"name": "train", "uid": "p1"}}
    labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(number)}
    watch.server.put("pods", pod(name, owner, "Running", running(made + 5), made=made, labels=labels))
    watch.server.logs[("runs", name, False)] = [f"line of {name}"]


def test_the_log_of_bare_pods_is_that_of_their_leader_whoever_was_made_last(watch: Watch) -> None:
    """Only rank 0 prints the steps. A worker was made anew at 900 s, another a second after the leader."""
    put_kubeflow_pod(watch, "train-master-0", "master", 0, 0)
    put_kubeflow_pod(watch, "train-worker-0", "worker", 0, 1)
    put_kubeflow_pod(watch, "train-worker-10", "worker", 10, 900)
    assert texts(watch.source.log_tail("train", 3)) == (["line of train-master-0"], True)
    for number, made in ((10, 0.0), (0, 1.0), (2, 900.0)):
        watch.server.put("pods", pod(f"bare-{number}", None, "Running", running(made + 5), made=made))
        watch.server.logs[("runs", f"bare-{number}", False)] = [f"line of {number}"]
    watch.poll("bare")
    assert texts(watch.source.log_tail("bare", 3)) == (["line of 0"], True)


def test_each_line_of_a_log_has_the_time_at_which_it_began(watch: Watch) -> None:
    """A bar that is redrawn in its line was drawn later, nobody knows when. The line's own text stays as it is."""
    put_ranks(watch.server)
    watch.server.log_begins, watch.server.log_line_seconds = T0, 20.0
    lines = ["2026-09-21T00:00:00Z own stamp", "\r 1/4 [00:20]\r 2/4 [00:40]", "", "done"]
    watch.server.logs[("runs", "train-0-new", False)] = lines
    found = watch.source.log_tail("train", 10)
    assert isinstance(found, Tail)
    lines_found = [line for line in found.lines if not isinstance(line, str)]
    assert [(line.text, None if line.time is None else round(line.time - T0, 3)) for line in lines_found] == [
        ("2026-09-21T00:00:00Z own stamp", 0.0),
        (" 1/4 [00:20]", 20.0),
        (" 2/4 [00:40]", None),
        ("done", 60.0),
    ]


def test_a_log_of_long_lines_keeps_the_newest(watch: Watch) -> None:
    put_ranks(watch.server)
    watch.server.logs[("runs", "train-0-new", False)] = [f"{number} " + "x" * 50_000 for number in range(100)]
    found, is_whole = texts(watch.source.log_tail("train", 100))
    # 100 and 25 lines of 50 kB are over 1 MiB; of 6 lines the last is the log's last.
    assert [line.split()[0] for line in found] == ["94", "95", "96", "97", "98", "99"]
    # More than 6 were asked for, and yet it is not the whole log.
    assert not is_whole


def test_a_bar_is_each_of_its_drawings_with_the_prefix_of_its_line(watch: Watch) -> None:
    put_ranks(watch.server)
    ray = "\x1b[36m(skyrl_entrypoint pid=7)\x1b[0m "
    watch.server.logs[("runs", "train-0-new", False)] = [f"{ray}\r 1/4 \r 2/4 ", "done\r", "\r", "end"]
    bars = [f"{ray} 1/4 ", f"{ray} 2/4 ", "done", "end"]
    assert texts(watch.source.log_tail("train", 10)) == (bars, True)


def test_while_a_container_waits_for_its_restart_the_log_is_the_one_before(watch: Watch) -> None:
    whole = watch.server.put("jobs", job("train"))
    crash = pod("train-a", whole, "Running", waiting("CrashLoopBackOff"), last=terminated(1, 50, 1))
    watch.server.put("pods", crash)
    watch.server.logs[("runs", "train-a", True)] = ["Traceback", "ValueError: \udce9".encode(errors="replace").decode()]
    assert texts(watch.source.log_tail("job/train", 10)) == (["Traceback", "ValueError: ?"], True)


def test_logs_that_are_not_there_are_no_trouble_of_the_source(watch: Watch) -> None:
    whole = watch.server.put("jobs", job("train"))
    for name in ("train", "other"):
        found = watch.source.log_tail(name, 10)
        assert isinstance(found, Failure)
        assert found.is_answer
    watch.server.put("pods", pod("train-a", whole, "Running", running(1)))
    watch.facts("train")
    missing = watch.source.log_tail("train", 10)
    assert missing == Failure(FailureReason.NOT_FOUND, "HTTP 404: pod train-a has no log")
    watch.server.fault = lambda _asked: Fault(403, reason="Forbidden")
    assert watch.source.log_tail("train", 10) == Failure(
        FailureReason.AUTH, "HTTP 403 Forbidden: log of pod train-a in namespace runs"
    )


MakeAt = Callable[[float, float], KubernetesScheduler]


@pytest.fixture
def make_at(kubernetes_server: KubernetesApiServer) -> Iterator[MakeAt]:
    """A source whose `at` and clock are that many seconds after T0."""
    settings = client.Configuration()
    settings.host = kubernetes_server.url
    api_client = client.ApiClient(settings)
    site = Site(scheduler="kubernetes", namespace="runs")

    def make(at: float, now: float) -> KubernetesScheduler:
        return KubernetesScheduler(
            "cw", site, lambda _site: None, at=T0 + at, clock=lambda: T0 + now, api_client=api_client
        )

    yield make
    api_client.rest_client.pool_manager.clear()


def poll_one(source: KubernetesScheduler, name: str) -> Outcome:
    found: list[Outcome] = []
    source.poll([Job(run=name, bucket="sft", scheduler_job=name)], lambda _job, outcome: found.append(outcome))
    (outcome,) = found
    return outcome


def put_past(server: KubernetesApiServer) -> None:
    """A pod that ran from 10 to 100 s and was preempted, one that runs since 400 s, and a job made at 900 s."""
    whole = server.put("jobs", job("train", status={"startTime": stamp(0), "active": 1, "failed": 1}))
    evicted = [condition("DisruptionTarget", 95, reason="PreemptionByScheduler")]
    server.put("pods", pod("train-a", whole, "Failed", terminated(10, 100, 137), conditions=evicted))
    server.put("pods", pod("train-b", whole, "Running", running(400), made=110))
    server.put("jobs", job("later", made=900))


@pytest.mark.parametrize(
    ("at", "ends"),
    [
        (50, [(T0 + 10, None, AttemptEnd.RUNNING)]),
        (200, [(T0 + 10, T0 + 100, AttemptEnd.PREEMPTED)]),
        (500, [(T0 + 10, T0 + 100, AttemptEnd.PREEMPTED), (T0 + 400, None, AttemptEnd.RUNNING)]),
    ],
)
def test_of_the_past_only_attempts_are_told(
    kubernetes_server: KubernetesApiServer, make_at: MakeAt, at: float, ends: list[object]
) -> None:
    put_past(kubernetes_server)
    facts = poll_one(make_at(at, 10_000), "train")
    assert isinstance(facts, SchedulerFacts)
    assert (facts.state, facts.tasks, facts.waiting) == (SchedulerState.UNKNOWN, None, "")
    assert [(found.started, found.ended, found.end) for found in facts.attempts] == ends
    assert facts.submitted == T0
    later = poll_one(make_at(at, 10_000), "later")
    assert isinstance(later, SchedulerFacts)
    assert later.state is SchedulerState.UNKNOWN


def test_just_now_is_the_present(kubernetes_server: KubernetesApiServer, make_at: MakeAt) -> None:
    put_past(kubernetes_server)
    for name, state in (("train", SchedulerState.RUNNING), ("later", SchedulerState.GONE)):
        facts = poll_one(make_at(500, 800), name)
        assert isinstance(facts, SchedulerFacts)
        assert facts.state is state


def kubeconfig(url: str, user: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "other",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "cw", "context": {"cluster": "c", "user": "u", "namespace": "runs"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
        ],
    }


@pytest.fixture
def write_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))

    def write(content: str) -> Path:
        path.write_text(content, encoding="utf-8")
        return path

    return write


def outcome_of(context: str | None, name: str = "train", namespace: str | None = None) -> Outcome:
    site = Site(scheduler="kubernetes", context=context, namespace=namespace)
    source = KubernetesScheduler("cw", site, lambda _site: None)
    found = poll_one(source, name)
    source.close()
    return found


def test_a_context_of_the_kubeconfig_gives_address_token_and_namespace(
    kubernetes_server: KubernetesApiServer, write_kubeconfig: Callable[[str], Path]
) -> None:
    path = write_kubeconfig(yaml.safe_dump(kubeconfig(kubernetes_server.url, {"token": SECRET})))
    before = path.read_bytes()
    kubernetes_server.put("jobs", job("train", size=3))
    facts = outcome_of("cw")
    assert isinstance(facts, SchedulerFacts)
    assert facts.tasks_expected == 3
    assert {asked.headers["authorization"] for asked in kubernetes_server.requests} == {f"Bearer {SECRET}"}
    kubernetes_server.namespaces.add("default")
    for context, namespace, listed in (("other", None, "default"), (None, "evals", "evals"), ("cw", "evals", "evals")):
        kubernetes_server.namespaces.add(listed)
        kubernetes_server.requests.clear()
        assert isinstance(outcome_of(context, namespace=namespace), SchedulerFacts)
        assert kubernetes_server.requests[0].path == f"/api/v1/namespaces/{listed}/pods"
    assert path.read_bytes() == before


def test_credentials_that_are_refused_are_read_anew(
    kubernetes_server: KubernetesApiServer, write_kubeconfig: Callable[[str], Path]
) -> None:
    write_kubeconfig(yaml.safe_dump(kubeconfig(kubernetes_server.url, {"token": "old"})))
    kubernetes_server.put("jobs", job("train"))
    kubernetes_server.fault = lambda asked: (
        Fault(401, reason="Unauthorized") if asked.headers["authorization"] == "Bearer old" else None
    )
    source = KubernetesScheduler("cw", Site(scheduler="kubernetes", context="cw"), lambda _site: None)
    refused = poll_one(source, "train")
    assert isinstance(refused, Failure)
    assert refused.reason is FailureReason.AUTH
    write_kubeconfig(yaml.safe_dump(kubeconfig(kubernetes_server.url, {"token": "new"})))
    assert isinstance(poll_one(source, "train"), SchedulerFacts)
    source.close()


def with_plugin(program: str) -> str:
    """A kubeconfig whose credentials come from a program."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", program],
        "interactiveMode": "Never",
    }
    return json.dumps(kubeconfig("http://127.0.0.1:9", {"exec": plugin}))


BROKEN = [
    ("", "is empty"),
    (f"users: [{{token: {SECRET}\nx", "no YAML (line 2)"),
    (f"token {SECRET}", "cannot be used"),
    (json.dumps({"users": SECRET, "clusters": [], "contexts": []}), ""),
    (json.dumps(kubeconfig("http://127.0.0.1:9", {})).replace('"cw"', '"xx"'), "cw"),
    (with_plugin(f"import sys; print('{SECRET}', file=sys.stderr); sys.exit(1)"), "the credential plugin failed"),
]


@pytest.mark.parametrize(("content", "said"), BROKEN)
def test_a_kubeconfig_that_cannot_be_used_is_one_clear_line(
    write_kubeconfig: Callable[[str], Path], content: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_kubeconfig(content)
    failure = outcome_of("cw")
    assert isinstance(failure, Failure)
    assert failure.reason is FailureReason.AUTH, failure
    assert failure.detail.startswith(f"kubeconfig {path}: ")
    assert said in failure.detail
    assert SECRET not in failure.detail
    assert "\n" not in failure.detail
    assert SECRET not in caplog.text


def test_a_kubeconfig_that_is_not_there(write_kubeconfig: Callable[[str], Path]) -> None:
    path = write_kubeconfig("")
    path.unlink()
    failure = outcome_of(None)
    assert isinstance(failure, Failure)
    assert failure.detail.startswith(f"kubeconfig {path}: ")


def test_in_a_pod_the_service_account_is_used_unless_a_context_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (("token", SECRET), ("ca.crt", "certificate"), ("namespace", "here\n")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    # The client binds these at its import; in a pod they name files that the kubelet mounts.
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    made: list[Any] = []
    monkeypatch.setattr(client, "ApiClient", lambda settings: made.append(settings) or "a client")
    api = KubernetesApi("cw", Site(scheduler="kubernetes"), lambda _site: None)
    assert api.connect() is None
    assert (api.namespace, made[0].host, made[0].retries) == ("here", "https://10.0.0.1:443", False)
    assert list(made[0].api_key.values()) == [f"bearer {SECRET}"]
    named = KubernetesApi("cw", Site(scheduler="kubernetes", context="cw"), lambda _site: None)
    assert isinstance(named.connect(), Failure)
