"""The committed rules and Alertmanager's config with shorter waits, changed by a program and in nothing else."""

from __future__ import annotations

from pathlib import Path

import yaml

ALERTS = Path(__file__).resolve().parents[2] / "alerts"
SECRETS = "/etc/alertmanager/secrets"
OTHERS_ADDRESSES = ("https://dead-mans-switch.example.org", "https://hooks.example.org")

EVALUATIONS = "1s"
FOR = "8s"
"""Longer than the 5 s after which Prometheus first knows its targets and its Alertmanagers: a shorter one would end
before anything was scraped, or before an alert could be sent."""
GROUP_WAIT = "4s"
"""Longer than what lies between the evaluations of two groups of rules, also on a busy machine."""
GROUP_INTERVAL = "1s"


def hastened_rules() -> str:
    """Return the rule file, with every `for`, `keep_firing_for` and `interval` short. Nothing else is touched."""
    loaded = yaml.safe_load((ALERTS / "rules" / "runwatch.yaml").read_text())
    for group in loaded["groups"]:
        group["interval"] = EVALUATIONS
        for rule in group["rules"]:
            rule |= {key: FOR for key in ("for", "keep_firing_for") if key in rule}
    return yaml.safe_dump(loaded, sort_keys=False, width=10_000)


def hastened_alertmanager(receiver_url: str, secrets: Path) -> str:
    """Return Alertmanager's config with short waits, and with every address of the outside world replaced.

    Grouping, routes, inhibition, `repeat_interval` and the texts stay.

    Args:
        receiver_url: Where all receivers post to: the webhooks at their own paths, PagerDuty at `/pagerduty`.
        secrets: Folder of the secrets' files, in the place of `/etc/alertmanager/secrets`.
    """
    text = (ALERTS / "alertmanager.yml").read_text().replace(SECRETS, str(secrets))
    for address in OTHERS_ADDRESSES:
        assert address in text
        text = text.replace(address, receiver_url)
    loaded = yaml.safe_load(text)
    loaded["global"]["pagerduty_url"] = f"{receiver_url}/pagerduty"
    loaded["templates"] = [str(ALERTS / "templates" / "*.tmpl")]
    loaded["route"] |= {"group_wait": GROUP_WAIT, "group_interval": GROUP_INTERVAL}
    return yaml.safe_dump(loaded, sort_keys=False, width=10_000)


def secrets_named(config: str, secrets: Path) -> set[str]:
    """Return the names of all files of secrets that the config reads."""
    return {word.removeprefix(f"{secrets}/") for word in config.split() if word.startswith(f"{secrets}/")}
