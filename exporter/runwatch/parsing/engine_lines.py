"""What a log tells of the inference engine and of what stands around it: tunnel, sandbox provider, uploads, chunks.

Formats: vLLM's periodic `Engine 000: ... Running: 3 reqs, Waiting: 0 reqs` (older: `Swapped`, `Pending`) and SGLang's
`Decode batch, #running-req: 3`; uvicorn's access lines `"POST /v1/chat/completions HTTP/1.1" 200`; the lines that
launch scripts of evals and data generation print of tunnels, endpoints, chunks and uploads; exceptions of Daytona,
Modal and E2B. Where several engines report, the requests of the newest report of each add up.
"""

from __future__ import annotations

import ipaddress
import re
from collections import deque
from dataclasses import dataclass

from runwatch.parsing.log_records import LogFragment

MAX_AUTH_FAILURES = 1000
_MAX_ENGINES = 1024
_REPORT_SECONDS = 600.0
"""An engine that reported nothing for so long, while others did, counts no more."""

_VLLM = re.compile(
    r"(?:Engine (\d{1,6}): )?Avg (?:prompt|generation) throughput: .{0,200}?\bRunning: (\d{1,9}) reqs?\b"
)
_SGLANG = re.compile(
    r"(?:\[[^\]]{0,60}?\b(DP\d{1,5})\b[^\]]{0,40}\] )?.{0,80}?\bDecode batch\b.{0,200}?#running-req: ?(\d{1,9})"
)
_ACCESS = re.compile(
    r'"POST /(?:[^\s"?]{1,200}/)?(?:completions|responses|generate|messages)(?:\?[^\s"]{0,300})? HTTP/[\d.]+" (\d{3})\b'
)
_AUTH_CLASS = re.compile(r"\b(?:Daytona|Modal|E2B|Sandbox)Auth(?:entication|orization)?(?:Error|Exception)\b")
# Models and repositories have such words in their names too: `google/gemma-3n-E2B-it`, `multi-modal`.
_PROVIDER = re.compile(r"(?i)(?<![\w/-])(?:daytona|modal|e2b)\b|\bsandbox(?:es)?\b")
_BEHIND_HOST = re.compile(r"(https?://[^/?#\s'\"]{1,300})[/?#][^\s'\"]{0,2000}")
_REFUSAL = re.compile(
    r"(?i)\b(?:HTTP(?:/[\d.]+)?|status|status[ _]code|code)[ :=(]{1,3}(?:401|403)\b|\bunauthori[sz]ed\b"
    r"|\b403[ :]{1,2}forbidden\b|\binvalid (?:or expired )?(?:api[ _-]?key|token|credentials)\b"
    r"|\bauthentication failed\b"
)
_API_BASE = re.compile(r"(?i)\bapi[ _-]base(?:[ _-]url)?\b['\"]?\s{0,4}[:=]\s{0,4}['\"]?(https?://[^\s'\",)}]{1,300})")
_HOST = re.compile(r"https?://(?:[^/@\s]{0,200}@)?(\[[0-9A-Fa-f:.]{2,60}\]|[^/:?#\s]{1,253})")
_TUNNEL = re.compile(r"(?i)\b(?:tunnel|pinggy|cloudflared|ngrok)\b")
_TUNNEL_GOOD = re.compile(
    r"(?i)\b(?:ok|ready|established|succeeded|connected|healthy|registered|up|is live|restored)\b"
    r"|\b(?:using persistent|public) \w{0,20} ?url\b"
)
_TUNNEL_BAD = re.compile(
    r"(?i)\b(?:failed|failure|error|refused|closed|disconnected|lost|unreachable|timed out|not established|down)\b"
    r"|\b(?:expired|dead)\b"
)
_TUNNEL_AWAITED = re.compile(
    r"(?i)\bwait(?:ing|s)? (?:for|until)\b|\b(?:setting|bringing|starting|spinning) up\b|\b(?:until|once|unless)\b"
)
_DENIED = re.compile(r"(?i)\b(?:not|never|cannot)\b|n't\b")
_UPLOADED = re.compile(
    r"(?i)\btraces? (?:dataset )?uploaded\b|\bsuccessfully (?:uploaded|pushed) (?:the )?(?:traces|dataset)\b"
    r"|\bupload(?:ing)? (?:of (?:the )?traces )?(?:is )?(?:complete[d]?|finished)(?: successfully)?\b"
    r"|\buploaded (?:the )?(?:traces|dataset)\b.{0,80}\bto\b"
)
_NOT_UPLOADED = re.compile(
    r"(?i)\b(?:upload(?:ing)?(?: of)?|push(?:ing)?)\b.{0,80}(?<!\b0 )(?<!\bno )"
    r"\b(?:failed|error|skipped|skipping|aborted)\b"
    r"|\b(?:failed to|skipping|error|cannot|could not|not) (?:upload|push)(?:ing|ed)?\b"
    r"|\b(?:no|0) traces? (?:dataset )?uploaded\b"
)
_CHUNK = re.compile(
    r"\bChunk Index: (\d{1,6}) ?/ ?(\d{1,6}|\?)|\bLoading chunk env: .{0,400}\(array task (\d{1,6})/(\d{1,6}|\?)\)"
)
_CHUNK_DONE = re.compile(r"Trace generation completed successfully")
_CHUNK_FAILED = re.compile(r"Trace generation failed with exit code:? (\d{1,9})")
_TRIGGERS = (
    "throughput: ", "#running-req", '"post /', "auth", "401", "403", "credential", "api", "token", "tunnel", "pinggy",
    "cloudflared", "ngrok", "upload", "push", "chunk", "trace generation",
)  # fmt: skip
"""Most lines hold none of these words, and to look for words is much cheaper than to try expressions."""

