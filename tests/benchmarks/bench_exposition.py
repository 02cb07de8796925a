"""100,000 series: our body against the client library's, both made in this run.

Run with `pytest tests/benchmarks/bench_exposition.py -s`.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from runwatch.catalogue import INFO_LABELS, JOB_LABELS, JOB_METRICS
from runwatch.exposition import Body, Exposition
from runwatch.measurements import JobReport, Measurements

JOBS = 5000
FAMILIES = [metric for metric in JOB_METRICS if not metric.labels][:19]  # and mljob_info: 20 series a job
ROUNDS = 3


def value(family: int, job: int, poll: int) -> float:
    return (family * 7919 + job * 104729 + poll) / 8


def fleet(poll: int, changed: range) -> list[JobReport]:
    reports = []
    for job in changed:
        measurements = Measurements()
        for number, metric in enumerate(FAMILIES):
            measurements.set(metric.name, value(number, job, poll))
        reports.append(JobReport(f"run-{job:05}", "sft", "marin", {"owner": "u1"}, measurements, (), ()))
    return reports


class LibraryCollector(Collector):
    """The same series as fresh families at every scrape: the library's recommended form, and its faster one."""

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("mljob_info", "What the job is; always 1.", labels=[*JOB_LABELS, *INFO_LABELS])
        for job in range(JOBS):
            info.add_metric([f"run-{job:05}", "sft", "marin", *("u1" if x == "owner" else "" for x in INFO_LABELS)], 1)
        yield info
        for number, metric in enumerate(FAMILIES):
            family = GaugeMetricFamily(metric.name, metric.help, labels=JOB_LABELS)
            for job in range(JOBS):
                family.add_metric([f"run-{job:05}", "sft", "marin"], value(number, job, 0))
            yield family


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def take_all(exposition: Exposition, reports: list[JobReport]) -> None:
    for report in reports:
        assert exposition.update(report)


def samples(body: bytes) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels["run"]): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_a_poll_is_rendered_several_times_faster_than_by_the_library() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LibraryCollector())
    exposition = Exposition()
    reports = fleet(0, range(JOBS))
    first = min(seconds(lambda into=into: take_all(into, reports)) for into in (Exposition(), exposition))  # type: ignore[misc]
    body = exposition.render()
    assert body.series == 100_000
    assert samples(body.plain) == samples(generate_latest(registry))

    def one_percent(poll: int) -> Body:
        for report in fleet(poll, range(0, JOBS, 100)):
            assert exposition.update(report)
        return exposition.render()

    def nothing_new() -> None:
        assert not any(exposition.update(report) for report in reports)

    unchanged = min(seconds(nothing_new) for _ in range(ROUNDS))
    ours = min(seconds(lambda poll=poll: one_percent(poll)) for poll in range(1, ROUNDS + 1))  # type: ignore[misc]
    library = min(seconds(lambda: generate_latest(registry)) for _ in range(ROUNDS))
    # What the library's server does at every scrape.
    library_gzip = library + seconds(lambda: gzip.compress(body.plain))
    print(
        f"\n{len(body.plain) / 1e6:.1f} MB plain, {len(body.gzip) / 1e6:.2f} MB gzip;"
        f" all jobs new {first * 1e3:.0f} ms;"
        f" looked at, nothing changed {unchanged * 1e3:.0f} ms;"
        f" 1 % changed, plain and gzip ready {ours * 1e3:.0f} ms;"
        f" library plain {library * 1e3:.0f} ms, with its gzip {library_gzip * 1e3:.0f} ms"
    )
    assert first < library
    assert ours * 3 < library
    assert ours * 6 < library_gzip
