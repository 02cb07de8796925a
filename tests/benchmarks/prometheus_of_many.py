"""A real Prometheus that scraped 5,000 live runs, evaluated the rules on them, and has 100,000 runs in its blocks."""

from __future__ import annotations

import functools
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.request import Request, urlopen

import yaml

from runwatch_dashboards.variables import BUCKETS
from tests.alerts.expressions import selectors
from tests.benchmarks.first_opening import Kind, asked_by
from tests.benchmarks.many_runs import (
    ENDED_RUNS,
    FINEST,
    LIVE_RUNS,
    ended_lines,
    live_exposition,
    live_name,
    past_lines,
    sampled,
)
from tests.e2e.prometheus_process import Prometheus, running
from tests.e2e.prometheus_tools import promtool
from tests.e2e.running_exporter import serving
from tests.e2e.running_server import eventually
from tests.grafana.dashboard_parts import FOLDER, Json
from tests.grafana.fleet import JOBS, write_fleet
from tests.http_serving import serving_http

RULES = Path(__file__).parents[2] / "alerts" / "rules" / "runwatch.yaml"
LOOKED_AT = live_name("lab", "math-rl", 7)
"""The run whose page is opened."""

HOUR = 3_600
BLOCK = 54 * HOUR
"""A step of Prometheus' own block lengths, and what its largest are with 30 days kept."""
SLICES = 11
"""So many blocks of ended runs, 25 days. Each run is in one of them, with one sample: what is searched is the index."""
PART = 6 * HOUR
"""The day before now is in so long blocks. Blocks that lie over one another Prometheus would join while it is asked."""
EVALUATIONS = 5
"""So often the rules are evaluated: a collection of garbage falls into some of them, and doubles what they take."""
SCRAPED_EVERY = 30
QUIET_SECONDS = 7.0
"""So long before the next scrape the scraping is ended at the latest: Prometheus notes within 5 s that a target, whose
interval is another now, is another target. Had the old one been scraped in between, its series would end later."""
BROKEN_OFF = 10
"""So often the end of the scraping may fall into a scrape."""
AT_ONCE = 2
SELDOM = "1d"


@dataclass(frozen=True, slots=True)
class PrometheusOfMany:
    """One that neither scrapes nor evaluates rules any more, and the moment (Unix seconds) of which it is asked.

    `rule_seconds` is what the quickest of its evaluations of all rules took, by the clock, but for the first, which
    finds no recorded series and no alerts of one before; `rules` is what each rule took then, the dearest first.
    """

    prometheus: Prometheus
    now: int
    rule_seconds: float
    rules: Sequence[tuple[float, str]]


@contextmanager
def prometheus_of_many(folder: Path) -> Iterator[PrometheusOfMany]:
    """Make all its data, run it, and wait until it has seen everything."""
    bodies = {site: live_exposition(site, text) for site, text in _expositions(folder).items()}
    blocks = folder / "blocks"
    _write_blocks(folder, blocks, bodies, int(time.time()))
    config = folder / "prometheus.json"
    with _served(bodies) as target:
        _configure(config, target, scrape=f"{SCRAPED_EVERY}s", evaluate=SELDOM)
        # With this longest block nothing is joined: it would be while queries are measured.
        keep = ("--storage.tsdb.retention.time=60d", "--storage.tsdb.max-block-duration=2h")
        fill = functools.partial(shutil.copytree, blocks)
        with running(config, folder, "--web.enable-lifecycle", *keep, fill=fill) as prometheus:
            group, now = _scraped_once_and_evaluated(prometheus, config, target)
            rules = sorted(((rule["evaluationTime"], rule["name"]) for rule in group["rules"]), reverse=True)
            yield PrometheusOfMany(prometheus, now, group["evaluationTime"], rules)


def _scraped_once_and_evaluated(prometheus: Prometheus, config: Path, target: str) -> tuple[Json, int]:
    """Wait until all was scraped, end the scraping, have the rules evaluated, and end that too.

    The new config breaks off a scrape that is under way, and Prometheus takes it for a failed one: all its series end,
    at once or some time after the answer. Then all of it is done again.

    Returns:
        The group of rules after its quickest evaluation, and the moment of which all can be asked (Unix seconds).
    """

    def all_there(metric: str) -> bool:
        return prometheus.query(f"count({metric} == 1) == {LIVE_RUNS}") != []

    for _ in range(BROKEN_OFF):
        eventually(functools.partial(all_there, "mljob_state"), "all was scraped", 150)
        eventually(functools.partial(_is_quiet, prometheus), "no scrape is near", 120)
        _configure(config, target, scrape=SELDOM, evaluate="8s")
        _reload(prometheus)
        seen: dict[str, Json] = {}
        if all_there("mljob_state"):
            eventually(functools.partial(_evaluated_often, prometheus, seen), "the rules were evaluated", 240)
        complete = all_there("mljob_state") and all_there("mljob:state")
        now = int(time.time())
        _configure(config, target, scrape=SELDOM if complete else f"{SCRAPED_EVERY}s", evaluate=SELDOM)
        _reload(prometheus)
        if complete:
            return min([*seen.values()][1:], key=lambda each: float(each["evaluationTime"])), now
    raise AssertionError(f"a scrape was broken off {BROKEN_OFF} times")


