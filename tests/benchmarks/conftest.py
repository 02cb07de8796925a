"""The Prometheus of many runs, made once for all benchmarks that ask it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.benchmarks.prometheus_of_many import PrometheusOfMany, prometheus_of_many


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusOfMany]:
    began = time.perf_counter()
    with prometheus_of_many(tmp_path_factory.mktemp("many")) as found:
        print(f"\nset up in {time.perf_counter() - began:.0f} s")
        yield found
