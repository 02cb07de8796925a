"""The compose file: what a client makes of it, and that it is wired to files of this repository that are there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from runwatch.config.load import check
from tests.deploy.image_steps import ROOT
from tests.required_programs import required_program

EXTERNAL = {"runwatch.yaml", "alertmanager"}
"""What who installs it brings himself."""


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The file as a compose client reads it, from a copy with what a user adds."""
    program = required_program("docker-compose", "docker-compose")
    folder = tmp_path_factory.mktemp("compose")
    shutil.copytree(ROOT / "deploy", folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
    shutil.copy(ROOT / "deploy" / "runwatch.example.yaml", folder / "deploy" / "runwatch.yaml")
    done = subprocess.run(
        [program, "-f", "deploy/compose.yaml", "config"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = yaml.safe_load(done.stdout.replace(str(folder), str(ROOT)))
    return read


def mounts(service: dict[str, Any]) -> dict[str, Path]:
    """Return where each file or folder of this repository is mounted."""
    pairs = [str(volume).split(":") for volume in service["volumes"]]
    return {target: Path(source) for source, target, *_ in pairs if source.startswith("/")}


def test_every_mounted_file_is_there_and_read_only(composed: dict[str, Any]) -> None:
    seen = 0
    for name, service in composed["services"].items():
        for target, source in mounts(service).items():
            seen += 1
            assert source.exists() or source.name in EXTERNAL, (name, source)
            assert f"{source}:{target}:ro" in service["volumes"], (name, target)
    assert seen >= 8


def test_all_services_are_hardened_and_open_to_this_machine_only(composed: dict[str, Any]) -> None:
    assert set(composed["services"]) == {"runwatch", "prometheus", "alertmanager", "grafana"}
    for name, service in composed["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(str(port).startswith("127.0.0.1:") for port in service["ports"]), name
        assert "privileged" not in service
        image = str(service["image"])
        assert image == "runwatch:local" or image.split(":")[1][:1] in "v123456789", f"{name}: {image} has no version"


def test_prometheus_finds_rules_exporter_and_alertmanager(composed: dict[str, Any]) -> None:
    where = mounts(composed["services"]["prometheus"])
    config = yaml.safe_load(where["/etc/prometheus/prometheus.yml"].read_text())
    [rules] = config["rule_files"]
    folder = where[str(Path(rules).parent)]
    assert {path.name for path in folder.glob(Path(rules).name)} == {"runwatch.yaml"}
    [scrape] = config["scrape_configs"]
    assert scrape["job_name"] == "runwatch"
    for target in (*scrape["static_configs"][0]["targets"], "alertmanager:9093"):
        service, port = target.split(":")
        assert str(composed["services"][service]["ports"][0]).split(":")[2].split("/")[0] == port
    program = required_program("prometheus", "promtool")
    done = subprocess.run(
        [program, "check", "config", "--syntax-only", where["/etc/prometheus/prometheus.yml"]],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_alertmanager_finds_templates_and_secrets(composed: dict[str, Any]) -> None:
    where = mounts(composed["services"]["alertmanager"])
    config = where["/etc/alertmanager/alertmanager.yml"].read_text()
    assert "templates/*.tmpl" in config
    assert list(where["/etc/alertmanager/templates"].glob("*.tmpl"))
    # A folder of its own: the keys of W&B and Grafana are not Alertmanager's to read.
    assert where["/etc/alertmanager/secrets"] == ROOT / "deploy" / "secrets" / "alertmanager"
    others = {Path(secret["file"]).parent for secret in composed["secrets"].values()}
    assert others == {ROOT / "deploy" / "secrets"}
    assert "/etc/alertmanager/secrets/" in config


def test_grafana_finds_data_sources_dashboards_and_its_password(composed: dict[str, Any]) -> None:
    service = composed["services"]["grafana"]
    where = mounts(service)
    given = service["environment"]
    provisioning = where["/etc/grafana/provisioning"]
    wanted = set()
    for path in provisioning.glob("datasources/*.yaml"):
        for source in yaml.safe_load(path.read_text())["datasources"]:
            wanted.add(source["url"].strip("${}"))
    assert wanted
    assert wanted <= set(given)
    [provider] = yaml.safe_load((provisioning / "dashboards" / "runwatch.yaml").read_text())["providers"]
    dashboards = where[provider["options"]["path"]]
    home = given["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (dashboards / Path(home).name).is_file()
    assert given["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana-admin-password"
    assert not [name for name in given if "PASSWORD" in name and not name.endswith("__FILE")]


def test_the_example_config_is_sound_and_reads_the_secret_that_is_mounted(composed: dict[str, Any]) -> None:
    config, faults, warnings = check(ROOT / "deploy" / "runwatch.example.yaml")
    assert config is not None, faults
    assert [warning.message for warning in warnings] == ["no such file now: /run/secrets/wandb-api-key"]
    assert str(config.wandb.api_key_file) == "/run/secrets/wandb-api-key"
    secrets = composed["services"]["runwatch"]["secrets"]
    assert [secret["source"] for secret in secrets] == ["wandb-api-key"]
    assert config.state_file is not None
    assert any(str(config.state_file.parent) in str(volume) for volume in composed["services"]["runwatch"]["volumes"])
