"""GraphQL over HTTP to W&B: one request, one typed answer. Many runs share a request by aliases."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx

from runwatch.facts import Failure, FailureReason
from runwatch.sources.wandb_budget import retry_after_seconds

LAST_STEP = 9_007_199_254_740_992
"""Above every step: 2^53, the largest integer that survives JSON readers which keep numbers as doubles."""

VIEWER_DOCUMENT = "query RunwatchViewer{viewer{id}}"
_STATE_FIELDS = "name state createdAt heartbeatAt historyLineCount"
_LARGEST_ANSWER = 512 * 2**20


@dataclass(frozen=True, slots=True)
class RunPath:
    """Where a run lives; `name` is its id, not its display name."""

    entity: str
    project: str
    name: str

    @classmethod
    def parse(cls, text: str) -> RunPath | None:
        """Read `entity/project/run_id`; None for anything else."""
        parts = text.strip().strip("/").split("/")
        if len(parts) == 4 and parts[2] == "runs":  # as in the page's address
            del parts[2]
        if len(parts) != 3 or not all(parts):
            return None
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.entity}/{self.project}/{self.name}"


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of one run: rows with low <= `_step` < high, not more than `samples` of them.

    `config` asks for the run's configuration too, which may be large and is wanted only once.
    """

    path: RunPath
    low: int
    high: int
    samples: int
    config: bool = False


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """One run as W&B described it. `rows` are JSON texts."""

    state: str | None
    created: str | None
    heartbeat: str | None
    line_count: int | None
    rows: tuple[str, ...] = ()
    config: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that gave no data. `status` is HTTP's, None where there was no answer."""

    failure: Failure
    status: int | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class GraphqlAnswer:
    """The data of a request, and for each path of aliases the message of the error that W&B gave beside it."""

    data: Mapping[str, object]
    errors: Mapping[tuple[str, ...], str]


def runs_document(asks: Sequence[Ask]) -> tuple[str, dict[str, object]]:
    """Write one query for many runs.

    Returns:
        The document, in which ask i is alias `r<i>` below its project's alias `p<j>`, and its variables.
    """
    projects: dict[tuple[str, str], list[int]] = {}
    for index, ask in enumerate(asks):
        projects.setdefault((ask.path.entity, ask.path.project), []).append(index)
    declared: list[str] = []
    parts: list[str] = []
    variables: dict[str, object] = {}
    for project_index, ((entity, project), indexes) in enumerate(projects.items()):
        declared.append(f"$e{project_index}:String!,$p{project_index}:String!")
        variables[f"e{project_index}"], variables[f"p{project_index}"] = entity, project
        runs = []
        for i in indexes:
            ask = asks[i]
            declared.append(f"$r{i}:String!,$l{i}:Int64!,$h{i}:Int64!,$s{i}:Int!")
            variables |= {f"r{i}": ask.path.name, f"l{i}": ask.low, f"h{i}": ask.high, f"s{i}": ask.samples}
            config = " config" if ask.config else ""
            runs.append(
                f"r{i}:run(name:$r{i}){{{_STATE_FIELDS}{config} history(minStep:$l{i},maxStep:$h{i},samples:$s{i})}}"
            )
        parts.append(
            f"p{project_index}:project(name:$p{project_index},entityName:$e{project_index}){{{' '.join(runs)}}}"
        )
    return f"query RunwatchRuns({','.join(declared)}){{{' '.join(parts)}}}", variables


def runs_answers(asks: Sequence[Ask], answer: GraphqlAnswer) -> list[RunAnswer | Failure]:
    """Read the answer to `runs_document`: one entry for each ask, in order."""
    aliases: dict[tuple[str, str], str] = {}
    for ask in asks:
        aliases.setdefault((ask.path.entity, ask.path.project), f"p{len(aliases)}")
    found: list[RunAnswer | Failure] = []
    for index, ask in enumerate(asks):
        project_alias, alias = aliases[(ask.path.entity, ask.path.project)], f"r{index}"
        project = answer.data.get(project_alias)
        run = project.get(alias) if isinstance(project, dict) else None
        if run is None:
            message = answer.errors.get((project_alias, alias)) or answer.errors.get((project_alias,))
            found.append(_missing(ask.path, message))
        else:
            found.append(run_answer(run, with_rows=True))
    return found


def _missing(path: RunPath, message: str | None) -> Failure:
    if message is None:
        return Failure(FailureReason.NOT_FOUND, f"W&B knows no run {path} (or the key may not see it)")
    return Failure(graphql_reason(message), f"W&B could not answer for {path}: {message}")


