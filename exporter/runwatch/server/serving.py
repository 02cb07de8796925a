"""The server's process: takes whole bodies from the pollers' process and serves them until it hangs up."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from runwatch.server.app import Page, Published, make_app
from runwatch.server.authentication import WebAccess
from runwatch.server.guard import guarded_protocol, sweep
from runwatch.server.limits import Limits
from runwatch.server.messages import Channel, Message, MessageKind
from runwatch.server.web_config import WebConfigError

_TICKS_A_SECOND = 10  # uvicorn's own.
_RELOAD_ANSWER_SECONDS = 120.0
_GRACEFUL_SHUTDOWN_SECONDS = 2


class _Reloads:
    """Reload requests that wait for their answer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ids = itertools.count(1)
        self._waiting: dict[bytes, asyncio.Future[tuple[bool, str]]] = {}

    async def ask(self) -> tuple[bool, str]:
        """Ask the pollers' process and wait for its answer."""
        request = str(next(self._ids)).encode()
        answer: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        self._waiting[request] = answer
        try:
            self._channel.send(MessageKind.RELOAD, request)
            return await asyncio.wait_for(answer, _RELOAD_ANSWER_SECONDS)
        except TimeoutError:
            return False, f"no answer within {_RELOAD_ANSWER_SECONDS:.0f} s"
        except OSError:
            return False, "the exporter is shutting down"
        finally:
            self._waiting.pop(request, None)

    def answer(self, request: bytes, succeeded: bool, reason: str) -> None:
        """Hand an answer to the client that waits for it."""
        waiting = self._waiting.get(request)
        if waiting is not None and not waiting.done():
            waiting.set_result((succeeded, reason))


class _Server(uvicorn.Server):
    """uvicorn on inherited sockets, with our deadlines, ending when the pollers' process does."""

    running_loop: asyncio.AbstractEventLoop

    def __init__(self, config: uvicorn.Config, channel: Channel, access: WebAccess, limits: Limits) -> None:
        super().__init__(config)
        self._channel = channel
        self._access = access
        self._limits = limits
        self._parent = os.getppid()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave Ctrl-C and hang-ups to the pollers' process, which is in the same foreground group."""
        signal.signal(signal.SIGTERM, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and say so."""
        loop = self.running_loop = asyncio.get_running_loop()
        tls = self._access.tls
        protocol_class: Any = self.config.http_protocol_class
        make_protocol = functools.partial(
            protocol_class,
            config=self.config,
            server_state=self.server_state,
            app_state={},
            _loop=loop,
        )
        self.servers = [
            await loop.create_server(
                make_protocol,
                sock=listening,
                ssl=tls,
                ssl_handshake_timeout=self._limits.header_seconds if tls is not None else None,
                backlog=self.config.backlog,
            )
            for listening in sockets or []
        ]
        self.started = True
        self._channel.send(MessageKind.STARTED, b"http" if tls is None else b"https")

    async def on_tick(self, counter: int) -> bool:
        """Once a second: cut slow clients, take changed certificates, look whether the parent lives."""
        if counter % _TICKS_A_SECOND == 0:
            sweep(self.server_state.connections, time.monotonic())
            self._access.refresh()
            if os.getppid() != self._parent:  # A fork of the parent may hold its end of the channel open.
                self.should_exit = True
        return await super().on_tick(counter)


def serve(
    channel: Channel, sockets: Sequence[socket.socket], web_config: Path | None, lifecycle: bool, limits: Limits
) -> int:
    """Serve until the channel ends; returns the process's exit code."""
    try:
        access = WebAccess(web_config)
    except WebConfigError as error:
        channel.send(MessageKind.FAILED, f"web_config: {error}".encode("utf-8", "replace"))
        return 1
    published = Published()
    reloads = _Reloads(channel)
    app = make_app(published, access, reloads.ask if lifecycle else None)
    config = uvicorn.Config(
        app,
        http=guarded_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN_SECONDS,
    )
    server = _Server(config, channel, access, limits)
    threading.Thread(
        target=_take_messages, args=(channel, server, published, reloads), name="messages", daemon=True
    ).start()
    server.run(sockets=list(sockets))
    return 0


def _take_messages(channel: Channel, server: _Server, published: Published, reloads: _Reloads) -> None:
    try:
        while (message := channel.receive()) is not None:
            _take(message, server, published, reloads)
    finally:
        server.should_exit = True


def _take(message: Message, server: _Server, published: Published, reloads: _Reloads) -> None:
    match message.kind, message.parts:
        case MessageKind.METRICS, (plain, compressed):
            published.metrics = (plain, compressed)  # One reference: a request sees the old pair or the new one.
        case MessageKind.PAGE, (html,):
            published.page = Page.of(html)
        case MessageKind.READY, (flag,):
            published.ready = flag == b"1"
        case MessageKind.RELOADED, (request, succeeded, reason):
            server.running_loop.call_soon_threadsafe(
                reloads.answer, request, succeeded == b"1", reason.decode("utf-8", "replace")
            )
        case _:
            raise ValueError(f"unexpected message {message.kind.name} with {len(message.parts)} parts")