_SEARCHED_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class EngineSignals:
    """What was seen so far; None is not seen. Times are Unix seconds.

    `running_requests` is the sum over the engines' newest reports, `running_time` the newest of these. `successes`
    counts answers 200, `refusals` other answers. `auth_failures` are the times of the newest 1000 refusals by the
    sandbox provider. `api_base_public` is False where the newest api_base points at an internal address. `tunnel` is
    what its newest line tells. `chunk` and `chunks` are a datagen job's chunk and how many there are.
    `upload_complete` is true once every chunk that a log was seen of is uploaded, of several every one there will be;
    `uploaded_chunks` are those that are.
    """

    running_requests: int | None
    running_time: float | None
    last_success: float | None
    successes: int
    refusals: int
    auth_failures: tuple[float, ...]
    auth_failures_without_time: int
    api_base_public: bool | None
    api_base_host: str
    tunnel: bool | None
    tunnel_time: float | None
    upload_complete: bool | None
    upload_time: float | None
    chunk: int | None
    chunks: int | None
    chunk_completed: bool | None
    uploaded_chunks: frozenset[int] = frozenset()


class EngineLines:
    """Takes a log's fragments in order and answers with `EngineSignals`."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[int, float | None]] = {}
        self._last_success: float | None = None
        self._successes = 0
        self._refusals = 0
        self._auth_failures: deque[float] = deque(maxlen=MAX_AUTH_FAILURES)
        self._auth_failures_without_time = 0
        self._api_base_public: bool | None = None
        self._api_base_host = ""
        self._tunnel: tuple[bool, float | None] | None = None
        self._uploads: dict[int | None, tuple[bool, float | None]] = {}
        self._chunk: tuple[int, int | None] | None = None
        self._chunks_begun: set[int] = set()
        self._chunk_completed: bool | None = None

    def take(self, fragment: LogFragment, time: float | None, *, chunk: int | None = None) -> int | None:
        """Take the next fragment, and return the number of the chunk that it says the job is.

        Args:
            fragment: the line.
            time: when it was written, Unix seconds: its own stamp, else the best that the reader knows.
            chunk: the chunk whose log this is, as far as it said so.
        """
        text = fragment.text[:_SEARCHED_CHARACTERS]
        lowered = text.lower()
        if fragment.bar or not any(word in lowered for word in _TRIGGERS):
            return None
        if self._take_requests(text, fragment.actor, time) or self._take_answer(text, time):
            return None
        self._take_auth(text, time)
        self._take_api_base(text)
        self._take_tunnel(text, time)
        self._take_upload(text, time, chunk)
        return self._take_chunk(text)

    def _take_requests(self, text: str, actor: str, time: float | None) -> bool:
        found = _VLLM.search(text) or _SGLANG.match(text)
        if found is None:
            return False
        engine = f"{actor} {found[1] or ''}"
        if engine in self._running or len(self._running) < _MAX_ENGINES:
            self._running[engine] = (int(found[2]), time)
        return True

    def _take_answer(self, text: str, time: float | None) -> bool:
        found = _ACCESS.search(text)
        if found is None:
            return False
        if found[1] != "200":
            self._refusals += 1
            return True
        self._successes += 1
        if time is not None:
            self._last_success = max(time, self._last_success or time)
        return True

    def _take_auth(self, text: str, time: float | None) -> None:
        if _AUTH_CLASS.search(text) is None and not _is_providers_refusal(text):
            return
        if time is None:
            self._auth_failures_without_time += 1
        else:
            self._auth_failures.append(time)

    def _take_api_base(self, text: str) -> None:
        found = _API_BASE.search(text)
        host = _HOST.match(found[1]) if found is not None else None
        if host is not None:
            self._api_base_host = host[1]
            self._api_base_public = not is_internal(host[1])

    def _take_tunnel(self, text: str, time: float | None) -> None:
        if _TUNNEL.search(text) is None:
            return
        if _TUNNEL_BAD.search(text) is not None:
            self._tunnel = (False, time)
        elif _TUNNEL_AWAITED.search(text) is None and _TUNNEL_GOOD.search(text) is not None:
            self._tunnel = (_DENIED.search(text) is None, time)

    def _take_upload(self, text: str, time: float | None, chunk: int | None) -> None:
        text = _BEHIND_HOST.sub(r"\1", text)  # a repository may be called `error-recovery`
        if _NOT_UPLOADED.search(text) is not None:
            self._uploads[chunk] = (False, time)
        elif _UPLOADED.search(text) is not None:
            self._uploads[chunk] = (True, time)

    def _take_chunk(self, text: str) -> int | None:
        completed = generation_end(text)
        self._chunk_completed = self._chunk_completed if completed is None else completed
        chunk = _CHUNK.search(text)
        if chunk is None:
            return None
        index, total = chunk[1] or chunk[3], chunk[2] or chunk[4]
        self._chunk = (int(index), None if total == "?" else int(total))
        self._chunk_completed = None
        self._chunks_begun.add(int(index))
        return int(index)

    def signals(self) -> EngineSignals:
        """Return what was seen so far."""
        running, running_time = self._running_now()
        upload_complete, upload_time = self._upload_now()
        return EngineSignals(
            running_requests=running,
            running_time=running_time,
            last_success=self._last_success,
            successes=self._successes,
            refusals=self._refusals,
            auth_failures=tuple(self._auth_failures),
            auth_failures_without_time=self._auth_failures_without_time,
            api_base_public=self._api_base_public,
            api_base_host=self._api_base_host,
            tunnel=None if self._tunnel is None else self._tunnel[0],
            tunnel_time=None if self._tunnel is None else self._tunnel[1],
            upload_complete=upload_complete,
            upload_time=upload_time,
            chunk=None if self._chunk is None else self._chunk[0],
            chunks=None if self._chunk is None else self._chunk[1],
            chunk_completed=self._chunk_completed,
            uploaded_chunks=frozenset(self._uploaded_chunks()),
        )

    def _uploaded_chunks(self) -> set[int]:
        return {chunk for chunk, (complete, _) in self._uploads.items() if complete and chunk is not None}

    def _upload_now(self) -> tuple[bool | None, float | None]:
        """Each chunk uploads its own traces; what no chunk's log says is of the whole job."""
        if None in self._uploads or not self._uploads:
            return self._uploads.get(None, (None, None))
        failed = [time for complete, time in self._uploads.values() if not complete]
        if failed:
            return False, _latest(failed)
        total = self._chunk[1] if self._chunk is not None else None
        are_all_there = len(self._chunks_begun) <= 1 or total is None or len(self._chunks_begun) >= total
        if not are_all_there or not self._chunks_begun <= self._uploaded_chunks():
            return None, None
        return True, _latest([time for _, time in self._uploads.values()])

    def _running_now(self) -> tuple[int | None, float | None]:
        if not self._running:
            return None, None
        newest = max((time for _, time in self._running.values() if time is not None), default=None)
        counted = [
            count
            for count, time in self._running.values()
            if newest is None or (time is not None and newest - time <= _REPORT_SECONDS)
        ]
        return sum(counted), newest


def generation_end(text: str) -> bool | None:
    """Return whether the generation of a chunk's traces succeeded, where a line is the one that tells; else None."""
    if _CHUNK_DONE.search(text) is not None:
        return True
    return None if _CHUNK_FAILED.search(text) is None else False


def _is_providers_refusal(text: str) -> bool:
    # Of a URL the host tells who refused; what stands behind it may be anybody's word.
    return _REFUSAL.search(text) is not None and _PROVIDER.search(_BEHIND_HOST.sub(r"\1", text)) is not None


def _latest(times: list[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)


def is_internal(host: str) -> bool:
    """Tell whether only machines of the same site can reach a host: a sandbox elsewhere cannot.

    Names without a dot and names below `.internal`, `.local` and `.localhost` are internal too.
    """
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith((".internal", ".local", ".localhost"))
    return address.is_private or address.is_loopback or address.is_link_local or address.is_unspecified
