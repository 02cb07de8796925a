"""The real `wandb` client, kept on a short lead: one `Api`, in a thread, with its files in a folder of our own.

Since 0.27 the client speaks through a child process (wandb-core) that retries for up to 16 minutes, hides status codes
and writes logs. So every call has a deadline, retries are switched off, and a core that died is started anew.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import wandb
from wandb.sdk.lib.service.service_connection import WandbApiFailedError
from wandb.sdk.lib.wbauth import AuthApiKey, authenticate_session
from wandb.sdk.mailbox import MailboxClosedError

from runwatch.facts import Failure, FailureReason
from runwatch.sources.wandb_requests import status_reason

Answer = TypeVar("Answer")

CALL_SECONDS = 10
"""What the client itself may wait for one answer of wandb-core."""

_ENVIRONMENT_LOCK = threading.Lock()


def _settings(folder: Path) -> dict[str, str]:
    return {
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_DATA_DIR": str(folder / "data"),
        # The client makes a folder here for every run that it lists.
        "WANDB_DIR": str(folder / "runs"),
        "WANDB_HTTP_TIMEOUT": str(CALL_SECONDS),
        # 0 does not mean "no retry": every failure then hangs until the time-out.
        "WANDB__GRAPHQL_RETRY_MAX": "1",
        "WANDB__GRAPHQL_RETRY_WAIT_MIN_SECONDS": "0.2",
        "WANDB__GRAPHQL_RETRY_WAIT_MAX_SECONDS": "1",
    }


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Set the client's variables for as long as it reads them, and put back what was there."""
    with _ENVIRONMENT_LOCK:
        wanted = _settings(folder)
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def stored_key(base_url: str) -> str | None:
    """The key that `wandb login` stored (settings, netrc), read without network and without asking anyone."""
    try:
        found = authenticate_session(
            host=base_url, source="runwatch", no_offline=True, prompt=False, update_session=False
        )
    except (wandb.Error, OSError, ValueError):
        return None
    return found.api_key if isinstance(found, AuthApiKey) else None


class WandbClient:
    """One `wandb.Api` for this process. Calls are made one at a time in a thread of its own."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._folder = Path(tempfile.mkdtemp(prefix="runwatch-wandb-"))
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wandb-client")
        self._running: Future[Any] | None = None
        self._api: wandb.Api | None = None
        self._died = False
        self._used = False

    @property
    def folder(self) -> Path:
        """Where the client's caches and logs are."""
        return self._folder

    @property
    def died(self) -> bool:
        """Whether wandb-core was found dead and has not been started anew yet."""
        return self._died

    def call(self, key: str, work: Callable[[wandb.Api], Answer], seconds: float) -> Answer | Failure:
        """Do something with the `Api`, which is made first where there is none.

        Args:
            key: The API key.
            work: What to do; it may raise whatever the client raises.
            seconds: How long to wait. Work that goes on beyond that is left to end, and until then each call is a
                `Failure`.
        """
        if self._running is not None and not self._running.done():
            return Failure(FailureReason.TIMEOUT, "the wandb client still waits for an earlier call")
        running = self._threads.submit(self._work, key, work)
        self._running = running
        try:
            error = running.exception(timeout=max(0.0, seconds))
        except FutureTimeoutError:
            return Failure(FailureReason.TIMEOUT, f"no answer from the wandb client within {seconds:.0f} s")
        if error is None:
            return running.result()
        if not isinstance(error, Exception):
            raise error
        if _core_is_gone(error):
            self._died = True
            return Failure(FailureReason.OTHER, "the wandb client's process (wandb-core) died; it is started anew")
        return client_failure(error)

    def _work(self, key: str, work: Callable[[wandb.Api], Answer]) -> Answer:
        with _environment(self._folder):
            if self._died:
                self._bury()
            if self._api is None or self._api.api_key != key:
                self._used = True
                self._api = wandb.Api(overrides={"base_url": self._base_url}, api_key=key, timeout=CALL_SECONDS)
            # The client keeps every listing for ever otherwise, and never asks again.
            self._api.flush()  # type: ignore[no-untyped-call]
            try:
                return work(self._api)
            finally:
                self._api.flush()  # type: ignore[no-untyped-call]
                shutil.rmtree(self._folder / "runs", ignore_errors=True)

    def _bury(self) -> None:
        """Drop everything that points to a dead core, so that the next `Api` starts a new one."""
        self._api = None
        try:
            wandb.teardown()
        except (OSError, MailboxClosedError, wandb.Error):
            # It says once that the connection is lost, which is known; it has cleaned up all the same.
            self._died = False
        self._died = False
        shutil.rmtree(self._folder / "cache", ignore_errors=True)

    def close(self) -> None:
        """End wandb-core and remove its files."""
        self._threads.shutdown(wait=self._running is None or self._running.done(), cancel_futures=True)
        if self._used:
            self._bury()
        shutil.rmtree(self._folder, ignore_errors=True)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _core_is_gone(error: BaseException) -> bool:
    return any(isinstance(link, MailboxClosedError | ConnectionError) for link in _chain(error))


def client_failure(error: BaseException) -> Failure:
    """What an error of the client means: it hides most status codes in its text."""
    text = " ".join(str(error).split())
    for link in _chain(error):
        response = link.response if isinstance(link, WandbApiFailedError) else None
        if response is not None and response.http_status:
            reason = status_reason(response.http_status)
            return Failure(reason, f"the wandb client got HTTP {response.http_status}")
    for status in (401, 403, 404, 408, 429, 500, 502, 503, 504):
        if f"HTTP {status}" in text:
            return Failure(status_reason(status), f"the wandb client got HTTP {status}")
    if any(isinstance(link, TimeoutError) for link in _chain(error)) or "timed out" in text or "deadline" in text:
        return Failure(FailureReason.TIMEOUT, "the wandb client got no answer in time")
    if "Could not find" in text or "not found" in text:
        return Failure(FailureReason.NOT_FOUND, "the wandb client found nothing there")
    if "dial tcp" in text or "connection" in text:
        return Failure(FailureReason.NETWORK, "the wandb client cannot reach W&B")
    if "invalid character" in text:
        return Failure(FailureReason.PARSE, "the wandb client got an answer that is not JSON")
    if isinstance(error, wandb.errors.AuthenticationError | wandb.errors.UsageError):
        return Failure(FailureReason.AUTH, "the wandb client could not log in")
    return Failure(FailureReason.OTHER, f"the wandb client failed: {type(error).__name__}")
