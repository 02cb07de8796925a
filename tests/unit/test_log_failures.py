"""How a job ended, from captures of torchrun and from lines of the programs that say so."""

from __future__ import annotations

import pytest

from runwatch.parsing.failures import FailureFinder, find_failures, most_telling
from tests.unit.log_fragments import capture, fragments_of


def reason_of(text: str) -> str | None:
    failure = most_telling(find_failures(fragments_of(text)))
    return failure.reason if failure is not None else None


def traceback(last: str, prefix: str = "") -> str:
    lines = ("Traceback (most recent call last):", '  File "train.py", line 5, in main', "    step()", last)
    return "".join(f"{prefix}{line}\n" for line in lines)


def bar(step: int, clock: str = "00:10") -> str:
    return f"\r {step}%|█▏        | {step}/100 [{clock}<00:30,  1.20it/s]\n"


def test_torchrun_with_an_exception_in_one_rank() -> None:
    failures = find_failures(capture("sft/el_exc.out"))
    assert [(f.reason, f.text) for f in failures] == [
        ("traceback", "RuntimeError: CUDA error: device-side assert triggered"),
        ("traceback", "Root Cause (first observed failure): rank 1, exit code 1"),
    ]  # rank 0, which was stopped by SIGTERM because of it, is none
    telling = most_telling(failures)
    assert telling is not None and telling.text == "RuntimeError: CUDA error: device-side assert triggered"


def test_torchrun_stopped_by_sigterm() -> None:
    failures = find_failures(capture("sft/el_term.out"))
    assert [f.reason for f in failures] == ["sigterm", "sigterm"]
    assert failures[1].text.endswith("SignalException: Process 10325 got signal: 15")


def test_a_failure_behind_which_a_new_start_trained_on_is_none() -> None:
    fragments = capture("sft/hf_trainer_tf4571_resumed.out")
    died = next(i for i, fragment in enumerate(fragments) if fragment.text.startswith("RuntimeError"))
    finder = FailureFinder()
    assert [f.reason for f in finder.feed(fragments[: died + 2])] == ["traceback"]
    assert len(finder.failures) == 1  # the dying process drew its bar once more
    assert finder.feed(fragments[died + 2 :]) == []
    assert finder.failures == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            traceback(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total", "[rank3]: "
            ),
            "cuda_out_of_memory",
        ),
        (
            traceback("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
            "cuda_out_of_memory",
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=14.1. Some of the step tasks were killed.\n",
            "out_of_memory",
        ),
        ("slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T17:31:14 DUE TO TIME LIMIT ***\n", "wall_time"),
        ("slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T17:31:14 DUE TO PREEMPTION ***\n", "preempted"),
        (
            "slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T17:31:14 "
            "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
            "node",
        ),
        ("slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T17:31:14 ***\n", "cancelled"),
        ("slurmstepd-vm: error: *** STEP 14.1 ON vm CANCELLED AT 2026-11-29T17:31:14 ***\n", None),
        ("srun: error: vm: tasks 0-1: Killed\n", "sigkill"),
        ("srun: error: vm: task 1: Exited with exit code 7\n", None),
        ("/var/spool/slurm/job00014/slurm_script: line 31: 10293 Killed                  python train.py\n", "sigkill"),
        ("(raylet) The raylet has died: it was killed\n", "node"),
        (traceback("ray.exceptions.ActorDiedError: The actor died because its node has died."), "node"),
        (
            traceback("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")
            + "(raylet) [2026-11-29 07:23:59,445 E 395 395] (raylet) node_manager.cc:3049: 2 Workers (tasks / actors) "
            "killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: e, IP: 10.0.0.2)",
            "out_of_memory",
        ),
        (
            traceback("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")
            + "(raylet) node_manager.cc:3049: 0 Workers (tasks / actors) killed due to memory pressure (OOM), "
            "2 Workers crashed due to other reasons at node (ID: e5, IP: 10.0.0.2) over the last time period.",
            "traceback",
        ),
        (
            "[rank0]:[E1129 17:45:07.123456789 ProcessGroupNCCL.cpp:630] [Rank 0] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds\n",
            "nccl",
        ),
        (traceback("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2395"), "nccl"),
        (traceback("TimeoutError: RPC call to sample_tokens timed out."), "rpc_timeout"),
        (traceback("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."), "rpc_timeout"),
        (traceback("KeyError: 'x'"), "traceback"),
        (
            traceback("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying"),
            "out_of_memory",
        ),
        (traceback("ValueError: bad", "ERROR 11-29 17:45:07 [core.py:700] "), "traceback"),
        ("all is well\n", None),
    ],
)
def test_lines_that_tell_a_reason(text: str, reason: str | None) -> None:
    assert reason_of(text) == reason