def _is_quiet(prometheus: Prometheus) -> bool:
    """Tell whether no target is being scraped or will be soon; of two there is always such a time in each interval."""
    begun = [at for _, at in prometheus.query("timestamp(up)")]
    return len(begun) == len(JOBS) and bool(min(begun) + SCRAPED_EVERY - time.time() > QUIET_SECONDS)


def _expositions(folder: Path) -> dict[str, str]:
    """Return what real exporters serve, by site."""
    fleet = write_fleet(folder, time.time())
    with ExitStack() as stack:
        exporters = {site: stack.enter_context(serving(config)) for site, config in fleet.configs.items()}
        for site, exporter in exporters.items():
            eventually(
                lambda exporter=exporter, site=site: exporter.metrics().count("\nmljob_info{") == JOBS[site],  # type: ignore[misc]
                f"the jobs of {site} are watched",
                60,
            )
        return {site: exporter.metrics() for site, exporter in exporters.items()}


def _graphs() -> dict[tuple[str, str], int]:
    """Return how far apart the points are of what graphs draw of many runs, by metric and bucket; empty is all."""
    found: dict[tuple[str, str], int] = {}
    for path in FOLDER.glob("*.json"):
        bucket = path.stem if path.stem in BUCKETS else ""
        for asked in asked_by(json.loads(path.read_text()), {"run": LOOKED_AT, "site": ".*"}):
            if asked.kind is Kind.RANGE and LOOKED_AT not in asked.text:
                for selector in selectors(asked.text):
                    key = selector.name, bucket
                    found[key] = min(max(asked.step, FINEST), found.get(key, HOUR))
    return found


def _write_blocks(folder: Path, blocks: Path, bodies: Mapping[str, str], now: int) -> None:
    """Write the blocks: a day of what graphs draw until ten minutes ago, and before it the runs that are over."""
    until = now // FINEST * FINEST
    graphs = _graphs()
    drawn = [each for site, body in bodies.items() for each in past_lines(site, body, graphs, LOOKED_AT)]
    first = (until - 24 * HOUR) // BLOCK - SLICES

    def day(part: int) -> None:
        began = until - (part + 1) * PART
        _write_block(folder / f"day-{part}.om", blocks, sampled(drawn, range(began, began + PART, FINEST)))

    def ended(number: int) -> None:
        lines = ended_lines(number * ENDED_RUNS // SLICES, (number + 1) * ENDED_RUNS // SLICES)
        began = (first + number) * BLOCK + 6 * HOUR
        _write_block(folder / f"ended-{number}.om", blocks, sampled(lines, range(began, began + 1)))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = [pool.submit(day, part) for part in range(24 * HOUR // PART)]
        made += [pool.submit(ended, number) for number in range(SLICES)]
        for each in made:
            each.result()


def _write_block(text: Path, blocks: Path, parts: Iterator[bytes]) -> None:
    with text.open("wb") as file:
        file.writelines(parts)
    # Without a length there is a block, and a pass over the text, for every two hours.
    command = ("tsdb", "create-blocks-from", "--max-block-duration=54h", "openmetrics", "--quiet")
    made = promtool(*command, str(text), str(blocks))
    assert made.returncode == 0, made.stderr
    text.unlink()


@contextmanager
def _served(bodies: Mapping[str, str]) -> Iterator[str]:
    """Serve what each site's exporter would at a path of its name, and give the scrape target."""
    encoded = {f"/{site}": body.encode() for site, body in bodies.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = encoded[self.path]
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with serving_http(Handler) as url:
        yield url.removeprefix("http://")


def _configure(config: Path, target: str, *, scrape: str, evaluate: str) -> None:
    """Write the config: a target for each site, and the rules, none of which waits before it fires."""
    content = yaml.safe_load(RULES.read_text())
    for group in content["groups"]:
        group.pop("interval", None)
        for rule in group["rules"]:
            rule.pop("for", None)
            rule.pop("keep_firing_for", None)
    rules = config.with_name("rules.yml")
    rules.write_text(yaml.safe_dump(content))
    scrapes = [
        {
            "job_name": f"runwatch-{site}",
            "metrics_path": f"/{site}",
            "static_configs": [
                {
                    "targets": [target],
                    "labels": {"job": "runwatch", "instance": site, "shard": site},
                }
            ],
        }
        for site in JOBS
    ]
    times = {"scrape_interval": scrape, "scrape_timeout": "8s", "evaluation_interval": evaluate}
    text = json.dumps({"global": times, "rule_files": [str(rules)], "scrape_configs": scrapes})
    config.write_text(text)


def _reload(prometheus: Prometheus) -> None:
    with urlopen(Request(f"{prometheus.url}/-/reload", method="POST"), timeout=120) as answer:
        answer.read()


def _evaluated_often(prometheus: Prometheus, seen: dict[str, Json]) -> bool:
    """Note the group of rules under the time of its last evaluation; tell whether enough were seen."""
    answer = prometheus.api("rules")
    assert isinstance(answer, dict)
    [group] = answer["groups"]
    if group["evaluationTime"] > 0:
        seen[group["lastEvaluation"]] = group
    return len(seen) >= EVALUATIONS
