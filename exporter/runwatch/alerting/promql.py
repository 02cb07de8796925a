"""The pieces of PromQL that the rules are made of.

Every value that a rule reads is first brought to one series a job, with the labels `run`, `site`, `bucket` (and one
added label at most): then two series of a job match without `on`, and two replicas of the exporter are one.
"""

from __future__ import annotations

from runwatch.alerting.alert_sources import ALERT_SOURCES, WORK
from runwatch.catalogue import METRICS

JOB = "run, site, bucket"

_BY_PREFIX = (
    ("mljob_rl_trial", "trials"),
    ("mljob_trial", "trials"),
    ("mljob_last_trial", "trials"),
    ("mljob_chunks", "trials"),
    ("mljob_checkpoint", "checkpoints"),
    ("mljob_engine", "log"),
    ("mljob_auth", "log"),
    ("mljob_upload", "log"),
    ("mljob_tasks", "scheduler"),
    ("mljob_attempt_start", "scheduler"),
    ("mljob_interruption", "scheduler"),
    ("mljob_successor", "scheduler"),
    ("mljob_preemptions", "scheduler"),
    ("mljob_failures", "scheduler"),
    ("mljob_peak_memory", "scheduler"),
    ("mljob_accelerators", "scheduler"),
    ("mljob_infra_check", "log"),
    ("mljob_log", "log"),
    ("mljob_state_conflict", "scheduler|history|checkpoints"),
)
"""Which source a metric's value comes from, of several each joined by `|`; all others come from the history."""


def duration(seconds: float) -> str:
    """Return a duration as PromQL and rule files write it: `90s`, `5m`, `6h`.

    Raises:
        ValueError: not a whole number of seconds above 0.
    """
    if seconds <= 0 or seconds != int(seconds):
        raise ValueError(f"a duration is a whole number of seconds above 0, got {seconds}")
    for length, unit in ((3600, "h"), (60, "m")):
        if seconds % length == 0:
            return f"{int(seconds) // length}{unit}"
    return f"{int(seconds)}s"


def number(value: float) -> str:
    """Return a number as PromQL writes it, whole ones without a fraction."""
    return str(int(value)) if value == int(value) else repr(value)


def source_of(metric: str) -> str:
    """Return the source whose answers a metric's value comes from, several joined by `|`."""
    return next((source for prefix, source in _BY_PREFIX if metric.startswith(prefix)), "history")


def current(metric: str, matchers: str = "", *, source: str = "", keep: str = "", only: str = "") -> str:
    """Return one series a job of a metric, the value that its replicas of the exporter tell now.

    A replica whose source has gone blind while another's has not keeps its last value: it is left out.

    Args:
        metric: A name of the catalogue.
        matchers: Label matchers, without braces.
        source: Where the value comes from, several joined by `|`; by default what `source_of` says.
        keep: An added label that the result keeps.
        only: A comparison that a value must pass to count. Of a one-hot metric this spares joining all its zeros.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    ignored = ", ".join(dict.fromkeys(("source", *METRICS[metric].labels)))
    selector = f"{metric}{{{matchers}}}" if matchers else metric
    sources = source or source_of(metric)
    operator = "=~" if "|" in sources else "="
    labels = f"{JOB}, {keep}" if keep else JOB
    return (
        f"max by ({labels}) (\n"
        f"  {selector}{f' {only}' if only else ''}\n"
        f'  unless ignoring ({ignored}) mljob:replica_outdated{{source{operator}"{sources}"}}\n'
        ")"
    )


def newest(metric: str, matchers: str = "") -> str:
    """Return one series a job of a metric that tells when something newest was.

    Such a time only rises, so what a replica that has gone blind keeps is never newer than what the other tells.
    """
    selector = f"{metric}{{{matchers}}}" if matchers else metric
    return f"max by ({JOB}) ({selector})"


def indented(text: str, by: int = 2) -> str:
    """Return the text with every line moved to the right."""
    return "\n".join(" " * by + line for line in text.splitlines())


def grouped(text: str) -> str:
    """Return the text in parentheses, on one line where it has one."""
    return f"(\n{indented(text)}\n)" if "\n" in text else f"({text})"


def _operand(text: str) -> str:
    """Return the text as an operand: in parentheses unless it is one selector."""
    is_selector = text.count("{") <= 1 and "(" not in text and "\n" not in text and " " not in text.partition("{")[0]
    return text if is_selector and text.partition("}")[2] == "" else grouped(text)


def either(*expressions: str) -> str:
    """Return what any of the expressions gives, the first for labels that several give."""
    return "\nor\n".join(_operand(expression) for expression in expressions)


def latest(**expressions: str) -> str:
    """Return for each job the largest of several values, whichever of them it has; the names only tell them apart."""
    named = [f'label_replace(\n{indented(text)},\n  "of", "{name}", "", ""\n)' for name, text in expressions.items()]
    joined = "\nor\n".join(named)
    return f"max by ({JOB}) (\n{indented(joined)}\n)"


def where(condition: str) -> str:
    """Return the line that keeps the jobs for which the condition has a series."""
    return f"and on (run, site) {_operand(condition)}"


def but_not(condition: str) -> str:
    """Return the line that leaves out the jobs for which the condition has a series."""
    return f"unless on (run, site) {_operand(condition)}"


def in_state(states: str) -> str:
    """Return the selector of the jobs in a state, several joined by `|`."""
    return f'mljob:state{{state{"=~" if "|" in states else "="}"{states}"}}'


def in_phase(phase: str) -> str:
    """Return the selector of the jobs in a phase, several joined by `|`."""
    return f'mljob:phase{{phase{"=~" if "|" in phase else "="}"{phase}"}}'


def lines(*parts: str) -> str:
    """Join the lines of an expression."""
    return "\n".join(parts)


NOT_OVER = but_not("mljob:ended")


def firing(name: str, severity: str) -> str:
    """Return the selector of the jobs for which an alert fires."""
    return f'ALERTS{{alertname="{name}", severity="{severity}", alertstate="firing"}}'


def unless_firing(name: str, severity: str, remembered: float = 0.0) -> str:
    """Return the line that leaves out the jobs for which an alert fires already, or did within so many seconds."""
    selector = firing(name, severity)
    return f"unless on (run, site) {f'last_over_time({selector}[{duration(remembered)}])' if remembered else selector}"


def not_blind(name: str, severity: str, remembered: float = 0.0) -> str:
    """Return the line that lets no alert begin on facts that a blind source can no longer confirm.

    One that fires already goes on: blindness is no reason to say that all is well.

    Args:
        name: The alert's name.
        severity: Its severity.
        remembered: For how many seconds after it fired it still counts as one that fires: an alert whose labels
            change is another one to Prometheus, which waits anew.

    Raises:
        KeyError: `ALERT_SOURCES` does not tell what the alert is made from.
    """
    sources = ALERT_SOURCES[name]
    operator = "=~" if len(sources) > 1 else "="
    blind = f'mljob:blind{{source{operator}"{"|".join(sources)}"}}' if WORK not in sources else "mljob:work_blind"
    return lines(
        "unless on (run, site) (",
        f"  {blind}",
        f"  {unless_firing(name, severity, remembered)}",
        ")",
    )
