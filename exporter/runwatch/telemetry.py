"""The exporter's own metrics: section "The exporter about itself" of the catalogue."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from runwatch import __version__
from runwatch.catalogue import METRICS
from runwatch.exposition import printable_label_value
from runwatch.facts import FailureReason, SourceKind

_POLL_SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

_VARIES_BETWEEN_EQUAL_POLLS = frozenset({"runwatch_poll_duration_seconds"})
"""What an output that must come out the same twice leaves out."""


def _gauge(name: str, registry: CollectorRegistry) -> Gauge:
    metric = METRICS[name]
    return Gauge(metric.name, metric.help, metric.labels, registry=registry)


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    metric = METRICS[name]
    return Counter(metric.name, metric.help, metric.labels, registry=registry)


class Telemetry:
    """Counts and states of the exporter itself, in a registry of its own. Safe for use from any thread.

    A gauge that was never set has no series. Label values are made exportable as those of jobs are.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry(auto_describe=False)
        self._registry = registry
        self._process_registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process_registry)
        self._lock = threading.Lock()
        self._unlabelled_and_set: set[str] = set()
        self._build_info = _gauge("runwatch_build_info", registry)
        self._source_up = _gauge("runwatch_source_up", registry)
        self._source_interval = _gauge("runwatch_source_interval_seconds", registry)
        self._last_success = _gauge("runwatch_source_last_success_timestamp_seconds", registry)
        self._errors = _counter("runwatch_source_errors_total", registry)
        self._requests = _counter("runwatch_source_requests_total", registry)
        poll_duration = METRICS["runwatch_poll_duration_seconds"]
        self._poll_duration = Histogram(
            poll_duration.name,
            poll_duration.help,
            poll_duration.labels,
            buckets=_POLL_SECONDS_BUCKETS,
            registry=registry,
        )
        self._jobs = _gauge("runwatch_jobs", registry)
        self._unlabelled = {
            name: _gauge(name, registry)
            for name in (
                "runwatch_series",
                "runwatch_jobs_dropped",
                "runwatch_config_last_reload_successful",
                "runwatch_config_last_reload_success_timestamp_seconds",
            )
        }
        self._malformed = _counter("runwatch_history_rows_malformed_total", registry)
        self._unparsed = _counter("runwatch_log_lines_unparsed_total", registry)
        self._unparsed_so_far: dict[str, int] = {}
        self._started: set[tuple[str, str]] = set()
        self._build_info.labels(__version__).set(1)

    def count_request(self, kind: SourceKind, site: str) -> None:
        """Count one request to an upstream."""
        with self._lock:
            self._requests.labels(*self._source(kind, site)).inc()

    def count_error(self, kind: SourceKind, site: str, reason: FailureReason) -> None:
        """Count one failed look."""
        with self._lock:
            self._errors.labels(*self._source(kind, site), reason.value).inc()

    def observe_poll(self, kind: SourceKind, site: str, seconds: float) -> None:
        """Record how long a poll took."""
        with self._lock:
            self._poll_duration.labels(*self._source(kind, site)).observe(seconds)

    def set_source_up(self, kind: SourceKind, site: str, up: bool) -> None:
        """Say whether the last poll could read at least one job of the source at the site."""
        with self._lock:
            self._source_up.labels(*self._source(kind, site)).set(float(up))

    def set_last_success(self, kind: SourceKind, site: str, unix: float) -> None:
        """Say when (Unix seconds) the source was last read at the site."""
        with self._lock:
            self._last_success.labels(*self._source(kind, site)).set(unix)

    def set_interval(self, kind: SourceKind, site: str, seconds: float) -> None:
        """Say how many seconds lie between polls of the source."""
        with self._lock:
            self._source_interval.labels(*self._source(kind, site)).set(seconds)

    def drop_source(self, kind: SourceKind, site: str) -> None:
        """Drop what is told of a source's health at a site: no job that is not over uses it there any more.

        Its counters stay: a counter that went away and came back would read as a reset.
        """
        source = (kind.value, printable_label_value(site))
        with self._lock:
            for family in (self._source_up, self._source_interval, self._last_success):
                with contextlib.suppress(KeyError):
                    family.remove(*source)

    def set_jobs(self, by_bucket: Mapping[str, int]) -> None:
        """Say how many jobs are watched; a bucket that is not named has no series."""
        with self._lock:
            self._jobs.clear()
            for bucket, count in by_bucket.items():
                self._jobs.labels(bucket).set(count)

    def set_series(self, count: int) -> None:
        """Say how many series of jobs the exposition has."""
        self._set("runwatch_series", count)

    def set_jobs_dropped(self, count: int) -> None:
        """Say how many discovered jobs were over the limit."""
        self._set("runwatch_jobs_dropped", count)

    def add_malformed(self, run: str, count: int) -> None:
        """Count rows or lines of a run's history that were skipped; 0 shows that they are counted at all."""
        with self._lock:
            self._malformed.labels(printable_label_value(run)).inc(count)

    def set_log_lines_unparsed(self, run: str, count: int) -> None:
        """Say how many lines of a run's log looked like metrics and could not be read, over the whole log so far.

        A log that is read anew counts from the start again: what it counted before stays counted.
        """
        name = printable_label_value(run)
        with self._lock:
            before = self._unparsed_so_far.get(name, 0)
            self._unparsed_so_far[name] = count
            self._unparsed.labels(name).inc(max(count - before, 0))

    def forget_run(self, run: str) -> None:
        """Drop the series of a run that is watched no more."""
        name = printable_label_value(run)
        with self._lock:
            self._unparsed_so_far.pop(name, None)
            for family in (self._malformed, self._unparsed):
                with contextlib.suppress(KeyError):
                    family.remove(name)

    def set_reload(self, success: bool, at: float) -> None:
        """Say how the last load of the config went, and when (Unix seconds); a failure leaves the last success."""
        self._set("runwatch_config_last_reload_successful", float(success))
        if success:
            self._set("runwatch_config_last_reload_success_timestamp_seconds", at)

    def render(self, *, reproducible: bool) -> bytes:
        """Return all families in text format 0.0.4, without `_created` series.

        Args:
            reproducible: Leave out what differs between two equal polls: durations and the process's own metrics.
        """
        with self._lock:
            families = list(self._families(reproducible))
        own = generate_latest(_Families(families))
        return own if reproducible else own + generate_latest(self._process_registry)

    def _families(self, reproducible: bool) -> Iterator[Family]:
        for collected in self._registry.collect():
            # The library calls a counter's family by its name without `_total`.
            name = collected.name + "_total" if collected.type == "counter" else collected.name
            if reproducible and name in _VARIES_BETWEEN_EQUAL_POLLS:
                continue
            if name in self._unlabelled and name not in self._unlabelled_and_set:
                continue
            samples = [sample for sample in collected.samples if not sample.name.endswith("_created")]
            if not samples:
                continue
            family = Family(collected.name, collected.documentation, collected.type)
            family.samples = sorted(samples, key=_child_order)
            yield family

    def _source(self, kind: SourceKind, site: str) -> tuple[str, str]:
        """Return the label values, and start the counters of a new source at 0, so that a first error is a rise."""
        source = (kind.value, printable_label_value(site))
        if source in self._started:
            return source
        self._started.add(source)
        self._requests.labels(*source)
        for reason in FailureReason:
            self._errors.labels(*source, reason.value)
        return source

    def _set(self, name: str, value: float) -> None:
        with self._lock:
            self._unlabelled[name].set(value)
            self._unlabelled_and_set.add(name)


class _Families(Collector):
    """Families that were collected already, in the shape that the library's renderer takes."""

    def __init__(self, families: list[Family]) -> None:
        self._collected = families

    def collect(self) -> list[Family]:
        return self._collected


def _child_order(sample: Sample) -> list[tuple[str, str]]:
    """Order children by their labels; the sort is stable, so a histogram's buckets keep their order."""
    return sorted((name, value) for name, value in sample.labels.items() if name != "le")
