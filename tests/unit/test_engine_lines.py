"""Signals of the engine and of what stands around it, in lines as vLLM, SGLang and launch scripts print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.parsing.engine_lines import EngineLines, EngineSignals, is_internal
from runwatch.parsing.log_records import LogFragment


def signals(*lines: tuple[str, float | None] | str) -> EngineSignals:
    engine = EngineLines()
    for line in lines:
        text, time = (line, None) if isinstance(line, str) else line
        engine.take(LogFragment(text), time)
    return engine.signals()


def vllm(engine: int, running: int) -> str:
    return (
        f"INFO 11-29 07:49:31 [loggers.py:271] Engine {engine:03}: Avg prompt throughput: 1.2 tokens/s, "
        f"Avg generation throughput: 9.0 tokens/s, Running: {running} reqs, Waiting: 7 reqs, GPU KV cache usage: 0.0%"
    )


def test_nothing_seen_is_none_and_not_zero() -> None:
    seen = signals("2026-11-29 17:45:07 hello", "step 3 of 4")
    assert (seen.running_requests, seen.last_success, seen.tunnel, seen.api_base_public) == (None, None, None, None)
    assert (seen.upload_complete, seen.chunk, seen.auth_failures) == (None, None, ())


def test_running_requests_are_the_newest_of_each_engine_together() -> None:
    seen = signals((vllm(0, 5), 100.0), (vllm(1, 3), 101.0), (vllm(0, 0), 110.0), (vllm(1, 4), 111.0))
    assert (seen.running_requests, seen.running_time) == (4, 111.0)
    silent = signals((vllm(0, 5), 100.0), (vllm(1, 3), 701.0))
    assert silent.running_requests == 3  # engine 0 said nothing for over 10 min
    old = signals("INFO 12-12 20:00:59 llm_engine.py:649] Avg prompt throughput: 0.0 tokens/s, Avg generation "
                  "throughput: 0.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs")  # fmt: skip
    assert old.running_requests == 1
    sglang = signals(
        "[2026-05-20 08:02:44 DP0 TP0] Decode batch, #running-req: 4, #token: 477376, token usage: 0.90",
        "[2026-05-20 08:02:44 DP1 TP0] Decode batch, #running-req: 6, #token: 477376, token usage: 0.90",
    )
    assert sglang.running_requests == 10


def test_only_answers_200_are_successes() -> None:
    seen = signals(
        ('INFO:     172.18.0.3:48374 - "POST /v1/chat/completions HTTP/1.1" 200 OK', 50.0),
        ('INFO:     172.18.0.3:48374 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error', 60.0),
        ('INFO:     172.18.0.3:48374 - "GET /v1/models HTTP/1.1" 200 OK', 70.0),
        ('INFO:     172.18.0.3:48374 - "POST /v1/completions HTTP/1.1" 200 OK', 40.0),
    )
    assert (seen.last_success, seen.successes, seen.refusals) == (50.0, 2, 1)


def test_refusals_of_the_sandbox_provider_with_their_times() -> None:
    seen = signals(
        ("daytona.common.errors.DaytonaAuthenticationError: Unauthorized", 10.0),
        ("Failed to create sandbox: HTTP 401 Unauthorized", 20.0),
        "modal.exception.AuthError: sandbox: invalid token",
        ("openai.AuthenticationError: Error code: 401 - invalid api key", 30.0),  # the engine's, not the provider's
        ("sandbox created in 401 ms", 40.0),
        ("daytona sandbox ready, token refreshed", 50.0),
    )
    assert seen.auth_failures == (10.0, 20.0)
    assert seen.auth_failures_without_time == 1


@pytest.mark.parametrize(
    ("text", "host", "public"),
    [
        ("[compute] API base: http://10.1.2.3:8000/v1", "10.1.2.3", False),
        ("--agent-kwarg api_base=http://localhost:8000/v1", "localhost", False),
        ("{'api_base': 'https://abc.a.pinggy.link/v1', 'key': 'x'}", "abc.a.pinggy.link", True),
        ("api_base=http://172.31.0.9/v1", "172.31.0.9", False),
        ("api_base=http://172.32.0.9/v1", "172.32.0.9", True),
        ("api_base=http://[fd00::1]:80/v1", "[fd00::1]", False),
        ("api_base: http://vllm.c.proj.internal:8000", "vllm.c.proj.internal", False),
        ("api_base=https://8.8.8.8/v1", "8.8.8.8", True),
    ],
)
def test_api_base(text: str, host: str, public: bool) -> None:
    seen = signals(text)
    assert (seen.api_base_host, seen.api_base_public) == (host, public)
    assert is_internal(host) is not public


def test_the_newest_line_about_the_tunnel_counts() -> None:
    assert signals("[INFO] Docker tunnel OK.").tunnel is True
    assert signals("[INFO] Starting SSH tunnel to u@h").tunnel is None
    assert signals("[INFO] Docker tunnel OK.", "Pinggy health check failed for https://x: 502").tunnel is False
    assert signals("Pinggy restart failed: boom", "Pinggy tunnel restart succeeded").tunnel is True


def test_uploads_and_chunks() -> None:
    assert signals("Uploading traces...").upload_complete is None
    done = signals(
        "Uploading traces...", ("Successfully uploaded dataset to: https://huggingface.co/datasets/a/b", 7.0)
    )
    assert (done.upload_complete, done.upload_time) == (True, 7.0)
    assert signals("✗ Error uploading to Hugging Face: 403", "Upload failed.").upload_complete is False
    assert signals("Traces uploaded to: mlfoundations-dev/x").upload_complete is True
    assert signals("Skipping upload. Dataset available at: /x").upload_complete is False
    chunk = signals("Chunk Index: 3 / 20", "✓ Trace generation completed successfully")
    assert (chunk.chunk, chunk.chunks, chunk.chunk_completed) == (3, 20, True)
    env = signals("Loading chunk env: /w/configs/trace/chunk_envs/chunk_003.env (array task 3/?)",
                  "✗ Trace generation failed with exit code: 2")  # fmt: skip
    assert (env.chunk, env.chunks, env.chunk_completed) == (3, None, False)


@given(
    st.lists(
        st.text(max_size=80) | st.sampled_from(["api_base=http://", "tunnel", '"POST /v1/completions HTTP/1.1" 2'])
    )
)
def test_no_text_raises(lines: list[str]) -> None:
    assert isinstance(signals(*lines), EngineSignals)
