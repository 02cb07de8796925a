"""The rendered config is one that the exporter takes, and the exporter serves from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from runwatch.cli import main
from tests.e2e.running_exporter import serving
from tests.helm.chart_rendering import CHART_FOLDER, CONFIG, MATRIX, NAME, Values, config_text, container

BCRYPT_OF_SECRET = "$2b$04$" + "a" * 53
RUNS = [f"run-{number}" for number in range(8)]


def check(path: Path) -> tuple[int, str]:
    ran = CliRunner().invoke(main, ["check", str(path)])
    return ran.exit_code, ran.stderr


def placed(text: str, folder: Path) -> Path:
    """Write a rendered config as in a pod, where the folders of mounts lie below `folder`."""
    for mount in ("/etc/runwatch-web", "/var/lib/runwatch", "/secrets", "/logs"):
        text = text.replace(mount, f"{folder}{mount}")
        (folder / mount.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (folder / "etc/runwatch-web/web.yaml").write_text(f"basic_auth_users: {{prometheus: {BCRYPT_OF_SECRET}}}\n")
    path = folder / "etc/runwatch/runwatch.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_runwatch_check_finds_no_fault(values: Values, tmp_path: Path) -> None:
    code, complaints = check(placed(config_text(values), tmp_path))
    assert code == 0, complaints


def test_the_readmes_values_give_a_config_without_fault(tmp_path: Path) -> None:
    readme = (CHART_FOLDER / "README.md").read_text(encoding="utf-8")
    (text,) = [block for block in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "my-values.yaml" in block]
    values = yaml.safe_load(text)
    code, complaints = check(placed(config_text(values), tmp_path))
    assert code == 0, complaints
    assert container(values)["image"] == "registry.example.org/ml/runwatch:0.1.0"


def test_numbers_and_texts_stay_what_they_are() -> None:
    """Helm reads numbers as floats, and YAML takes many a text for something else."""
    words = "on off yes no y n true null ~ 12 012 1_000 0x1F 0o17 1e3 1:30 2024-05-01 .inf .nan - : # ? * & ! % @ `"
    labels = {"note": "\n".join(words.split()), "owner": " a: b # c ", "grid": '{{ fail "x" }}', "tracker_row": "é☃\t"}
    jobs: list[dict[str, Any]] = [
        {"run": word, "bucket": "sft", "labels": labels, "config": {"train_batch_size": number}}
        for word, number in zip(words.split(), (10**power + 1 for power in range(40)), strict=False)
        if number <= 10**15 + 1
    ]
    jobs += [{"run": f"{word}|", "bucket": "rl", "history": {"log": word}} for word in words.split()]
    given = {**CONFIG, "jobs": jobs, "max_jobs": 1000000, "stale_after": "1d12h"}
    rendered = yaml.safe_load(config_text({"config": given}))
    defaults = {"listen": "0.0.0.0:9877", "state_file": "/var/lib/runwatch/state.json"}
    assert rendered == given | defaults
    assert json.dumps(rendered, sort_keys=True) == json.dumps(given | defaults, sort_keys=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Values]:
    """Values whose jobs are files that lie in a folder of the test."""
    for run in RUNS:
        rows = [{"_step": step, "_timestamp": 1_772_366_400 + 10 * step, "train/loss": 2.0} for step in range(5)]
        (tmp_path / f"{run}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    jobs = [{"run": run, "bucket": "sft", "history": {"jsonl": str(tmp_path / f"{run}.jsonl")}} for run in RUNS]
    yield {"config": {"jobs": jobs}, "shards": 2}


def arguments(values: Values, pod_name: str) -> list[str]:
    """Return what stands behind `serve --config=…`, with the variables filled in as Kubernetes does."""
    command, config, *others = container(values)["args"]
    assert (command, config) == ("serve", "--config=/etc/runwatch/runwatch.yaml")
    return [argument.replace("$(POD_NAME)", pod_name) for argument in others]


def served_runs(text: str, folder: Path, arguments: list[str]) -> list[str]:
    path = placed(text.replace("0.0.0.0:9877", "127.0.0.1:0"), folder)
    with serving(path, *arguments) as exporter:
        return re.findall(r'^mljob_step\{[^}]*run="([^"]+)"[^}]*\} 4$', exporter.metrics(), re.MULTILINE)


def test_the_exporter_serves_from_the_rendered_config(fleet: Values, tmp_path: Path) -> None:
    alone = {"config": fleet["config"]}
    assert arguments(alone, "demo-runwatch-5d8f7c9b4d-12345") == []
    assert sorted(served_runs(config_text(alone), tmp_path / "alone", [])) == RUNS


def test_shards_serve_each_job_once(fleet: Values, tmp_path: Path) -> None:
    text = config_text(fleet)
    parts = [served_runs(text, tmp_path / str(ordinal), arguments(fleet, f"{NAME}-{ordinal}")) for ordinal in range(2)]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == RUNS
