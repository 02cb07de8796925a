"""What one line of a log says of how a job ended.

Sources: torch's elastic agent and NCCL watchdog, Ray, vLLM, `slurmstepd` and `srun`, the kernel. Patterns are anchored
at the line's start behind a logger's prefix, so that text which quotes such a line is none.
"""

from __future__ import annotations

import re

_ALLOCATOR = re.compile(
    r"(?:[\w.]{1,120}\.)?(?:OutOfMemoryError|RuntimeError|AcceleratorError): CUDA (?:error: )?out of memory"
)
_RAY_MEMORY = re.compile(
    r"(?:ray\.exceptions\.)?OutOfMemoryError: .{0,40}(?:Task|Worker|actor)|"
    r".{0,200}killed due to the node running low on memory|"
    r".{0,200}?\b[1-9]\d{0,6} Workers \(tasks / actors\) killed due to memory pressure",
    re.IGNORECASE,
)
_XLA_MEMORY = re.compile(r"(?:[\w.]{1,120}\.)?(?:XlaRuntimeError|JaxRuntimeError|ValueError): RESOURCE_EXHAUSTED")
_KERNEL_MEMORY = re.compile(r"(?:\[[ \d.]{1,20}\] )?(?:Out of memory: Kill(?:ed)? process|Memory cgroup out of memory)")
_SLURM_MEMORY = re.compile(r"slurmstepd[\w.-]{0,120}: error: .{0,40}(?:oom[_-]kill|Exceeded (?:job|step) memory limit)")
_SLURM_CANCELLED = re.compile(
    r"slurmstepd[\w.-]{0,120}: error: \*{3} JOB \S{1,40} ON \S{1,200} CANCELLED AT \S{1,40}"
    r"(?: DUE TO ([A-Z ]{1,40})(?:, SEE [A-Z ]{1,60})?)? \*{3}"
)
_SRUN_KILLED = re.compile(r"srun: error: \S{1,200}: tasks? [\d,-]{1,60}: (Killed|Terminated|Out Of Memory)")
_NODE = re.compile(
    r"(?:\S{0,120}\s)?(?:The raylet (?:has )?died|Raylet (?:is terminated|died)|Local raylet died)|"
    r"(?:ray\.exceptions\.)?NodeDiedError|"
    r"(?:The )?node with node id: \S{1,80} and address: \S{1,80}.{0,80} has been marked dead|"
    r"(?:ray\.exceptions\.)?(?:ActorDiedError|RayActorError|WorkerCrashedError): .{0,300}"
    r"(?:node (?:has )?died|node was)",
    re.IGNORECASE,
)
_WATCHDOG = re.compile(
    r".{0,200}(?:Watchdog caught collective operation timeout: WorkNCCL\(|preparing to dump debug info"
    r"|To avoid data inconsistency, we are taking the entire process down)"
)
_NCCL = re.compile(r"(?:[\w.]{1,120}\.)?(?:DistBackendError|RuntimeError|DistStoreError): .{0,80}NCCL")
_RPC = re.compile(
    r"(?:[\w.]{1,120}\.)?(?:TimeoutError|RuntimeError|Exception|\w{0,60}RpcError|_InactiveRpcError): .{0,120}"
    r"(?:RPC call to .{1,80} timed out|sampl\w{0,10} .{0,60}timed out|rpc .{0,60}time(?:d )?-?out|DEADLINE_EXCEEDED)|"
    r"(?:ray\.exceptions\.)?GetTimeoutError\b",
    re.IGNORECASE,
)
_SHELL_KILLED = re.compile(r"\S{1,400}: line \d{1,6}: {1,4}\d{1,10} (?:Killed|Terminated)\b")
_SIGNAL_RECEIVED = re.compile(
    r"(?:[WEI]\d{4} .{0,200}\] )?Received (\d{1,2}|SIGTERM|SIGKILL) death signal, shutting down workers"
)
_SIGNAL_EXCEPTION = re.compile(r"(?:[\w.]{1,120}\.)?SignalException: Process \d{1,10} got signal: (\d{1,2})")
_CANCELLED_WORDS = {"TIME LIMIT": "wall_time", "PREEMPTION": "preempted", "NODE FAILURE": "node"}
_SIGNALS = {"9": "sigkill", "15": "sigterm", "SIGTERM": "sigterm", "SIGKILL": "sigkill"}
_EXCEPTION = re.compile(
    r"((?:[A-Za-z_]\w{0,80}\.){0,12})([A-Z]\w{1,100})(?:\(\w{1,100}\))?(?:: .*|:)?", re.ASCII | re.DOTALL
)
_LOOKS_RAISED = re.compile(
    r".*(?:Error|Exception|Exit|Interrupt|Timeout|Warning|Failure|Fault|Abort|Exceeded|NotFound|Unavailable|Empty|Full)"
)
_WRAPPERS = frozenset({"RayTaskError"})
"""Raised with another process's traceback behind them, whose own last line tells more."""
_NOT_FAILURES = frozenset({"SystemExit", "GeneratorExit", "StopIteration", "ChildFailedError"})