def test_of_a_sigkilled_root_cause_the_peers_complaints_are_consequences() -> None:
    text = (
        traceback("torch.distributed.DistBackendError: NCCL error: remote process exited", "[rank1]: ")
        + traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
        + "====\ntrain.py FAILED\n----\nFailures:\n[1]:\n  exitcode  : 1 (pid: 10292)\n----\n"
        + "Root Cause (first observed failure):\n[0]:\n  host      : localhost\n  rank      : 5 (local_rank: 1)\n"
        + "  exitcode  : -9 (pid: 10293) (SIGKILL)\n====\n"
    )
    telling = most_telling(find_failures(fragments_of(text)))
    assert telling is not None
    assert (telling.reason, telling.text) == ("sigkill", "Root Cause (first observed failure): rank 5, exit code -9")


def test_the_time_limit_is_the_reason_though_the_processes_complain() -> None:
    text = (
        traceback("torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15")
        + traceback("RuntimeError: DataLoader worker (pid 7) exited unexpectedly")
        + "slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T17:31:14 DUE TO TIME LIMIT ***\n"
    )
    assert reason_of(text) == "wall_time"


def test_the_first_traceback_counts_and_not_what_follows_from_it() -> None:
    text = traceback("ValueError: bad shape", "[rank2]: ") + traceback(
        "torch.distributed.DistBackendError: NCCL error", "[rank0]: "
    )
    telling = most_telling(find_failures(fragments_of(text)))
    assert telling is not None and telling.text == "ValueError: bad shape"


def test_two_ranks_that_print_at_once_are_kept_apart() -> None:
    text = "".join(
        f"[rank0]: {a}\n[rank1]: {b}\n"
        for a, b in zip(traceback("ValueError: a").splitlines(), traceback("KeyError: 'b'").splitlines(), strict=True)
    )
    assert [f.text for f in find_failures(fragments_of(text))] == ["ValueError: a", "KeyError: 'b'"]


@pytest.mark.parametrize(
    "name", ["AgentTimeoutError", "ContextLengthExceededError", "OutputLengthExceededError", "RewardFileNotFoundError"]
)
def test_a_trials_exception_is_no_failure(name: str) -> None:
    text = "Trial failed, which is no end:\n" + traceback(f"harbor.trial.errors.{name}: after 900 s")
    assert reason_of(text) is None


def test_the_exception_within_rays_wrapper_is_the_telling_one() -> None:
    text = (
        traceback("ray.exceptions.RayTaskError(ValueError): ray::skyrl_entrypoint() (pid=7, ip=10.0.0.2)")
        + '  File "main.py", line 9, in run\n    go()\nValueError: bad batch\n'
    )
    assert [f.text for f in find_failures(fragments_of(text))] == ["ValueError: bad batch"]


def test_training_that_goes_on_clears_a_caught_traceback() -> None:
    caught = bar(10) + traceback("ValueError: caught")
    assert reason_of(caught + bar(11)) == "traceback"  # a dying process may draw a count not shown before
    assert reason_of(caught + bar(11) + bar(12)) is None
    assert reason_of(caught + bar(2, "00:00")) is None  # a new start


def test_an_old_traceback_behind_which_the_log_went_on_for_long_is_survived() -> None:
    text = traceback("ValueError: caught") + "another trial began\n" * 21_000
    assert reason_of(text) is None
    assert reason_of(text + traceback("KeyError: 'x'")) == "traceback"


def test_a_text_that_quotes_a_failure_is_none() -> None:
    text = (
        "the user asked what 'CUDA out of memory. Tried to allocate' means\n"
        "grep: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "it printed: slurmstepd-vm: error: *** JOB 1 ON vm CANCELLED AT 2026-11-29T17:31:14 DUE TO TIME LIMIT ***\n"
        "(VLLMWorker pid=7) No available shared memory broadcast block found in 60 second.\n"
    )
    assert find_failures(fragments_of(text)) == []


def test_secrets_are_not_shown_and_long_texts_are_cut() -> None:
    secrets = ("hf_" + "abcdefghijklmnop" * 2, "sk-" + "abcdefghijklmnop" * 2, "Bearer " + "abcdefghijklmnop" * 2)
    text = traceback("ValueError: " + " ".join(secrets) + " api_key=abcdefghij123 " + "x" * 2000)
    (failure,) = find_failures(fragments_of(text))
    assert "abcdefghij" not in failure.text
    assert failure.text.startswith("ValueError: ***")
    assert len(failure.text) == 500


def test_however_many_failures_there_are_few_are_kept() -> None:
    finder = FailureFinder()
    finder.feed(fragments_of("".join(traceback(f"ValueError: {n}") for n in range(500))))
    assert len(finder.failures) == 40
    assert finder.failures[0].text == "ValueError: 0"
    assert finder.failures[-1].text == "ValueError: 499"
