"""Each job is watched by exactly one of several exporters, under the name that it has without shards."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.config.model import Config, Discovery, Labels
from runwatch.discovery import FleetFinder
from runwatch.fleet import FoundJob, assemble_fleet
from runwatch.found.shards import Shard, ShardError
from runwatch.remembered import Remembered
from runwatch.telemetry import Telemetry

DISCOVERY = Discovery(bucket="rl", wandb="team/rl")
SWEEP = Discovery(bucket="sft", wandb="team/sweep", labels=Labels(grid="lr"))


def config(*runs: str, **settings: object) -> Config:
    return Config.model_validate({"jobs": [{"run": run, "bucket": "sft"} for run in runs], **settings})


def found(number: int, name: str, discovery: Discovery = DISCOVERY, state: str = "running") -> FoundJob:
    return FoundJob(f"team/rl/{number}", name, float(number), state, "ann", discovery)


@given(st.lists(st.text(), unique=True), st.text(min_size=1), st.integers(1, 40))
def test_exactly_one_shard_takes_a_job(runs: list[str], grid: str, count: int) -> None:
    shards = [Shard(index, count) for index in range(count)]
    for run in runs:
        assert [shard.takes(run) for shard in shards].count(True) == 1
        assert [shard.takes(run, grid) for shard in shards] == [shard.takes("", grid) for shard in shards]


def test_the_part_is_the_first_8_bytes_of_a_sha256() -> None:
    # printf 'run a' | sha256sum, and so on: a new release must not move jobs between the shards of an old one.
    parts = {run: [next(i for i in range(n) if Shard(i, n).takes(run)) for n in (2, 3, 5)] for run in ("a", "b", "c")}
    assert parts == {"a": [0, 2, 3], "b": [1, 2, 4], "c": [0, 1, 2]}
    assert [next(i for i in range(n) if Shard(i, n).takes("a", "g")) for n in (2, 3, 5)] == [1, 1, 4]


def test_parts_are_about_even() -> None:
    sizes = Counter(next(i for i in range(4) if Shard(i, 4).takes(f"delphi-lr{n}")) for n in range(4000))
    # 1,000 each; the standard deviation of a binomial(4000, 1/4) is 27.
    assert sorted(sizes) == [0, 1, 2, 3]
    assert all(abs(size - 1000) < 140 for size in sizes.values())


def test_shards_together_watch_the_fleet_under_its_own_names() -> None:
    written = config("a", "b", "run")
    runs = [found(n, name) for n, name in enumerate(["run", "x", "x", "y", "z", *(f"r{n}" for n in range(20))])]
    whole = [job.run for job in assemble_fleet(written, runs).jobs]
    parts = [[job.run for job in assemble_fleet(written, runs, shard=Shard(index, 3)).jobs] for index in range(3)]
    assert "run@none" in whole
    assert "x@none" in whole
    assert sorted(run for part in parts for run in part) == sorted(whole)
    assert all(part for part in parts)


def test_the_cells_of_a_grid_stay_together() -> None:
    runs = [found(n, f"cell-{n}", SWEEP) for n in range(30)]
    sizes = sorted(len(assemble_fleet(config(), runs, shard=Shard(index, 3)).jobs) for index in range(3))
    assert sizes == [0, 0, 30]


def test_the_limit_is_of_one_exporter() -> None:
    runs = [found(n, f"r{n}") for n in range(40)]
    parts = [assemble_fleet(config(max_jobs=10), runs, shard=Shard(index, 2)) for index in range(2)]
    assert [len(part.jobs) for part in parts] == [10, 10]
    assert sum(part.dropped for part in parts) == 20


def test_what_finds_jobs_keeps_to_its_shard() -> None:
    written = config(*(f"job-{n}" for n in range(50)))
    finders = [FleetFinder(Telemetry(), Remembered(None, 60.0), shard=Shard(index, 2)) for index in range(2)]
    parts = [[job.run for job in finder.current(written, 0.0).jobs] for finder in finders]
    for finder in finders:
        finder.close()
    assert sorted(parts[0] + parts[1]) == sorted(f"job-{n}" for n in range(50))
    assert all(len(part) > 5 for part in parts)


@pytest.mark.parametrize(
    ("text", "shard"),
    [
        ("0/1", Shard(0, 1)),
        ("2/3", Shard(2, 3)),
        ("runwatch-2/3", Shard(2, 3)),
        ("my-release-runwatch-11/12", Shard(11, 12)),
    ],
)
def test_a_shard_is_written_as_index_and_count(text: str, shard: Shard) -> None:
    assert Shard.parse(text) == shard


@pytest.mark.parametrize("text", ["", "1", "/3", "3/3", "0/0", "-1/3", "a/3", "runwatch-x/3", "1/3/3", "1.0/3", "٣/4"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ShardError, match=r"^--shard: expected "):
        Shard.parse(text)


def test_serve_refuses_a_wrong_shard_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "runwatch.yaml"
    path.write_text("listen: 127.0.0.1:0\n")
    command = [sys.executable, "-m", "runwatch", "serve", "--config", str(path), "--shard", "3/3"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr == "runwatch serve: --shard: expected an index from 0 to 2 of 3, got '3/3'\n"
