"""A log is one job's, though the glob of another job, whose name it begins or ends with, fits it too."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runwatch.config.model import Config
from runwatch.fleet import assemble_fleet
from runwatch.found.rival_logs import is_one_of, rival_logs
from runwatch.sources.registry import SourceSet
from runwatch.telemetry import Telemetry
from runwatch.watch import Watch
from tests.unit.log_watching import BANNER, logged_step
from tests.unit.test_watch import Clock


@pytest.mark.parametrize(
    ("logs", "rivals"),
    [
        ({"a": "/l/a-*.out", "b": "/l/a-b-*.out"}, {"a": ("/l/a-b-*.out",)}),
        (
            {"a": "/l/a*.out", "b": "/l/ab*.out", "c": "/l/abc*.out"},
            {"a": ("/l/ab*.out", "/l/abc*.out"), "b": ("/l/abc*.out",)},
        ),
        ({"a": "/l/*-a.out", "b": "/l/*-b-a.out", "c": "/l/*-c.out"}, {"a": ("/l/*-b-a.out",)}),
        ({"a": "/l/a-*/train.log", "b": "/l/a-b-*/train.log"}, {"a": ("/l/a-b-*/train.log",)}),
        ({"a": "/l/a-*.out", "b": "/l/a-b-7.out"}, {"a": ("/l/a-b-7.out",)}),
        ({"a": "/l/a-*.out", "b": "/l/a-*.err"}, {}),
        ({"a": "/l/a-*.out", "b": "/m/a-b-*.out"}, {}),
        ({"a": "/l/a-*.out", "b": "/l/a-*.out"}, {}),  # one log of two jobs: nothing tells whose it is
        ({"a": "/l/a-[0-9]*.out", "b": "/l/a-1-*.out", "c": "/l/a.out"}, {}),
    ],
)
def test_the_more_exact_glob_has_a_log(logs: dict[str, str], rivals: dict[str, tuple[str, ...]]) -> None:
    assert rival_logs(logs) == rivals


@pytest.mark.parametrize(
    ("path", "log", "is_own"),
    [
        ("/l/a-b-1.out", "/l/a-b-*.out", True),
        ("/mnt/x/l/a-b-1.out", "/l/a-b-*.out", True),  # /l is a link
        ("/l/a-1.out", "/l/a-b-*.out", False),
        ("/l/a-b-1.err", "/l/a-b-*.out", False),
        ("/l/a-b-1/train.log", "/l/a-b-*/train.log", True),
        ("/l/a-b-1/eval.log", "/l/a-b-*/train.log", False),
        ("/l/a-b-7.out", "/l/a-b-7.out", True),
        ("/l/a-b-77.out", "/l/a-b-7.out", False),
    ],
)
def test_a_file_and_the_log_that_means_it(path: str, log: str, is_own: bool) -> None:
    assert is_one_of(path, [log]) is is_own


@pytest.mark.parametrize("glob", ["/l/job{}-*.out", "/l/*-job{}.out", "/l/{}job-*.out"])
def test_many_jobs_take_little_time(glob: str) -> None:
    logs = {str(number): glob.format(number) for number in range(5000)}
    began = time.process_time()
    rival_logs(logs)
    assert time.process_time() - began < 2


def test_the_steps_of_a_longer_name_are_not_those_of_a_shorter_one(tmp_path: Path) -> None:
    def job(name: str) -> dict[str, object]:
        return {"run": name, "bucket": "sft", "history": {"log": f"{tmp_path}/{name}-*.out"}}

    def write(name: str, steps: int) -> None:
        lines = "".join(logged_step(step, 100) for step in range(1, steps + 1))
        (tmp_path / name).write_text(BANNER.format(total=100) + lines)

    write("delphi-1.out", 20)
    write("delphi-big-2.out", 40)
    sources, watch = SourceSet(Telemetry()), Watch(Config(), Telemetry(), clock=Clock())

    def steps(*names: str) -> dict[str, float | None]:
        config = Config.model_validate({"jobs": [job(name) for name in names]})
        jobs = assemble_fleet(config).jobs
        watch.set_jobs(config, jobs)
        for _ in range(2):
            for binding in sources.bindings(config, jobs):
                watch.poll(binding)
        return {report.run: report.measurements.get("mljob_step") for report in watch.reports()}

    assert steps("delphi") == {"delphi": 40.0}  # nothing tells that the second log is another job's
    assert steps("delphi", "delphi-big") == {"delphi": 20.0, "delphi-big": 40.0}
    sources.close()
