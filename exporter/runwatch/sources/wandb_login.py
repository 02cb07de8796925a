"""The key that W&B is asked with: found, tried once by a request of ours, then given to the real client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import wandb

from runwatch.config.model import WandbSettings
from runwatch.facts import Failure, FailureReason
from runwatch.sources.wandb_budget import Backoff
from runwatch.sources.wandb_client import Answer, WandbClient, stored_key
from runwatch.sources.wandb_requests import VIEWER_DOCUMENT, GraphqlClient, Refusal

CLIENT_LOGIN_SECONDS = 10.0
TRIAL_SECONDS = 10.0


class WandbLogin:
    """Finds the key, logs in through the client, and keeps both for later.

    A request of ours goes first: the client hides status codes and `Retry-After`, and each of its failures adds to
    its log. So it is only started against a server that just answered. Where it fails even so, polls go on with the
    key that this request proved, and the client is tried again later.

    Args:
        settings: Where the key is.
        graphql: Connections to the same server.
        clock: Unix seconds.
        send: Called before each request of ours; returns a `Failure` when it may not go out.
    """

    def __init__(
        self,
        settings: WandbSettings,
        graphql: GraphqlClient,
        clock: Callable[[], float],
        send: Callable[[], Failure | None],
    ) -> None:
        self._settings, self._graphql, self._send = settings, graphql, send
        self.client = WandbClient(settings.base_url)
        self._client_backoff = Backoff(clock)
        self._key: str | None = None
        self._proven = False
        self._logged_in = False

    def key(self, seconds: float, *, fresh: bool = False) -> str | Refusal:
        """The key, tried against the server.

        Args:
            seconds: How long finding out may take.
            fresh: Try it again if the server failed since.
        """
        until = time.monotonic() + seconds
        if self._key is None:
            found = self._configured_key()
            if isinstance(found, Failure):
                return Refusal(found)
            refused = self._try(found, until - time.monotonic())
            if refused is not None:
                return refused
            self._key, self._proven = found, True
        elif fresh and not self._proven:
            refused = self._try(self._key, until - time.monotonic())
            if refused is not None:
                return refused
            self._proven = True
        if not self._logged_in:
            self._log_in(self._key, until)
        return self._key

    def doubt(self, failure: Failure) -> None:
        """Note that the server failed: it is tried before the client is used again, and so is a key that it refused.

        A refused key is read anew: it may have been changed.
        """
        self._proven = False
        if failure.reason is FailureReason.AUTH:
            self._key = None

    def call(self, key: str, work: Callable[[wandb.Api], Answer], seconds: float) -> Answer | Failure:
        """Do something with the real client (see `WandbClient.call`), unless it failed a moment ago."""
        early = self._client_backoff.now()
        if early is not None:
            return early
        answer = self.client.call(key, work, seconds)
        if not isinstance(answer, Failure):
            self._client_backoff.succeeded()
            return answer
        # A dead core was noticed, and costs nothing to start anew; a project that is not there says nothing about the
        # next one; a server that failed is left alone for a while.
        if not (self.client.died or answer.is_answer):
            self._client_backoff.failed(answer)
        self.doubt(answer)
        return answer

    def close(self) -> None:
        """End the client."""
        self.client.close()

    def _configured_key(self) -> str | Failure:
        file = self._settings.api_key_file
        if file is not None:
            try:
                text = file.read_text(encoding="utf-8").strip()
            except OSError as error:
                return Failure(FailureReason.AUTH, f"cannot read wandb.api_key_file: {error.strerror}")
            except UnicodeDecodeError:
                return Failure(FailureReason.AUTH, "wandb.api_key_file is not UTF-8")
            return text or Failure(FailureReason.AUTH, "wandb.api_key_file is empty")
        text = os.environ.get(self._settings.api_key_env, "").strip()
        found = text or stored_key(self._settings.base_url)
        if found:
            return found
        variable = self._settings.api_key_env
        return Failure(
            FailureReason.AUTH, f"no W&B key: set {variable} or wandb.api_key_file, or log in with `wandb login`"
        )

    def _try(self, key: str, seconds: float) -> Refusal | None:
        spent = self._send()
        if spent is not None:
            return Refusal(spent)
        answer = self._graphql.execute(VIEWER_DOCUMENT, {}, key, min(seconds, TRIAL_SECONDS))
        if isinstance(answer, Refusal):
            return answer
        if not isinstance(answer.data.get("viewer"), dict):
            return Refusal(Failure(FailureReason.AUTH, "W&B does not know the key"))
        return None

    def _log_in(self, key: str, until: float) -> None:
        if self._client_backoff.now() is not None:
            return
        seconds = min(CLIENT_LOGIN_SECONDS, until - time.monotonic())
        spent = self._send()
        if spent is not None:
            return
        answer = self.client.call(key, lambda api: api.api_key, seconds)
        if isinstance(answer, Failure):
            self._client_backoff.failed(answer)
            return
        self._logged_in = True
        self._client_backoff.succeeded()
