"""The pollers' side of the server: starts its process, feeds it whole bodies, answers its reload requests."""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import runwatch
from runwatch.exposition import Body
from runwatch.server.limits import Limits
from runwatch.server.listening import Address, ServerStartError, bind
from runwatch.server.messages import Channel, Message, MessageKind

_logger = logging.getLogger("runwatch.server")

_SEND_SECONDS = 30
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_ENVIRONMENT = ("HOME", "LANG", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV")
_ENVIRONMENT_PREFIXES = ("LC_", "LD_", "PYTHON", "SSL_CERT_")


class ServerGoneError(RuntimeError):
    """The server's process ended, or takes nothing any more."""


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """How a reload of the config went; `reason` is one line for the client, without a secret."""

    ok: bool
    reason: str = ""


class ServerProcess:
    """The HTTP server as a process of its own. Its methods are safe from any thread, once it has started."""

    def __init__(
        self,
        on_reload: Callable[[], ReloadResult],
        on_exit: Callable[[int], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Prepare a server.

        Args:
            on_reload: Called in a thread of its own, one at a time, when a client asks for a reload.
            on_exit: Called in a thread of its own with the exit code when the process ends without being stopped.
            limits: What one client may take.
        """
        self._on_reload = on_reload
        self._on_exit = on_exit
        self._limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._listener: threading.Thread | None = None
        self._stopping = threading.Event()
        self._reloading = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The process's id, None before it was started."""
        return self._process.pid if self._process is not None else None

    def start(self, listen: str, web_config: Path | None, enable_lifecycle: bool) -> tuple[Address, ...]:
        """Start the process and wait until it accepts connections.

        Args:
            listen: `host:port`, `:port` or `[v6 address]:port`; port 0 takes a free one.
            web_config: The web configuration file, if there is one.
            enable_lifecycle: Whether POST /-/reload is allowed.

        Returns:
            Every address that is bound.

        Raises:
            ServerStartError: the address cannot be bound or the web configuration cannot be used; one line.
        """
        sockets = bind(listen)
        ours, theirs = socket.socketpair()
        # A server that takes nothing must not hold the pollers up.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
        bound = [listening.getsockname()[:2] for listening in sockets]
        settings = {
            "channel": theirs.fileno(),
            "listen": [listening.fileno() for listening in sockets],
            "web_config": str(web_config) if web_config is not None else None,
            "lifecycle": enable_lifecycle,
            "limits": asdict(self._limits),
        }
        self._channel = Channel(ours)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "runwatch.server", json.dumps(settings)],
                pass_fds=(theirs.fileno(), *(listening.fileno() for listening in sockets)),
                stdin=subprocess.DEVNULL,
                env=_environment(),
            )
        except OSError as error:
            self._channel.close()
            raise ServerStartError(f"cannot start the server's process: {error.strerror}") from error
        finally:
            for inherited in (theirs, *sockets):
                inherited.close()
        scheme = self._wait_until_started(self._process, self._channel)
        self._listener = threading.Thread(
            target=self._listen, args=(self._process, self._channel), name="server-messages", daemon=True
        )
        self._listener.start()
        return tuple(Address(scheme, host, port) for host, port in bound)

    def publish(self, metrics: Body) -> None:
        """Replace what /metrics answers.

        Raises:
            ServerGoneError: the process ended, or takes nothing any more.
        """
        self._send(MessageKind.METRICS, metrics.plain, metrics.gzip)

    def publish_page(self, html: bytes) -> None:
        """Replace what / answers (UTF-8; styles only in style blocks, which the content policy allows by hash).

        Raises:
            ServerGoneError: the process ended, or takes nothing any more.
        """
        self._send(MessageKind.PAGE, html)

    def set_ready(self, ready: bool) -> None:
        """Say whether /-/ready answers 200.

        Raises:
            ServerGoneError: the process ended, or takes nothing any more.
        """
        self._send(MessageKind.READY, b"1" if ready else b"0")

    def stop(self) -> None:
        """End the process; answers that are under way get two seconds. Does nothing when it is not running."""
        self._stopping.set()
        if self._channel is None or self._process is None:
            return
        self._channel.hang_up()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._listener is not None and self._listener is not threading.current_thread():
            self._listener.join(_STOP_SECONDS)
        self._channel.close()

    def _send(self, kind: MessageKind, *parts: bytes) -> None:
        if self._channel is None or self._process is None:
            raise ServerGoneError("the server was not started")
        try:
            self._channel.send(kind, *parts)
        except BlockingIOError as error:
            self._process.kill()  # Half a message is under way: nothing sent after it could be read.
            raise ServerGoneError(f"the server took nothing for {_SEND_SECONDS} s and was ended") from error
        except OSError as error:
            raise ServerGoneError("the server's process ended") from error

    def _wait_until_started(self, process: subprocess.Popen[bytes], channel: Channel) -> str:
        if not channel.wait(_START_SECONDS):
            process.kill()
        message = channel.receive()
        if message is not None and message.kind is MessageKind.STARTED:
            return message.parts[0].decode("ascii")
        exit_code = process.wait()
        channel.close()
        self._process = self._channel = None
        if message is not None and message.kind is MessageKind.FAILED:
            raise ServerStartError(message.parts[0].decode("utf-8", "replace"))
        raise ServerStartError(f"the server's process ended with exit code {exit_code} before it was up")

    def _listen(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        while (message := channel.receive()) is not None:
            # In a thread of its own, so that the server's end is noticed while a reload goes on.
            threading.Thread(target=self._answer_reload, args=(channel, message), name="reload", daemon=True).start()
        if self._stopping.is_set():
            return
        exit_code = process.wait()
        _logger.error("the server's process ended with exit code %d", exit_code)
        if self._on_exit is not None:
            self._on_exit(exit_code)

    def _answer_reload(self, channel: Channel, message: Message) -> None:
        if message.kind is not MessageKind.RELOAD:
            raise ValueError(f"unexpected message {message.kind.name} from the server")
        result = ReloadResult(False, "internal error, see the exporter's log")
        try:
            with self._reloading:
                result = self._on_reload()
        finally:
            self._tell_reloaded(channel, message.parts[0], result)

    @staticmethod
    def _tell_reloaded(channel: Channel, request: bytes, result: ReloadResult) -> None:
        flag = b"1" if result.ok else b"0"
        try:
            channel.send(MessageKind.RELOADED, request, flag, result.reason.encode("utf-8", "replace"))
        except OSError:
            _logger.error("the server ended before it could be told how a reload went")


def _environment() -> dict[str, str]:
    """Return what the server needs of the environment: none of the secrets that sources take from there."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    package_root = str(Path(runwatch.__file__).parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, kept.get("PYTHONPATH", ""))))
    return kept
