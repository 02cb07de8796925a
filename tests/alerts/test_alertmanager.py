"""Alertmanager's config: where each alert goes, and which alerts mute which."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts.contract import ALERTS, NAMES, TABLE
from tests.alerts.programs import amtool

CONFIG = ALERTS / "alertmanager.yml"
TEAMS = {"rl": "training", "sft": "training", "datagen": "trials", "eval": "trials", "other": "platform"}
ENDS = {"MLJobFailed", "MLJobTimedOut", "MLJobTracesStranded"}

MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"(.*)"')


def test_amtool_finds_no_fault() -> None:
    done = amtool("check-config", str(CONFIG))
    assert done.returncode == 0, done.stdout + done.stderr


def routed(labels: Mapping[str, str]) -> list[str]:
    """Return the receivers that amtool says an alert goes to."""
    pairs = [f"{name}={value}" for name, value in labels.items()]
    done = amtool("config", "routes", "test", f"--config.file={CONFIG}", *pairs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().split(",")


def test_every_alert_reaches_the_team_of_its_bucket_or_the_platform() -> None:
    for row, bucket in zip(TABLE, itertools.cycle(TEAMS), strict=False):
        labels = {"alertname": row.name, "severity": row.severity, **dict.fromkeys(row.labels, "x")}
        if row.severity == "none":
            assert routed(labels) == ["dead-mans-switch"]
            continue
        of_job = "bucket" in row.labels
        team, how = TEAMS[bucket] if of_job else "platform", "page" if row.severity == "critical" else "notify"
        assert routed(labels | ({"bucket": bucket} if of_job else {})) == ["webhook", f"{team}-{how}"], row


def test_the_dead_mans_switch_is_fed_each_minute() -> None:
    config = yaml.safe_load(CONFIG.read_text())
    route = next(r for r in config["route"]["routes"] if r["receiver"] == "dead-mans-switch")
    looks, due = (int(route[key].removesuffix("s")) for key in ("group_interval", "repeat_interval"))
    # It is sent at the first look after it is due. Due at the very second of a look it would miss it by a hair, as
    # Alertmanager 0.25 did at 1m and 1m: most beats came after two minutes.
    assert -(-due // looks) * looks == 60
    assert 5 <= due % looks <= looks - 5


@pytest.mark.parametrize(("severity", "how"), [("critical", "page"), ("warning", "notify")])
def test_each_bucket_has_its_team(severity: str, how: str) -> None:
    for bucket, team in TEAMS.items():
        labels = {"alertname": "MLJobNotResumed", "severity": severity, "run": "r", "site": "s", "bucket": bucket}
        assert routed(labels) == ["webhook", f"{team}-{how}"]


def test_info_is_only_shown() -> None:
    assert routed({"alertname": "Any", "severity": "info", "run": "r", "site": "s", "bucket": "rl"}) == ["shown-only"]


def config() -> dict[str, object]:
    loaded: dict[str, object] = yaml.safe_load(CONFIG.read_text())
    return loaded


def test_jobs_are_grouped_by_run_and_site() -> None:
    assert config()["route"]["group_by"] == ["site", "run"]  # type: ignore[index]


def grouped_by(labels: Mapping[str, str]) -> list[str]:
    """Return the labels that group an alert on its way to a person: those of the last route that names any."""
    route: dict[str, Any] = config()["route"]  # type: ignore[assignment]
    found: list[str] = route["group_by"]
    while True:
        below = (each for each in route.get("routes", ()) if not each.get("continue"))
        route = next((each for each in below if _matches(each["matchers"], labels)), {})
        if not route:
            return found
        found = route.get("group_by", found)


@pytest.mark.parametrize("bucket", ["rl", "sft", "datagen", "eval", "other"])
def test_many_jobs_that_one_source_does_not_answer_for_are_one_notification(bucket: str) -> None:
    assert grouped_by(of_job("RunwatchJobUnobserved", "warning", bucket=bucket)) == ["alertname", "site", "source"]
    assert grouped_by(of_job("MLJobSilentStall", "warning", bucket=bucket)) == ["site", "run"]
    assert grouped_by(of_job("MLJobStalled", bucket=bucket)) == ["site", "run"]


def test_secrets_are_files() -> None:
    text = CONFIG.read_text()
    assert re.findall(r"^\s*(?:- )?(?:\w*(?:key|token|password|secret|api_url|credentials)):", text, re.MULTILINE) == []
    assert len(re.findall(r"(?:routing_key|api_url|credentials)_file: /etc/alertmanager/secrets/", text)) == 11


def _matches(matchers: list[str], labels: Mapping[str, str]) -> bool:
    for text in matchers:
        name, operator, value = MATCHER.fullmatch(text).groups()  # type: ignore[union-attr]
        is_like = re.fullmatch(value, labels.get(name, "")) if "~" in operator else labels.get(name, "") == value
        if bool(is_like) == operator.startswith("!"):
            return False
    return True


def muted(target: Mapping[str, str], source: Mapping[str, str]) -> bool:
    """Tell whether an alert that fires mutes another one: Alertmanager's rule, where an absent label is empty."""
    rules: list[dict[str, list[str]]] = config()["inhibit_rules"]  # type: ignore[assignment]
    return any(
        _matches(rule["source_matchers"], source)
        and _matches(rule["target_matchers"], target)
        and all(source.get(label, "") == target.get(label, "") for label in rule["equal"])
        for rule in rules
    )


