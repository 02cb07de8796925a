"""5,000 live runs and 100,000 that are over, as text that Prometheus reads.

Every live run is a copy, under a name of its own, of a job that a real exporter watches (`tests.grafana.fleet`): it has
all series that such a job has. Of a run that is over there are info, state and step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from runwatch.catalogue import INFO_LABELS, JOB_STATES

LIVE_RUNS = 5_000
ENDED_RUNS = 100_000

PER_HUNDRED: Mapping[str, Mapping[str, int]] = {
    "lab": {"math-rl": 14, "delphi": 12, "lr-a": 14, "done-sft": 4, "queued-sft": 4, "lr-b": 1, "lr-c": 1, "publish": 5,
            "gpu-ci": 2},
    "desk": {"collapsed-rl": 4, "bringup-rl": 2, "delphi": 10, "unread": 1, "datagen-qwen": 13, "tb2-qwen": 13},
}  # fmt: skip
"""How many of a hundred live runs are copies of which job of a site."""

FINEST = 600
"""The least distance of samples: each point of a graph over a day finds one, for Grafana puts them at full minutes."""

_SERIES = re.compile(r'^(mljob_\w+)\{run="([^"]*)",bucket="([^"]*)"')
_BUCKETS_OF_ENDED = ("rl", "sft", "datagen", "eval", "other")


def live_name(site: str, run: str, number: int) -> str:
    """Return the name of a copy of a job."""
    return f"{run}-{site}-{number:05}"


def live_exposition(site: str, exposition: str) -> str:
    """Return what one exporter would serve that watches all live runs of a site.

    Args:
        site: A key of `PER_HUNDRED`.
        exposition: What the exporter serves that watches the jobs of the fleet at that site.

    Raises:
        KeyError: the exporter watches a job that `PER_HUNDRED` does not tell.
    """
    names = {
        run: [live_name(site, run, number) for number in range(LIVE_RUNS * share // 100)]
        for run, share in PER_HUNDRED[site].items()
    }
    lines: list[str] = []
    for line in exposition.splitlines():
        found = _SERIES.match(line)
        if found is None:
            lines.append(line)
            continue
        before, after = line[: found.start(2)], line[found.end(2) :]
        lines += [f"{before}{name}{after}" for name in names[found[2]]]
    return "".join(f"{line}\n" for line in lines)


Sampled = tuple[int, str]
"""The distance of a series' samples in seconds; the series and its value."""


def past_lines(site: str, exposition: str, graphs: Mapping[tuple[str, str], int], looked_at: str) -> Iterator[Sampled]:
    """Yield the series that graphs over time draw, as they are scraped from a site's exporter, with their values.

    Args:
        site: Of the exporter.
        exposition: What it serves.
        graphs: The distance of the points of each graph over all runs, by metric and bucket; empty stands for all.
        looked_at: The run whose page is opened: all of it is yielded, as are the exporter's own series.
    """
    target = f'instance="{site}",job="runwatch",shard="{site}"'
    for line in exposition.splitlines():
        if line.startswith("#"):
            continue
        found = _SERIES.match(line)
        distance = FINEST
        if found is not None and found[2] != looked_at:
            drawn = [graphs[key] for key in ((found[1], found[3]), (found[1], "")) if key in graphs]
            if not drawn:
                continue
            distance = min(drawn)
        series, _, value = line.rpartition(" ")
        labelled = f"{series[:-1]},{target}}}" if series.endswith("}") else f"{series}{{{target}}}"
        yield distance, f"{labelled} {value}"


def ended_lines(first: int, last: int) -> Iterator[Sampled]:
    """Yield the series of runs that are over, by their numbers, with their values: info, state and step."""
    for number in range(first, last):
        site = ("lab", "desk")[number % 2]
        bucket = _BUCKETS_OF_ENDED[number % len(_BUCKETS_OF_ENDED)]
        labels = f'run="{ended_name(number)}",bucket="{bucket}",site="{site}"'
        told = {"owner": f"user-{number % 40:02}", "scheduler": "slurm", "scheduler_job": str(number)}
        info = ",".join(f'{label}="{told.get(label, "")}"' for label in INFO_LABELS)
        yield 1, f"mljob_info{{{labels},{info}}} 1"
        yield 1, f"mljob_step{{{labels}}} {number % 5000}"
        for state in JOB_STATES:
            yield 1, f'mljob_state{{{labels},state="{state}"}} {int(state == "succeeded")}'


def ended_name(number: int) -> str:
    """Return the name of a run that is over."""
    return f"{_BUCKETS_OF_ENDED[number % len(_BUCKETS_OF_ENDED)]}-ended-{number:06}"


def sampled(series: Iterable[Sampled], times: range) -> Iterator[bytes]:
    """Yield OpenMetrics text: each series at those of some times (Unix seconds, rising) that its distance divides."""
    templates: dict[int, list[str]] = {}
    for distance, line in series:
        templates.setdefault(distance, []).append(f"{line} @\n")
    texts = {distance: "".join(lines).encode() for distance, lines in templates.items()}
    for time in times:
        yield from (text.replace(b" @\n", b" %d\n" % time) for each, text in texts.items() if time % each == 0)
    yield b"# EOF\n"
