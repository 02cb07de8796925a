"""Makes `docs/metrics.md` from the catalogue and the thresholds: `make docs`, or `python -m runwatch.reference`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from runwatch import thresholds
from runwatch.catalogue import (
    CHUNK_STATES,
    END_REASONS,
    GAP_CAUSES,
    GRID_CELL_STATES,
    INFRA_CHECKS,
    INTERRUPTION_CAUSES,
    JOB_LABELS,
    JOB_PHASES,
    JOB_STATES,
    LINK_TARGETS,
    METRICS,
    TASK_STATES,
    WAITING_REASONS,
)
from runwatch.config.durations import format_duration
from runwatch.derive.verdict_rules import rule_of
from runwatch.facts import FailureReason, SourceKind
from runwatch.metric_kinds import Metric, Section
from runwatch.terminal import write

_INTRODUCTION = f"""# Metrics

<!-- Made by `make docs` from the exporter's own tables: change `runwatch/catalogue.py` or `runwatch/thresholds.py`. -->

Every `mljob_*` series has the labels {", ".join(f"`{label}`" for label in JOB_LABELS)}, and those that its row adds.
How each number is made stands in [rules.md](rules.md).

- **Absent is not zero.** What was not measured has no series.
- **Ages** are not exported: subtract a timestamp from the `mljob_observed_timestamp_seconds` of the source that it
  comes from, not from `time()`.
- **Timestamps** are Unix seconds. **Ratios** are shares or quotients, 1 being the whole or no change; never percent.
- Counts that an upstream keeps are gauges too: they go down when it starts anew.
"""

_LABEL_VALUES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("target", "`mljob_link`", LINK_TARGETS),
    ("state", "`mljob_state`", JOB_STATES),
    ("phase", "`mljob_phase`", JOB_PHASES),
    ("state", "`mljob_tasks`", TASK_STATES),
    ("cause", "`mljob_gaps` and its like", GAP_CAUSES),
    ("cause", "`mljob_interruptions` and its like", INTERRUPTION_CAUSES),
    ("reason", "`mljob_waiting`", WAITING_REASONS),
    ("reason", "`mljob_end_reason`", END_REASONS),
    ("state", "`mljob_chunks`", CHUNK_STATES),
    ("check", "`mljob_infra_check`", INFRA_CHECKS),
    ("state", "`runwatch_grid_cells`", GRID_CELL_STATES),
    ("source", "all that are about a source", tuple(SourceKind)),
    ("reason", "`runwatch_source_errors_total`", tuple(FailureReason)),
)

_UNITS_OF_TIME = frozenset({"MINUTE", "HOUR"})  # in `thresholds` to write the others with

_COUNTED_UNITS = {
    "COUNT": "events or intervals",
    "INTERVALS": "intervals",
    "ALLOWED": "intervals",
    "WINDOW": "logged values",
    "RATIOS": "ratios in a row",
    "SIGNALS": "signals",
    "STEPS": "steps",
}
"""Units of the thresholds that are no plain number, by the last word of their names."""


def render() -> str:
    """Return the text of `docs/metrics.md`."""
    parts = [_INTRODUCTION, *(_section(section) for section in Section)]
    parts += [_label_values(), _thresholds(), _verdicts()]
    return "\n".join(parts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    """A bar would end the cell, a line feed the row."""
    return text.replace("|", "\\|").replace("\n", " ")


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _section(section: Section) -> str:
    metrics = (metric for metric in METRICS.values() if metric.section is section)
    labels = "labels" if section in {Section.GRIDS, Section.EXPORTER} else "added labels"
    table = _table(("metric", labels, "unit", "type", "meaning"), map(_metric_row, metrics))
    return f"## {section.value}\n\n{table}"


def _metric_row(metric: Metric) -> tuple[str, str, str, str, str]:
    return f"`{metric.name}`", _names(metric.labels), metric.unit.value, metric.kind, metric.help


def _label_values() -> str:
    rows = ((f"`{label}`", where, _names(values)) for label, where, values in _LABEL_VALUES)
    return f"## Values of labels\n\n{_table(('label', 'of', 'values'), rows)}"


def public_thresholds() -> Iterator[tuple[str, float]]:
    """Yield name and value of every numeric constant of `thresholds`, in its order."""
    for name, value in vars(thresholds).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name.isupper() and not name.startswith("_") and name not in _UNITS_OF_TIME and is_number:
            yield name, value


def _thresholds() -> str:
    rows = ((f"`{name}`", *_value_and_unit(name, value)) for name, value in public_thresholds())
    return (
        "## Thresholds\n\n"
        "The one home of these numbers is `runwatch/thresholds.py`; all that judges a job is made from there.\n\n"
        f"{_table(('threshold', 'value', 'unit'), rows)}"
    )


def _value_and_unit(name: str, value: float) -> tuple[str, str]:
    if name.endswith("_SECONDS"):
        return format_duration(value), "duration"
    return f"{value:g}", _COUNTED_UNITS.get(name.rpartition("_")[2], "")


def _verdicts() -> str:
    rows = ((f"`{word}`", rule_of(word)) for word in thresholds.VERDICTS)
    return (
        "## Verdicts\n\n"
        "The words of `mljob_trend`, worst first: a job carries the first that holds. Ages are measured against the\n"
        "last answer of the source.\n\n"
        f"{_table(('verdict', 'holds when'), rows)}"
    )


if __name__ == "__main__":
    write(render())
