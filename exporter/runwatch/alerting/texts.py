"""The pieces that the alerts' texts are made of: templates that Prometheus fills in.

Values are looked up where the text names one beside the alert's own figure. What has none is left out of the text.
"""

from __future__ import annotations

RUN = "{{ $labels.run }} ({{ $labels.site }})"
LIMIT = "limit "


def looked_up(expression: str, found: str, otherwise: str = "") -> str:
    """Return one text where a query of the alert's job gives something, and else another.

    Args:
        expression: PromQL with `JOB` where the matchers of the job's run and site stand.
        found: a template in which the dot is the result.
        otherwise: a template for no result.
    """
    query = expression.replace("JOB", "run=%q,site=%q")
    end = f"{{{{ else }}}}{otherwise}{{{{ end }}}}" if otherwise else "{{ end }}"
    return f"{{{{ with printf `{query}` $labels.run $labels.site | query }}}}{found}{end}"


def value_of(form: str = "humanizeDuration") -> str:
    """Return the template of a looked up value; `form` is what Prometheus writes it with, empty for as it is."""
    return f"{{{{ . | first | value{f' | {form}' if form else ''} }}}}"


def limit_of(metric: str, *, label: str = "limit", form: str = "humanizeDuration") -> str:
    """Return ` (limit 20m)` with the largest value of a metric of the job."""
    return looked_up(f"max({metric}{{JOB}})", f" ({label} {value_of(form)})")


def beyond(form: str, **limits: str) -> str:
    """Return the alert's figure, so that one that rounds to its limit does not read as the limit itself.

    Args:
        form: what the figure is written with, such as `humanize`.
        limits: by `above` or `below`, the limits as that form writes them.
    """
    cases = "".join(
        f'{{{{ {"else " if place else ""}if eq $shown "{limit}" }}}}just {side} {limit}'
        for place, (side, limit) in enumerate(limits.items())
    )
    return f"{{{{ $shown := $value | {form} }}}}{cases}{{{{ else }}}}{{{{ $shown }}}}{{{{ end }}}}"


WHOLE = 'printf "%.0f"'
AT_STEP = looked_up(
    "max(mljob_step{JOB})",
    f" Step {value_of(WHOLE)}" + looked_up("max(mljob_target_step{JOB})", f" of {value_of(WHOLE)}"),
    looked_up("max(mljob_target_step{JOB})", f" No step is known, of {value_of(WHOLE)}."),
)