def of_job(
    name: str, severity: str = "critical", run: str = "r", site: str = "s", bucket: str = "sft"
) -> dict[str, str]:
    return {"alertname": name, "severity": severity, "run": run, "site": site, "bucket": bucket}


def source_down(source: str, site: str = "s") -> dict[str, str]:
    return {"alertname": "RunwatchSourceDown", "severity": "warning", "source": source, "site": site}


HISTORY = {
    "MLJobStalled", "MLJobBringupStuck", "MLJobNotResumed", "MLJobSilentStall", "MLJobThroughputDegraded",
    "MLJobNonFinite", "MLJobGradExplosion", "MLJobRLCollapse", "MLJobRLGradNormHigh", "MLJobRLClipRatioHigh",
    "MLJobRLImportanceRatioOff", "MLJobLossDiverging", "MLJobZombie", "MLJobStateConflict", "MLJobCheckpointStale",
}  # fmt: skip
SCHEDULER = {
    "MLJobStalled", "MLJobBringupStuck", "MLJobNotResumed", "MLJobSilentStall", "MLJobRestartsWithoutProgress",
    "MLJobTrialsStalled", "MLJobZombie", "MLJobTaskFailures", "MLJobVanished", "MLJobTasksMissing",
    "MLJobStateConflict", "MLJobEngineIdle",
}  # fmt: skip
CHECKPOINTS = {
    "MLJobNoCheckpoint", "MLJobCheckpointStale", "MLJobRestartsWithoutProgress", "MLJobStateConflict",
}  # fmt: skip
TRIALS = {"MLJobDeadEngine", "MLJobTrialsStalled", "MLJobInstantFailures", "MLJobEngineIdle"}
LOG = {"MLJobEngineIdle", "MLJobAuthFailures"}


@pytest.mark.parametrize(
    ("source", "bucket", "expected"),
    [
        ("history", "rl", HISTORY),
        ("history", "eval", HISTORY - {"MLJobNotResumed", "MLJobZombie"}),
        ("scheduler", "sft", SCHEDULER),
        ("checkpoints", "sft", CHECKPOINTS),
        ("trials", "rl", TRIALS),
        ("trials", "datagen", TRIALS | {"MLJobNotResumed", "MLJobZombie"}),
        ("log", "eval", LOG),
    ],
)
def test_source_that_is_down_mutes_the_alerts_made_from_it_at_its_site_and_no_others(
    source: str, bucket: str, expected: set[str]
) -> None:
    targets = [name for name in NAMES if name != "RunwatchSourceDown"]
    found = {name for name in targets if muted(of_job(name, bucket=bucket), source_down(source))}
    assert found == expected
    assert not any(muted(of_job(name, bucket=bucket), source_down(source, site="elsewhere")) for name in targets)


@pytest.mark.parametrize("source", ["scheduler", "history", "checkpoints", "trials", "log"])
def test_end_that_was_seen_is_never_muted_by_a_source(source: str) -> None:
    assert not any(muted(of_job(name, bucket="datagen"), source_down(source)) for name in ENDS)


def test_run_that_cannot_be_read_mutes_nothing() -> None:
    unread = of_job("RunwatchJobUnobserved", "warning") | {"source": "history"}
    assert not any(muted(of_job(name, severity), unread) for name in NAMES for severity in ("critical", "warning"))


def test_end_mutes_the_stall_of_the_same_run_and_site_alone() -> None:
    for end in ("MLJobVanished", "MLJobFailed"):
        assert muted(of_job("MLJobStalled"), of_job(end))
        assert not muted(of_job("MLJobStalled", run="other"), of_job(end))
        assert not muted(of_job("MLJobStalled", site="other"), of_job(end))
        assert not muted(of_job(end), of_job("MLJobStalled"))


