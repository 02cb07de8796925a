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
    routed = signals(
        ('INFO:     172.18.0.3:48374 - "POST /v1/messages?beta=true HTTP/1.1" 200 OK', 50.0),
        ('INFO:     172.18.0.3:48374 - "POST /engine-0/v1/chat/completions HTTP/1.1" 200 OK', 60.0),
        ('INFO:     172.18.0.3:48374 - "POST /v1/count_messages HTTP/1.1" 200 OK', 70.0),
    )
    assert (routed.last_success, routed.successes) == (60.0, 2)


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
    "text",
    [
        "401 Client Error: Unauthorized for url: https://huggingface.co/google/gemma-3n-E2B-it/resolve/main/config.json",
        "huggingface_hub.errors.GatedRepoError: 401 Unauthorized: access to model google/gemma-3n-E2B-it is restricted",
        "401 Client Error: Unauthorized for url: https://huggingface.co/api/datasets/org/daytona-traces/commit/main",
        "401 Client Error: Unauthorized for url: https://huggingface.co/datasets/org/sandboxes",
        "ERROR multi-modal processor: HTTP 401 Unauthorized",
    ],
)
def test_another_services_refusal_that_only_looks_like_the_providers(text: str) -> None:
    assert signals((text, 10.0)).auth_failures == ()


@pytest.mark.parametrize(
    "text",
    [
        'HTTP Request: POST https://app.daytona.io/api/workspace "HTTP/1.1 401 Unauthorized"',
        "HTTP Request: POST https://api.e2b.app/v2/boxes HTTP/1.1 403 Forbidden",
        "E2B: authentication failed",
        "modal-client: invalid token",
        'POST /sandboxes "HTTP/1.1 401 Unauthorized"',
    ],
)
def test_the_providers_own_refusals_by_name_and_by_host(text: str) -> None:
    assert signals((text, 10.0)).auth_failures == (10.0,)


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


@pytest.mark.parametrize(
    ("text", "up"),
    [
        ("Setting up SSH tunnel to u@h", None),
        ("Waiting for pinggy tunnel to become ready...", None),
        ("tunnel: retrying until it is up", None),
        ("tunnel did not become ready within 60 s", False),
        ("Tunnel is not connected", False),
        ("cloudflared tunnel never came up", False),
        ("tunnel is up", True),
        ("ngrok tunnel established", True),
    ],
)
def test_a_tunnel_that_is_waited_for_is_not_up(text: str, up: bool | None) -> None:
    assert signals(text).tunnel is up


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("Upload complete: 300 rows, 0 failed", True),
        ("Upload finished successfully, no error", True),
        ("Upload finished: 290 rows, 10 failed", False),
        ("No traces uploaded", False),
        ("0 traces uploaded", False),
        ("10 traces uploaded", True),
        ("[upload] HuggingFace upload complete: https://huggingface.co/datasets/org/error-recovery-traces", True),
        ("[upload] HuggingFace upload failed: https://huggingface.co/api/repos/create: 403", False),
        ("[upload] No HF token provided (set HF_TOKEN env var); skipping HF upload.", False),
    ],
)
def test_counts_beside_an_upload(text: str, complete: bool) -> None:
    assert signals(text).upload_complete is complete


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


UPLOADED = "Successfully uploaded dataset to: https://huggingface.co/datasets/a/b"


def chunked(*lines: tuple[int | None, str, float]) -> EngineSignals:
    engine = EngineLines()
    for chunk, text, time in lines:
        engine.take(LogFragment(text), time, chunk=chunk)
    return engine.signals()


def test_an_upload_of_one_chunk_is_none_of_the_whole_job() -> None:
    begun = [(None, "Chunk Index: 0 / 3", 1.0), (None, "Chunk Index: 1 / 3", 1.0)]
    first = chunked(*begun, (0, UPLOADED, 5.0))
    assert (first.upload_complete, first.upload_time, first.uploaded_chunks) == (None, None, {0})
    # Both that began are uploaded, and chunk 2 did not begin yet.
    both = [*begun, (1, UPLOADED, 9.0), (0, UPLOADED, 5.0)]
    assert chunked(*both).upload_complete is None
    whole = chunked(*both, (None, "Chunk Index: 2 / 3", 6.0), (2, UPLOADED, 7.0))
    assert (whole.upload_complete, whole.upload_time, whole.uploaded_chunks) == (True, 9.0, {0, 1, 2})
    failed = chunked(*both, (None, "Chunk Index: 2 / 3", 6.0), (2, "Upload failed.", 7.0))
    assert (failed.upload_complete, failed.upload_time, failed.uploaded_chunks) == (False, 7.0, {0, 1})
    # One chunk's log alone: nothing shows that the job is more than this chunk.
    alone = chunked((None, "Chunk Index: 1 / 3", 1.0), (1, "Upload failed.", 7.0), (1, UPLOADED, 8.0))
    assert (alone.upload_complete, alone.upload_time) == (True, 8.0)
    # What no chunk's log says is of the whole job.
    assert chunked(*begun, (0, "Upload failed.", 5.0), (None, UPLOADED, 9.0)).upload_complete is True


@given(
    st.lists(
        st.text(max_size=80) | st.sampled_from(["api_base=http://", "tunnel", '"POST /v1/completions HTTP/1.1" 2'])
    )
)
def test_no_text_raises(lines: list[str]) -> None:
    assert isinstance(signals(*lines), EngineSignals)
