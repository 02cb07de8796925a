"""Alertmanager's config: routes and receivers as text, inhibition made from the table of the alerts' sources.

The format: https://prometheus.io/docs/alerting/latest/configuration/ (0.25 and later: files for PagerDuty's key).
"""

from __future__ import annotations

import yaml

from runwatch.alerting.alert_sources import muted_by
from runwatch.facts import SourceKind

_HEAD = """\
# Made by `make docs` (python -m runwatch.alerting) from runwatch/alerting/: routes and receivers from alertmanager.py,
# the inhibition of a source's alerts from alert_sources.py.
#
# To be changed before use: the receivers' channels and addresses, and the base of all links (templates/base.tmpl).
# No secret stands here: put each into the file that its receiver names. README.md lists them.
global:
  resolve_timeout: 5m

templates:
  - templates/*.tmpl

# One notification for all that happens to one job (or, without a run, to the sources of one site).
route:
  receiver: platform-notify
  group_by: [site, run]
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 12h
  routes:
    # Dead man's switch: what is at the other end pages when it no longer hears this.
    - matchers: ['alertname="Watchdog"']
      receiver: dead-mans-switch
      group_by: [alertname]
      group_wait: 0s
      # Looked at every 30 s and due after 50 s: each minute. One due after a full minute would mostly miss its look.
      group_interval: 30s
      repeat_interval: 50s
    # Only shown, in Prometheus and Grafana.
    - matchers: ['severity!~"critical|warning"']
      receiver: shown-only
    # Everything that reaches a person also reaches the team's own programs.
    - matchers: ['severity=~"critical|warning"']
      receiver: webhook
      continue: true
    - matchers: ['severity="critical"']
      receiver: platform-page
      repeat_interval: 4h
      routes:
        - matchers: ['bucket=~"rl|sft"']
          receiver: training-page
        - matchers: ['bucket=~"datagen|eval"']
          receiver: trials-page
    - matchers: ['severity="warning"']
      receiver: platform-notify
      routes:
        # Where a tracker answers nobody while files of the same site can be read, each of its jobs says so by itself:
        # one notification for all of them.
        - matchers: ['alertname="RunwatchJobUnobserved"']
          group_by: [alertname, site, source]
          routes:
            - matchers: ['bucket=~"rl|sft"']
              receiver: training-notify
            - matchers: ['bucket=~"datagen|eval"']
              receiver: trials-notify
        - matchers: ['bucket=~"rl|sft"']
          receiver: training-notify
        - matchers: ['bucket=~"datagen|eval"']
          receiver: trials-notify

receivers:
  - name: shown-only
  - name: dead-mans-switch
    webhook_configs:
      - url: https://dead-mans-switch.example.org/ping
        send_resolved: false
        http_config:
          authorization: {credentials_file: /etc/alertmanager/secrets/dead-mans-switch-token}
  - name: webhook
    webhook_configs:
      - url: https://hooks.example.org/runwatch
        http_config:
          authorization: {credentials_file: /etc/alertmanager/secrets/webhook-token}
"""

_SLACK = """\
    slack_configs:
      - channel: '{channel}'
        api_url_file: /etc/alertmanager/secrets/slack-url
        send_resolved: true
        title: '{{{{ template "runwatch.slack_title" . }}}}'
        fallback: '{{{{ template "runwatch.slack_title" . }}}}'
        title_link: '{{{{ template "runwatch.link" . }}}}'
        text: '{{{{ template "runwatch.text" . }}}}'
        color: '{{{{ if eq .Status "firing" }}}}{color}{{{{ else }}}}good{{{{ end }}}}'
"""

_PAGERDUTY = """\
    pagerduty_configs:
      - routing_key_file: /etc/alertmanager/secrets/pagerduty-{team}-key
        description: '{{{{ template "runwatch.title" . }}}}'
        severity: critical
        details:
          what: '{{{{ template "runwatch.plain" . }}}}'
          firing: ''    # Alertmanager would write every label, annotation and expression here
          resolved: ''
        links:
          - href: '{{{{ template "runwatch.link" . }}}}'
            text: dashboard
          - href: '{{{{ template "runwatch.runbook" . }}}}'
            text: runbook
"""

_TEAMS = ("training", "trials", "platform")


def _receivers() -> str:
    parts = []
    for team in _TEAMS:
        channel = f"#runwatch-{team}"
        parts.append(f"  - name: {team}-page\n{_PAGERDUTY.format(team=team)}")
        parts.append(_SLACK.format(channel=channel, color="danger"))
        parts.append(f"  - name: {team}-notify\n{_SLACK.format(channel=channel, color='warning')}")
    return "".join(parts)


def _rule(sources: list[str], targets: list[str], *equal: str) -> dict[str, list[str]]:
    return {"source_matchers": sources, "target_matchers": targets, "equal": list(equal)}


def _of_job(source: str, targets: str) -> dict[str, list[str]]:
    return _rule([f'alertname=~"{source}"'], [f'alertname=~"{targets}"'], "run", "site")


def inhibit_rules() -> list[dict[str, list[str]]]:
    """Return the inhibition: what would only repeat, or cannot be told, while something else fires."""
    by_source = [
        _rule(['alertname="RunwatchSourceDown"', f'source="{source}"'], targets, "site")
        for source in SourceKind
        for targets in muted_by(source.value)
    ]
    return [
        *by_source,
        _of_job("MLJobVanished|MLJobFailed", "MLJobStalled|MLJobTrialsStalled|MLJobNotResumed"),
        _of_job("MLJobRLCollapse", "MLJobRLGradNormHigh"),
        _rule(['severity="critical"'], ['severity="warning"'], "alertname", "run", "site", "source"),
    ]


_INHIBITION = """\

# A source that is down mutes, at its site, the alerts that are made from its facts, and no others. A run that alone
# cannot be read mutes nothing. Then: an end mutes the stall before it, a collapse its single signals, a critical alert
# the warning of the same name.
inhibit_rules:
"""


def alertmanager_config() -> str:
    """Return the text of `alertmanager.yml`."""
    rules = yaml.safe_dump(inhibit_rules(), sort_keys=False, width=10_000, default_flow_style=False)
    return _HEAD + _receivers() + _INHIBITION + "".join(f"  {line}\n" for line in rules.splitlines())