def run_answer(run: object, *, with_rows: bool) -> RunAnswer | Failure:
    """Read one `Run` object of an answer."""
    if not isinstance(run, dict):
        return Failure(FailureReason.PARSE, "W&B's answer holds a run that is no object")
    rows = run.get("history") if with_rows else []
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        return Failure(FailureReason.PARSE, "W&B's answer holds a history that is no list of texts")
    count = run.get("historyLineCount")
    return RunAnswer(
        state=_text(run.get("state")),
        created=_text(run.get("createdAt")),
        heartbeat=_text(run.get("heartbeatAt")),
        line_count=count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None,
        rows=tuple(rows),
        config=_text(run.get("config")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def graphql_reason(message: str) -> FailureReason:
    """What W&B's words in a GraphQL error mean; they carry no code."""
    words = message.lower()
    if "permission" in words or "unauthorized" in words or "forbidden" in words or "not logged in" in words:
        return FailureReason.AUTH
    if "rate limit" in words or "too many requests" in words:
        return FailureReason.THROTTLED
    if "not found" in words or "could not find" in words:
        return FailureReason.NOT_FOUND
    return FailureReason.OTHER


def status_reason(status: int, *, retry_after: bool = False) -> FailureReason:
    """What an HTTP status other than 200 means."""
    if status in (401, 403):
        return FailureReason.AUTH
    if status == 404:
        return FailureReason.NOT_FOUND
    if status == 429 or (status == 503 and retry_after):
        return FailureReason.THROTTLED
    if status in (408, 504):
        return FailureReason.TIMEOUT
    return FailureReason.OTHER


class GraphqlClient:
    """Pooled connections to one W&B server. `execute` may be called from several threads."""

    def __init__(self, base_url: str, clock: Callable[[], float], connections: int) -> None:
        self._url = base_url.rstrip("/") + "/graphql"
        self._clock = clock
        self._http = httpx.Client(
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            headers={"User-Agent": "runwatch"},
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def execute(
        self, document: str, variables: Mapping[str, object], key: str, seconds: float
    ) -> GraphqlAnswer | Refusal:
        """Send one query.

        Args:
            document: GraphQL.
            variables: Its variables.
            key: The API key; it goes into the header and nowhere else.
            seconds: How long everything may take, however slowly the answer trickles in.
        """
        until = time.monotonic() + seconds
        try:
            with self._http.stream(
                "POST",
                self._url,
                json={"query": document, "variables": variables},
                auth=("api", key),
                timeout=max(0.05, seconds),
            ) as response:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if time.monotonic() > until:
                        return Refusal(
                            Failure(FailureReason.TIMEOUT, f"no whole answer from W&B within {seconds:.1f} s")
                        )
                    if len(body) > _LARGEST_ANSWER:
                        return Refusal(Failure(FailureReason.PARSE, "W&B's answer is larger than 512 MiB"))
        except httpx.TimeoutException:
            return Refusal(Failure(FailureReason.TIMEOUT, f"no answer from W&B within {seconds:.1f} s"))
        except httpx.InvalidURL:
            return Refusal(Failure(FailureReason.OTHER, "wandb.base_url is no URL"))
        except httpx.DecodingError:
            return Refusal(Failure(FailureReason.PARSE, "W&B's answer cannot be decompressed"))
        except httpx.HTTPError as error:
            return Refusal(Failure(FailureReason.NETWORK, f"cannot reach W&B: {type(error).__name__}"))
        if response.status_code != 200:
            return self._refused(response)
        return read_body(bytes(body))

    def _refused(self, response: httpx.Response) -> Refusal:
        status = response.status_code
        wait = retry_after_seconds(response.headers.get("Retry-After"), self._clock())
        reason = status_reason(status, retry_after=wait is not None)
        heeded = wait if reason is FailureReason.THROTTLED else None
        # A status is about the address, not about a run: a wrong base_url answers 404 to everything.
        return Refusal(Failure(reason, f"W&B answered HTTP {status}", whole_source=True), status, heeded)


def read_body(body: bytes) -> GraphqlAnswer | Refusal:
    """Read the body of a 200."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return Refusal(Failure(FailureReason.PARSE, "W&B's answer is not JSON"), 200)
    if not isinstance(payload, dict):
        return Refusal(Failure(FailureReason.PARSE, "W&B's answer is no JSON object"), 200)
    data, errors = payload.get("data"), payload.get("errors") or []
    if not isinstance(errors, list):
        return Refusal(Failure(FailureReason.PARSE, "W&B's errors are no list"), 200)
    messages: dict[tuple[str, ...], str] = {}
    for error in errors:
        if isinstance(error, dict):
            path = error.get("path")
            names = tuple(str(part) for part in path) if isinstance(path, list) else ()
            message = " ".join(str(error.get("message", "no message")).split())[:200]
            # Errors deep inside a run (its history) count for the run: project alias, run alias.
            messages.setdefault(names[:2], message)
    if isinstance(data, dict):
        return GraphqlAnswer(data, messages)
    if messages:
        message = next(iter(messages.values()))
        return Refusal(Failure(graphql_reason(message), f"W&B refused the query: {message}"), 200)
    return Refusal(Failure(FailureReason.PARSE, "W&B's answer holds neither data nor errors"), 200)