def test_collapse_mutes_its_single_signals() -> None:
    collapse = of_job("MLJobRLCollapse", bucket="rl") | {"action": "cancel"}
    assert {name for name in NAMES if muted(of_job(name, "warning", bucket="rl"), collapse)} == {
        "MLJobRLGradNormHigh",
        "MLJobRLCollapse",
    }
    assert not muted(of_job("MLJobRLGradNormHigh", "warning", run="other", bucket="rl"), collapse)


def test_critical_mutes_the_warning_of_the_same_name_run_site_and_source() -> None:
    assert muted(of_job("MLJobNotResumed", "warning"), of_job("MLJobNotResumed"))
    assert not muted(of_job("MLJobNotResumed", "warning", run="other"), of_job("MLJobNotResumed"))
    assert not muted(of_job("MLJobZombie", "warning"), of_job("MLJobNotResumed"))
    assert muted(source_down("log"), source_down("log") | {"severity": "critical"})
    assert not muted(source_down("log"), source_down("history") | {"severity": "critical"})


PAGE = {
    "receiver": "training-page",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {
                "alertname": "MLJobRLCollapse",
                "severity": "critical",
                "action": "cancel",
                "run": "r1",
                "site": "s",
            },
            "annotations": {
                "summary": "r1 (s) collapses",
                "description": "Signals now: entropy grad_norm. Step 120 of 500",
                "runbook_url": "/alerts/runbooks/MLJobRLCollapse.md",
                "dashboard_url": "/d/runwatch-job?var-run=r1",
            },
            "startsAt": "2026-01-02T03:04:05Z",
            "endsAt": "0001-01-01T00:00:00Z",
        }
    ],
    "groupLabels": {"run": "r1", "site": "s"},
    "commonLabels": {"run": "r1", "site": "s"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager",
}


def rendered(template: str, data: Mapping[str, object], folder: Path) -> str:
    """Return what a template gives, as amtool renders it."""
    path = folder / "data.json"
    path.write_text(json.dumps(data))
    done = amtool(
        "template", "render", f"--template.glob={ALERTS}/templates/*.tmpl",
        f'--template.text={{{{ template "{template}" . }}}}', f"--template.data={path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_page_says_run_step_figures_and_links(tmp_path: Path) -> None:
    assert rendered("runwatch.title", PAGE, tmp_path) == "r1 (s): MLJobRLCollapse (cancel)"
    assert rendered("runwatch.text", PAGE, tmp_path).splitlines() == [
        "*[critical]* r1 (s) collapses",
        "Signals now: entropy grad_norm. Step 120 of 500",
        "Since 2026-01-02 03:04 UTC · <https://grafana.example.org/d/runwatch-job?var-run=r1|dashboard> · "
        "<https://grafana.example.org/alerts/runbooks/MLJobRLCollapse.md|runbook>",
    ]
    assert rendered("runwatch.runbook", PAGE, tmp_path).endswith("/alerts/runbooks/MLJobRLCollapse.md")


def test_page_says_that_it_is_resolved(tmp_path: Path) -> None:
    [alert] = PAGE["alerts"]  # type: ignore[misc]
    over = {**alert, "status": "resolved", "endsAt": "2026-01-02T04:00:00Z"}  # type: ignore[dict-item]
    data = {**PAGE, "status": "resolved", "alerts": [over]}
    assert rendered("runwatch.title", data, tmp_path) == "resolved: r1 (s): MLJobRLCollapse"
    assert "From 2026-01-02 03:04 UTC to 2026-01-02 04:00 UTC" in rendered("runwatch.plain", data, tmp_path)


def test_a_page_of_many_jobs_tells_how_many(tmp_path: Path) -> None:
    [alert] = PAGE["alerts"]  # type: ignore[misc]
    common = {"alertname": "RunwatchJobUnobserved", "site": "s", "source": "history"}
    data = {**PAGE, "alerts": [alert] * 100, "commonLabels": common, "groupLabels": common}
    assert rendered("runwatch.title", data, tmp_path) == "site s: RunwatchJobUnobserved × 100"
    assert rendered("runwatch.slack_title", data, tmp_path) == "site s: RunwatchJobUnobserved × 100"
    over = [{**alert, "status": "resolved"}] * 3  # type: ignore[dict-item]
    data = {**data, "status": "resolved", "alerts": over}
    assert rendered("runwatch.title", data, tmp_path) == "resolved: site s: RunwatchJobUnobserved × 3"
