"""What W&B says of a run becomes a `HistoryRun`: states, times and configuration. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from runwatch.facts import HistoryEnd, HistoryRow, HistoryRun
from runwatch.parsing.history_rows import MalformedRow, parse_json_line, parse_row
from runwatch.sources.wandb_requests import RunAnswer, RunPath

_ENDS = {"finished": HistoryEnd.SUCCEEDED, "failed": HistoryEnd.FAILED, "killed": HistoryEnd.KILLED}
"""States that the run itself, or a person, set. `crashed` is the server's guess after five minutes of silence."""


def parse_time(text: str | None) -> float | None:
    """Read W&B's ISO 8601 time, which is UTC also where it names no zone.

    Returns:
        Unix seconds; None where there is no readable time.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def parse_config(text: str | None) -> dict[str, object]:
    """Read a run's configuration: JSON whose values may be wrapped as `{"value": ...}`.

    W&B's own section `_wandb` is left out. What cannot be read gives no configuration, never an error: rows count more.
    """
    if not text:
        return {}
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {key: _unwrapped(value) for key, value in parsed.items() if key != "_wandb"}


def _unwrapped(value: object) -> object:
    if isinstance(value, dict) and "value" in value and value.keys() <= {"value", "desc"}:
        inner: object = value["value"]
        return inner
    return value


def history_run(
    path: RunPath, answer: RunAnswer, config: Mapping[str, object], page_url: str, at: float | None
) -> HistoryRun | None:
    """Describe a run, as of `at` where that is given.

    W&B tells only of today. An end of today is kept only where the run was silent from `at` on; else it was running.

    Returns:
        The run; None where it was made after `at`.
    """
    state, created, heartbeat = answer.state or "", parse_time(answer.created), parse_time(answer.heartbeat)
    end = _ENDS.get(state)
    ended_at = heartbeat if end is not None else None
    if at is not None:
        if created is not None and created > at:
            return None
        if heartbeat is None or heartbeat > at:
            heartbeat = None
            if state != "running":
                state, end, ended_at = "running" if created is not None else "", None, None
    return HistoryRun(
        state=state,
        heartbeat=heartbeat,
        created=created,
        end=end,
        ended_at=ended_at,
        config=config,
        name=str(path),
        url=f"{page_url}/{quote(path.entity)}/{quote(path.project)}/runs/{quote(path.name)}",
        drops_replayed_steps=True,
    )


def page_address(base_url: str) -> str:
    """The address of W&B's pages for the address of its API: `https://api.wandb.ai` is shown at `https://wandb.ai`.

    W&B's own service is also known as `api.forge.coreweave.com`, whose pages lie below `/wandb`; other companies' cloud
    installations answer at `api.X` and show pages at `app.X`, and servers at one address do both there.
    """
    url = urlsplit(base_url)
    host = url.netloc
    if host == "api.forge.coreweave.com":
        return f"{url.scheme}://forge.coreweave.com/wandb"
    if host.startswith("api.wandb."):
        return f"{url.scheme}://{host.removeprefix('api.')}"
    if host.startswith("api."):
        return f"{url.scheme}://app.{host.removeprefix('api.')}"
    return f"{url.scheme}://{host}{url.path.rstrip('/')}"


def parse_rows(texts: Iterable[str]) -> tuple[list[HistoryRow], list[str]]:
    """Read the rows of an answer.

    Returns:
        The rows, ascending by `_step`, and the texts that could not be read.
    """
    rows: list[HistoryRow] = []
    malformed: list[str] = []
    for text in texts:
        try:
            # A lone surrogate has no UTF-8 form; passed on, it is refused as malformed by the reader.
            rows.append(parse_row(parse_json_line(text.encode("utf-8", "surrogatepass"))))
        except MalformedRow:
            malformed.append(text)
    rows.sort(key=lambda row: row.cursor)
    return rows, malformed


def visible_rows(rows: list[HistoryRow], at: float | None) -> list[HistoryRow]:
    """The rows recorded up to `at`; one without a time counts when a later one was recorded by then."""
    if at is None:
        return rows
    last = max((i for i, row in enumerate(rows) if row.time is not None and row.time <= at), default=-1)
    return [row for row in rows[: last + 1] if row.time is None or row.time <= at]
