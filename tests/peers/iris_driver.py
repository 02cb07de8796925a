"""Runs in the environment of `scripts/iris_environment.py`: a real Iris controller with workers on this machine.

One JSON command a line on standard input, one JSON answer a line on standard output; the end of the input ends it.
`PYTHON` in a command's arguments stands for this environment's interpreter.
"""

from __future__ import annotations

import json
import os
import sys

from iris.client import IrisClient
from iris.cluster.local_cluster import LocalCluster, make_local_cluster_config
from iris.cluster.types import Entrypoint, ResourceSpec


def answer(**values: object) -> None:
    """Print one answer."""
    print(json.dumps(values), flush=True)


def submit(client: IrisClient, command: dict[str, object]) -> str:
    """Submit a job and return its id."""
    # By a relative path: the controller gives arguments below /tmp another meaning, and a checkout may lie there. Tasks
    # run in the driver's own folder.
    python = os.path.relpath(sys.executable)
    arguments = [python if part == "PYTHON" else part for part in command["argv"]]
    job = client.submit(
        Entrypoint.from_command(*arguments),
        command["name"],
        ResourceSpec(cpu=0.1, memory="256MB", disk="1GB"),
        replicas=command.get("tasks", 1),
        user=command.get("user", "u1"),
        max_retries_failure=command.get("retries", 0),
        max_task_failures=command.get("retries", 0),
    )
    return str(job.job_id)


def main() -> None:
    """Start, tell the address, obey."""
    cluster = LocalCluster(make_local_cluster_config(4))
    address = cluster.start()
    answer(url=address)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "submit":
            answer(job=submit(IrisClient.remote(address), command))
        elif command["do"] == "restart":
            address = cluster.restart()
            answer(url=address)
    cluster.close()


main()
