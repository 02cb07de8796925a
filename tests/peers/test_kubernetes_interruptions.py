"""What stopped a gang whose pods were removed between two polls, by the real client and what is kept over polls."""

from __future__ import annotations

from runwatch.derive.interruptions import interruptions
from runwatch.facts import InterruptionCause
from runwatch.scheduler_digest import SchedulerDigest
from tests.peers.kubernetes_fixtures import Watch, kubernetes_server, watch
from tests.peers.kubernetes_objects import T0, Object, condition, job, pod, running, stamp, workload

__all__ = ["kubernetes_server", "watch"]

LEAVING: Object = {"deletionTimestamp": stamp(2030), "deletionGracePeriodSeconds": 30}


def put_pods(watch: Watch, whole: Object, made: float) -> None:
    for number in range(2):
        watch.server.put("pods", pod(f"train-{number}-{made:g}", whole, "Running", running(made + 20), made=made))


class Story:
    """Polls of `train`, and what interrupted it by then: cause, seconds after `T0`, attempts that ended, reason."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._digest = SchedulerDigest(60.0)

    def poll(self, at: float) -> list[tuple[InterruptionCause, float, int, str]]:
        self._digest.add(self._watch.facts("train"), T0 + at)
        view = self._digest.view(T0 + at)
        assert view is not None
        return [(event.cause, event.time - T0, event.attempts, event.reason) for event in interruptions(view)]


def test_a_gang_that_kueue_evicts_and_lets_run_again(watch: Watch) -> None:
    """The pods are gone within their grace, and no poll sees them end: Kueue's Workload says what stopped them."""
    whole = watch.server.put("jobs", job("train", size=2))
    put_pods(watch, whole, 0.0)
    story = Story(watch)
    assert story.poll(600) == []

    whole["spec"]["suspend"] = True
    whole["status"] = {"conditions": [condition("Suspended", 611)]}
    watch.server.put("workloads", workload(whole, condition("Evicted", 610, reason="Preempted"), evictions=1))
    watch.server.objects["pods"].clear()
    evicted = (InterruptionCause.PREEMPTION, 610.0, 2, "Kueue evicted the job (Preempted)")
    assert story.poll(660) == [evicted]

    whole["spec"]["suspend"] = False
    whole["status"] = {"startTime": stamp(900), "active": 2, "conditions": [condition("Suspended", 900, holds="False")]}
    resumed = condition("Evicted", 900, reason="QuotaReserved", holds="False")
    watch.server.put("workloads", workload(whole, resumed, evictions=1))
    put_pods(watch, whole, 900.0)
    assert story.poll(960) == [evicted]


def test_a_pod_that_was_last_seen_while_the_scheduler_removed_it(watch: Watch) -> None:
    """The job's own finalizer keeps a pod that ended for some seconds, and the next poll finds its replacement."""
    whole = watch.server.put("jobs", job("train", size=2))
    put_pods(watch, whole, 0.0)
    story = Story(watch)
    story.poll(1960)
    disrupted = [condition("DisruptionTarget", 2000, reason="PreemptionByScheduler")]
    leaving = pod("train-1-0", whole, "Running", running(20), conditions=disrupted, meta=LEAVING)
    watch.server.put("pods", leaving)
    assert story.poll(2010) == []
    watch.server.remove("pods", "train-1-0")
    watch.server.put("pods", pod("train-1-2031", whole, "Running", running(2040), made=2031))
    assert story.poll(2070) == [(InterruptionCause.PREEMPTION, 2070.0, 1, "PreemptionByScheduler")]


def test_a_pod_that_was_removed_and_nobody_says_why(watch: Watch) -> None:
    whole = watch.server.put("jobs", job("train", size=2))
    put_pods(watch, whole, 0.0)
    story = Story(watch)
    story.poll(1960)
    watch.server.put("pods", pod("train-1-0", whole, "Running", running(20), meta=LEAVING))
    story.poll(2010)
    watch.server.remove("pods", "train-1-0")
    watch.server.put("pods", pod("train-1-2031", whole, "Running", running(2040), made=2031))
    assert [event[0] for event in story.poll(2070)] == [InterruptionCause.UNKNOWN]


def test_an_eviction_before_the_pods_ran_did_not_end_them(watch: Watch) -> None:
    """Kueue's condition stays for as long as it holds: what is lost later was not ended by it."""
    whole = watch.server.put("jobs", job("train", size=2))
    watch.server.put("workloads", workload(whole, condition("Evicted", 610, reason="Preempted")))
    put_pods(watch, whole, 900.0)
    story = Story(watch)
    story.poll(960)
    watch.server.objects["pods"].clear()
    assert [event[0] for event in story.poll(1020)] == [InterruptionCause.UNKNOWN]