_SIMPLE = (
    (_ALLOCATOR, "cuda_out_of_memory"),
    (_RAY_MEMORY, "out_of_memory"),
    (_XLA_MEMORY, "out_of_memory"),
    (_KERNEL_MEMORY, "out_of_memory"),
    (_SLURM_MEMORY, "out_of_memory"),
    (_NODE, "node"),
    (_WATCHDOG, "nccl"),
    (_NCCL, "nccl"),
    (_RPC, "rpc_timeout"),
)
_HINTS = (
    *(
        "memory",
        "oom",
        "RESOURCE_EXHAUSTED",
        "aylet",
        "node",
        "NodeDied",
        "NCCL",
        "dump debug info",
        "taking the entire",
    ),
    *("imed out", "imeout", "DEADLINE", "slurmstepd", "srun: error", "signal", "Killed"),
)
"""One of these is in every line that a pattern can match: to look for them is much cheaper."""

BENIGN_EXCEPTIONS = frozenset(
    {
        "AgentTimeoutError",
        "ContextLengthExceededError",
        "OutputLengthExceededError",
        "ContextWindowExceededError",
        "OutputTokenExceededError",
        "NonZeroAgentExitCodeError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
        "VerifierTimeoutError",
        "RewardFileNotFoundError",
        "RewardFileEmptyError",
        "VerifierOutputParseError",
        "EnvironmentStartTimeoutError",
        "EnvironmentBuildTimeoutError",
        "AgentSetupTimeoutError",
        "SandboxBuildFailedError",
        "HealthcheckError",
        "AddTestsDirError",
        "DownloadVerifierDirError",
    }
)
"""Harbor's exceptions of one trial: printed with their traceback while the job goes on."""


def line_reason(text: str) -> str | None:
    """Return the reason that a line gives by itself, a word of `mljob_end_reason`, or None."""
    if not any(hint in text for hint in _HINTS):
        return None
    cancelled = _SLURM_CANCELLED.match(text)
    if cancelled is not None:
        return _CANCELLED_WORDS.get(cancelled[1] or "", "cancelled")
    killed = _SRUN_KILLED.match(text)
    if killed is not None:
        return {"Killed": "sigkill", "Terminated": "sigterm"}.get(killed[1], "out_of_memory")
    if _SHELL_KILLED.match(text):
        return "sigkill" if " Killed" in text else "sigterm"
    signal = _SIGNAL_RECEIVED.match(text) or _SIGNAL_EXCEPTION.match(text)
    if signal is not None:
        return _SIGNALS.get(signal[1])
    return next((reason for pattern, reason in _SIMPLE if pattern.match(text)), None)


def exception_reason(text: str) -> str | None:
    """Return the reason that a traceback's last line gives.

    Returns:
        "" for an exception that tells nothing (a trial's, a summary of other processes' failures), None where the line
        is no exception's.
    """
    found = _EXCEPTION.fullmatch(text)
    if found is None or found[2] in _WRAPPERS or not (found[1] or _LOOKS_RAISED.fullmatch(found[2])):
        return None
    if found[2] in BENIGN_EXCEPTIONS or found[2] in _NOT_FAILURES:
        return ""
    if found[2] == "KeyboardInterrupt":
        return "cancelled"
    return line_reason(text) or "traceback"
