"""One look at a whole project: which of its runs changed, and which runs there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import wandb

from runwatch.facts import Failure, FailureReason
from runwatch.sources.protocol import FoundRun
from runwatch.sources.wandb_requests import GraphqlAnswer, RunAnswer, RunPath, run_answer
from runwatch.sources.wandb_runs import parse_time

LISTED_AT_ONCE = 100
_ENDED = frozenset({"finished", "failed", "crashed", "killed"})
"""W&B's states of a run that does not run; a crashed one may, but then its heartbeat is fresh."""

_DOCUMENT = (
    "query RunwatchListing($entity:String!,$project:String!,$filters:JSONString,$first:Int){"
    "project(name:$project,entityName:$entity){runs(filters:$filters,first:$first){"
    "edges{node{name state createdAt heartbeatAt historyLineCount}}}}}"
)


def worth_listing(over: Sequence[bool]) -> bool:
    """Whether one listing of a project, then only what changed, costs no more requests than one a running run.

    Args:
        over: For each watched run of the project, whether it has ended.
    """
    running = over.count(False)
    return len(over) >= 2 and running != 1


def listing_document(paths: Sequence[RunPath]) -> tuple[str, dict[str, object]]:
    """The query for the state of some runs of one project, without their rows, and its variables."""
    return _DOCUMENT, {
        "entity": paths[0].entity,
        "project": paths[0].project,
        "filters": json.dumps({"name": {"$in": [path.name for path in paths]}}),
        "first": len(paths),
    }


def listing_answers(answer: GraphqlAnswer) -> dict[str, RunAnswer]:
    """Read the answer: what each run looks like, by its id. What is missing or broken is to be asked directly."""
    project = answer.data.get("project")
    connection = project.get("runs") if isinstance(project, dict) else None
    edges = connection.get("edges") if isinstance(connection, dict) else None
    found: dict[str, RunAnswer] = {}
    for edge in edges if isinstance(edges, list) else []:
        node = edge.get("node") if isinstance(edge, dict) else None
        read = run_answer(node, with_rows=False)
        name = node.get("name") if isinstance(node, dict) else None
        if isinstance(read, RunAnswer) and isinstance(name, str):
            found[name] = read
    return found


def split_project(text: str) -> tuple[str, str] | Failure:
    """Read `entity/project`."""
    parts = text.strip().strip("/").split("/")
    if len(parts) != 2 or not all(parts):
        return Failure(FailureReason.OTHER, f"expected entity/project, got {text!r}")
    return parts[0], parts[1]


def list_project(
    api: wandb.Api, entity: str, project: str, state: str | None, active_since: float | None
) -> list[FoundRun]:
    """List a project through the real client; raises whatever the client raises.

    With a state, runs that ended after `active_since` are looked for too: they may have been in that state while
    nobody looked. Whether the service honours the filter on heartbeats is not documented, so what comes back is
    filtered once more here, and nothing hangs on it: a run in the wanted state is found by the first listing.
    """
    where = f"{entity}/{project}"
    found = _listed(api, where, {"state": state} if state else {})
    if state and active_since is not None:
        since = datetime.fromtimestamp(active_since, UTC).isoformat()
        lately = _listed(api, where, {"heartbeatAt": {"$gte": since}})
        known = {run.path for run in found}
        found += [run for run in lately if run.path not in known and run.state in _ENDED]
    return [run for run in found if not _ended_before(run, active_since)]


def _listed(api: wandb.Api, where: str, filters: dict[str, object]) -> list[FoundRun]:
    return [
        FoundRun(
            path=f"{where}/{run.id}",
            name=run.id,
            display_name=run.name or run.id,
            state=run.state or "",
            created=parse_time(run.created_at),
            heartbeat=parse_time(getattr(run, "heartbeat_at", None)),
            user=getattr(getattr(run, "user", None), "username", None) or "",
        )
        for run in api.runs(where, filters=filters, per_page=LISTED_AT_ONCE, lazy=True)
    ]


def _ended_before(run: FoundRun, time: float | None) -> bool:
    if time is None or run.state not in _ENDED:
        return False
    last = run.heartbeat if run.heartbeat is not None else run.created
    return last is not None and last < time
