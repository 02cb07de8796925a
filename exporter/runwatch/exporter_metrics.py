"""The metrics that are not of one job: those of grids, and the exporter's about itself. They carry all their labels."""

from __future__ import annotations

from runwatch.metric_kinds import Metric, Section, Unit

GRID_METRICS = [
    Metric(
        "runwatch_grid_cells",
        "Distinct cells of a grid by state; restart copies, and backups of a running cell, are not counted.",
        Section.GRIDS,
        Unit.COUNT,
        ("grid", "site", "state"),
    ),
    Metric(
        "runwatch_grid_long_pole",
        "ETA of the running cell of the grid that ends last.",
        Section.GRIDS,
        Unit.SECONDS,
        ("grid", "run"),
    ),
]

EXPORTER_METRICS = [
    Metric("runwatch_build_info", "Version of this exporter; always 1.", Section.EXPORTER, labels=("version",)),
    Metric(
        "runwatch_source_up",
        "0 when not one job of this source at this site could be read in the last poll, or be found.",
        Section.EXPORTER,
        Unit.BOOLEAN,
        ("source", "site"),
    ),
    Metric(
        "runwatch_source_interval_seconds",
        "Time between two looks of this source at a job: the configured one, or longer where a round over all jobs is.",
        Section.EXPORTER,
        Unit.SECONDS,
        ("source", "site"),
    ),
    Metric(
        "runwatch_source_last_success_timestamp_seconds",
        "When this source was last read at this site.",
        Section.EXPORTER,
        Unit.TIMESTAMP,
        ("source", "site"),
    ),
    Metric(
        "runwatch_source_errors_total",
        "Failed looks, by reason.",
        Section.EXPORTER,
        Unit.COUNT,
        ("source", "site", "reason"),
        "counter",
    ),
    Metric(
        "runwatch_source_requests_total",
        "Requests made to the upstream (HTTP requests, listings, files opened).",
        Section.EXPORTER,
        Unit.COUNT,
        ("source", "site"),
        "counter",
    ),
    Metric(
        "runwatch_poll_duration_seconds",
        "How long a poll took.",
        Section.EXPORTER,
        Unit.SECONDS,
        ("source", "site"),
        "histogram",
    ),
    Metric("runwatch_jobs", "Jobs watched.", Section.EXPORTER, Unit.COUNT, ("bucket",)),
    Metric("runwatch_series", "Series of jobs in the exposition.", Section.EXPORTER, Unit.COUNT),
    Metric("runwatch_jobs_dropped", "Jobs found by discovery but over the limit.", Section.EXPORTER, Unit.COUNT),
    Metric(
        "runwatch_history_rows_malformed_total",
        "Rows or lines of a job's history that could not be read and were skipped.",
        Section.EXPORTER,
        Unit.COUNT,
        ("run",),
        "counter",
    ),
    Metric(
        "runwatch_log_lines_unparsed_total",
        "Lines of a job's log that look like metrics and could not be read.",
        Section.EXPORTER,
        Unit.COUNT,
        ("run",),
        "counter",
    ),
    Metric(
        "runwatch_config_last_reload_successful",
        "1 when the last reload of the config succeeded.",
        Section.EXPORTER,
        Unit.BOOLEAN,
    ),
    Metric(
        "runwatch_config_last_reload_success_timestamp_seconds",
        "When the config was last loaded.",
        Section.EXPORTER,
        Unit.TIMESTAMP,
    ),
]
