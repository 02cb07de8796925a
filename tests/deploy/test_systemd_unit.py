"""The unit of systemd: what it starts is there, and it may do no more than the exporter needs."""

from __future__ import annotations

import configparser
import re

from click.testing import CliRunner

from runwatch.cli import main
from tests.deploy.image_steps import ROOT


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(ROOT / "deploy" / "systemd" / "runwatch.service")
    return parsed


def test_it_starts_commands_that_there_are() -> None:
    service = unit()["Service"]
    for key in ("ExecStart", "ExecStartPre"):
        program, command, *_ = service[key].split()
        assert program == "/opt/runwatch/bin/runwatch"
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_it_comes_back_whatever_ended_it() -> None:
    """A reload just after a start ends the exporter by SIGHUP, before it has a handler: for systemd that is a success,
    after which `on-failure` would start nothing. `systemctl stop` alone leaves it ended."""
    assert unit()["Service"]["Restart"] == "always"
    assert "SuccessExitStatus" not in unit()["Service"]


def test_paths_in_the_unit_are_those_of_the_guide() -> None:
    guide = (ROOT / "docs" / "install.md").read_text()
    service = unit()["Service"]
    name, path = service["LoadCredential"].split(":")
    assert f"install -m 0600 wandb-api-key {path}" in guide
    assert f"api_key_file: /run/credentials/runwatch.service/{name}" in guide
    assert f"state_file: /var/lib/{service['StateDirectory']}/state.json" in guide
    for config in re.findall(r"/etc/runwatch/\S+\.yaml", service["ExecStart"]):
        assert f"install -m 0644 runwatch.yaml {config}" in guide


def test_it_has_no_rights_and_no_secret_in_its_arguments() -> None:
    service = unit()["Service"]
    assert service["DynamicUser"] == "yes"
    assert service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"
    assert service["LimitCORE"] == "0"
    text = " ".join(value for key, value in service.items() if key.startswith(("Exec", "Environment")))
    assert not re.search(r"(?i)api_key|token|password", text)
