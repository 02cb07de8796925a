"""From a job's files to a person's pager: the exporter, a real Prometheus, a real Alertmanager, and who they call.

The rules, Alertmanager's config and its templates are those that the repository holds. Two programs shorten the waits
(`hastened`): in the rules `for`, `keep_firing_for` and `interval`, in Alertmanager's config `group_wait` and
`group_interval`; expressions, texts, routes and inhibition stay as they are. What the expressions ask for lies in the
past already: the last step is 40 minutes old, and Prometheus finds in its data, as after a restart, that for 70 minutes
it could scrape the exporter and the exporter could not read one scheduler.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.alertmanager_process import Alertmanager, alerting, alertmanager_program
from tests.e2e.hastened import hastened_alertmanager, hastened_rules, secrets_named
from tests.e2e.page_receiver import PageReceiver, Post, receiving
from tests.e2e.paging_fleet import (
    COLLAPSING,
    HEALTHY,
    HEALTHY_RL,
    HEALTHY_SFT,
    SOUTH_COLLAPSING,
    SOUTH_STALLED,
    STALLED,
    PagingFleet,
    closed_port,
    write_paging_fleet,
)
from tests.e2e.prometheus_process import Prometheus, prometheus_program, scraping
from tests.e2e.running_exporter import serving
from tests.e2e.running_server import eventually, written_so_far

WEBHOOK, SWITCH, SLACK, PAGERDUTY = "/runwatch", "/ping", "/slack", "/pagerduty"
BASE = "https://grafana.example.org"
COLLAPSING_ADDRESS = f"{BASE}/d/runwatch-job?var-site=north&var-run=rl+%3C%21channel%3E+%26+%22p%7Cq%22"
COLLAPSING_ESCAPED = 'rl &lt;!channel&gt; &amp; "p|q"'

FIRING = {
    ("MLJobRLCollapse", "critical", COLLAPSING),
    ("MLJobRLGradNormHigh", "warning", COLLAPSING),
    ("MLJobRLClipRatioHigh", "warning", COLLAPSING),
    ("MLJobStalled", "critical", STALLED),
    ("MLJobRLCollapse", "critical", SOUTH_COLLAPSING),
    ("MLJobRLGradNormHigh", "warning", SOUTH_COLLAPSING),
    ("MLJobRLClipRatioHigh", "warning", SOUTH_COLLAPSING),
    ("MLJobStalled", "critical", SOUTH_STALLED),
    ("RunwatchSourceDown", "critical", ""),
    ("RunwatchSourceDown", "warning", ""),
    ("Watchdog", "none", ""),
}
MUTED = {
    ("MLJobRLGradNormHigh", "warning", COLLAPSING),  # under the collapse
    ("MLJobRLGradNormHigh", "warning", SOUTH_COLLAPSING),
    ("MLJobStalled", "critical", SOUTH_STALLED),  # under the source that is down at its site
    ("RunwatchSourceDown", "warning", ""),  # under the critical one
}


@dataclass(frozen=True)
class Chain:
    """All that runs, and what had arrived when everything fired and again some seconds later."""

    fleet: PagingFleet
    prometheus: Prometheus
    alertmanager: Alertmanager
    receiver: PageReceiver
    arrived: tuple[Post, ...]

    def firing_posts(self, path: str) -> list[dict[str, Any]]:
        return [post.body for post in self.arrived if post.path == path]


def scheduler_down(now: float, seconds: int, exporter_port: int) -> str:
    """Return what was recorded up to `now` of an exporter that cannot read a scheduler, as OpenMetrics."""
    ages = range(seconds, 0, -15)
    recorded = 'runwatch:source_up{source="scheduler",site="south"} 0'
    scraped = f'up{{job="runwatch",instance="127.0.0.1:{exporter_port}"}} 1'
    lines = ["# TYPE runwatch:source_up gauge", *(f"{recorded} {now - age:.3f}" for age in ages)]
    lines += ["# TYPE up gauge", *(f"{scraped} {now - age:.3f}" for age in ages)]
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    prometheus_program(), alertmanager_program()
    folder = tmp_path_factory.mktemp("paging")
    secrets, rules, config, past = (folder / name for name in ("secrets", "rules.yaml", "alertmanager.yml", "past"))
    with closed_port() as controller, receiving() as receiver:
        fleet = write_paging_fleet(folder, time.time(), controller)
        rules.write_text(hastened_rules())
        config.write_text(hastened_alertmanager(receiver.url, secrets))
        write_secrets(config.read_text(), secrets, receiver.url)
        with serving(fleet.config) as exporter, alerting(config, folder) as alertmanager:
            past.write_text(scheduler_down(time.time(), 70 * 60, exporter.port))
            with scraping(
                exporter.port, folder, {}, rules=rules, alertmanager_url=alertmanager.url, past=past
            ) as prometheus:
                eventually(lambda: prometheus.firing() == FIRING, "all alerts fire", 90)
                eventually(lambda: len(receiver.to(SLACK)) >= 6, "all pages arrive", 60)
                # Prometheus sends its alerts anew each second, and a group looks each second whether to tell.
                time.sleep(4)
                assert prometheus.firing() == FIRING
                yield Chain(fleet, prometheus, alertmanager, receiver, tuple(receiver.posts))


def write_secrets(config: str, folder: Path, receiver_url: str) -> None:
    folder.mkdir()
    for name in secrets_named(config, folder):
        (folder / name).write_text(f"{receiver_url}{SLACK}" if name == "slack-url" else f"secret of {name}")


def of_group(body: dict[str, Any]) -> tuple[str, str]:
    labels = body["groupLabels"]
    return labels["site"], labels.get("run", "")


def names(body: dict[str, Any], status: str) -> set[str]:
    return {alert["labels"]["alertname"] for alert in body["alerts"] if alert["status"] == status}


def test_each_run_and_site_is_told_once_and_all_of_it_together(chain: Chain) -> None:
    told = [(of_group(body), body["status"], names(body, "firing")) for body in chain.firing_posts(WEBHOOK)]
    assert sorted(told, key=str) == sorted(
        [
            (("north", COLLAPSING), "firing", {"MLJobRLCollapse", "MLJobRLClipRatioHigh"}),
            (("north", STALLED), "firing", {"MLJobStalled"}),
            (("south", SOUTH_COLLAPSING), "firing", {"MLJobRLCollapse", "MLJobRLClipRatioHigh"}),
            (("south", ""), "firing", {"RunwatchSourceDown"}),
        ],
        key=str,
    )
    [source_down] = [body for body in chain.firing_posts(WEBHOOK) if of_group(body) == ("south", "")]
    assert [alert["labels"]["severity"] for alert in source_down["alerts"]] == ["critical"]


def test_what_did_not_arrive_fires_and_is_muted(chain: Chain) -> None:
    assert chain.alertmanager.inhibited() == MUTED
    everything = repr([post.body for post in chain.arrived])
    assert SOUTH_STALLED not in everything
    assert "MLJobRLGradNormHigh" not in everything
    assert HEALTHY not in everything


def test_pager_rings_once_for_each_run_with_its_team(chain: Chain) -> None:
    rung = [
        (body["routing_key"], body["event_action"], body["payload"]["summary"])
        for body in chain.firing_posts(PAGERDUTY)
    ]
    assert Counter(rung) == Counter(
        [
            ("secret of pagerduty-training-key", "trigger", f"{COLLAPSING} (north): MLJobRLCollapse (cancel)"),
            ("secret of pagerduty-training-key", "trigger", f"{STALLED} (north): MLJobStalled"),
            ("secret of pagerduty-training-key", "trigger", f"{SOUTH_COLLAPSING} (south): MLJobRLCollapse (cancel)"),
            ("secret of pagerduty-platform-key", "trigger", "site south: RunwatchSourceDown"),
        ]
    )


def test_page_of_a_collapse_says_step_signals_limit_and_where_to_look(chain: Chain) -> None:
    [body] = [body for body in chain.firing_posts(PAGERDUTY) if COLLAPSING in body["payload"]["summary"]]
    head, told, since = body["payload"]["custom_details"]["what"].splitlines()
    assert head == f"[critical] {COLLAPSING} (north) collapses: cancel it, and salvage"
    assert "Signals now: entropy grad_norm (limit 2 on one step, now or within the last 5 steps)." in told
    assert told.endswith("Step 60 of 1000")
    assert since.startswith("Since 2") and since.endswith(" UTC")
    assert body["links"] == [
        {"href": COLLAPSING_ADDRESS, "text": "dashboard"},
        {"href": f"{BASE}/alerts/runbooks/MLJobRLCollapse.md", "text": "runbook"},
    ]
    # Alertmanager's own list of labels and expressions would bury it.
    assert (body["payload"]["custom_details"]["firing"], body["payload"]["severity"]) == ("", "critical")


def test_page_of_a_stall_says_how_long_against_its_limit(chain: Chain) -> None:
    [body] = [body for body in chain.firing_posts(PAGERDUTY) if STALLED in body["payload"]["summary"]]
    head, told, _ = body["payload"]["custom_details"]["what"].splitlines()
    assert head.startswith(f"[critical] {STALLED} (north) has made no step for 40m ")
    # 15 min and a quarter of the gap threshold, which is 300 s where 20 intervals of 8 s are less.
    assert "no step for 40m " in told and told.endswith(" (limit 16m 15s). Step 200 of 1000")
    assert [link["href"] for link in body["links"]] == [
        f"{BASE}/d/runwatch-job?var-site=north&var-run={STALLED}",
        f"{BASE}/alerts/runbooks/MLJobStalled.md",
    ]


def test_slack_is_readable_and_calls_nobody_by_a_runs_name(chain: Chain) -> None:
    attachments = [body["attachments"][0] for body in chain.firing_posts(SLACK)]
    assert sorted(attachment["title"] for attachment in attachments) == sorted(
        [
            f"{COLLAPSING_ESCAPED} (north): MLJobRLCollapse (cancel)",
            f"{COLLAPSING_ESCAPED} (north): MLJobRLClipRatioHigh",
            f"{STALLED} (north): MLJobStalled",
            f"{SOUTH_COLLAPSING} (south): MLJobRLCollapse (cancel)",
            f"{SOUTH_COLLAPSING} (south): MLJobRLClipRatioHigh",
            "site south: RunwatchSourceDown",
        ]
    )
    assert "<!channel>" not in repr(attachments)
    [page] = [a for a in attachments if a["title"] == f"{COLLAPSING_ESCAPED} (north): MLJobRLCollapse (cancel)"]
    head, told, links = page["text"].splitlines()
    assert head == f"*[critical]* {COLLAPSING_ESCAPED} (north) collapses: cancel it, and salvage"
    assert told.endswith("Step 60 of 1000")
    assert links.endswith(f" · <{COLLAPSING_ADDRESS}|dashboard> · <{BASE}/alerts/runbooks/MLJobRLCollapse.md|runbook>")
    assert (page["title_link"], page["fallback"], page["color"]) == (COLLAPSING_ADDRESS, page["title"], "danger")
    assert Counter(body["channel"] for body in chain.firing_posts(SLACK)) == {
        "#runwatch-training": 5,
        "#runwatch-platform": 1,
    }


def test_dead_mans_switch_hears_the_watchdog_and_nothing_else(chain: Chain) -> None:
    [body] = chain.firing_posts(SWITCH)
    assert (body["status"], names(body, "firing")) == ("firing", {"Watchdog"})


def test_exporters_log_says_once_why_a_source_is_down(chain: Chain) -> None:
    said = written_so_far(chain.fleet.config.with_suffix(".log"))
    assert said.count("scheduler at south cannot be read: network: ") == 1


def test_receivers_get_their_secrets_and_no_log_does(chain: Chain) -> None:
    assert {post.authorization for post in chain.arrived if post.path == WEBHOOK} == {"Bearer secret of webhook-token"}
    [switch] = [post for post in chain.arrived if post.path == SWITCH]
    assert switch.authorization == "Bearer secret of dead-mans-switch-token"
    said = written_so_far(chain.alertmanager.log)
    assert "secret of" not in said
    assert "level=error" not in said and "level=warn" not in said


def test_what_goes_on_is_resolved(chain: Chain) -> None:
    """The last test of this file: what it does to the fleet stays."""
    before = len(chain.receiver.posts)
    now = time.time()
    chain.fleet.append(COLLAPSING, 61, [HEALTHY_RL] * 20, now)
    chain.fleet.append(STALLED, 201, [HEALTHY_SFT] * 20, now)

    def resolved() -> set[str]:
        later = chain.receiver.posts[before:]
        return {
            post.body["payload"]["summary"]
            for post in later
            if post.path == PAGERDUTY and post.body["event_action"] == "resolve"
        }

    expected = {f"resolved: {COLLAPSING} (north): MLJobRLCollapse", f"resolved: {STALLED} (north): MLJobStalled"}
    eventually(lambda: resolved() >= expected, "both are resolved", 90)
    eventually(lambda: len(last_words(chain.receiver, {COLLAPSING, STALLED})) == 2, "the webhook hears it too")
    assert resolved() == expected  # the other site's go on
    assert {run for _, _, run in chain.prometheus.firing()} == {SOUTH_COLLAPSING, SOUTH_STALLED, ""}
    triggered = [post for post in chain.receiver.posts[before:] if post.body.get("event_action") == "trigger"]
    assert triggered == []


def last_words(receiver: PageReceiver, runs: set[str]) -> dict[str, Post]:
    """Return, of each run whose last notification says that all is over, that notification."""
    last = {of_group(post.body)[1]: post for post in receiver.to(WEBHOOK)}
    return {run: post for run, post in last.items() if run in runs and post.body["status"] == "resolved"}
