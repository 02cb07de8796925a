"""The pieces that the alerts' texts are made of: templates that Prometheus fills in.

Values are looked up where the text names one beside the alert's own figure. What has none is left out of the text.
"""

from __future__ import annotations

RUN = "{{ $labels.run }} ({{ $labels.site }})"
LIMIT = "limit "


def _looked_up(expression: str, before: str, form: str, after: str) -> str:
    """Return the largest value of a query of the alert's job between two texts, nothing where it has none."""
    return (
        f"{{{{ with printf `max({expression}{{run=%q,site=%q}})` $labels.run $labels.site | query }}}}"
        f"{before}{{{{ . | first | value{form} }}}}{after}{{{{ end }}}}"
    )


def limit_of(metric: str, *, label: str = "limit", form: str = " | humanizeDuration") -> str:
    """Return ` (limit 20m)` with the value of a metric of the job."""
    return _looked_up(metric, f" ({label} ", form, ")")


AT_STEP = _looked_up("mljob_step", " Step ", ' | printf "%.0f"', "") + _looked_up(
    "mljob_target_step", " of ", ' | printf "%.0f"', ""
)
