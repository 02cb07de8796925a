"""The jobs that the tests of the SLURM source submit, each by a word."""

from __future__ import annotations

from collections import Counter

from runwatch.config.model import Site
from runwatch.sources.slurm_scheduler import SlurmScheduler
from tests.peers.slurm_cluster import SlurmCluster

HOSTILE_NAMES = (
    "two words",
    "a=b JobState=FAILED Reason=x",
    "pipe|pipe||",
    'quote\'d "twice" `id`',
    "two\nlines",
    "x\nJobId=1 JobName=y UserId=root(0) StdOut=/etc/passwd",
    "; touch pwned; $(touch pwned) && touch pwned > pwned",
    "--help",
    "%i@%j*?[a]{b}~",
    "größe→∞",
)

FAILED_STEP = """
srun --ntasks=1 bash -c 'exit 7'
# A job that ends before the controller has heard of its step's end keeps none of the step's exit code.
for _ in $(seq 100); do
  if sacct --noheader --format=state --jobs="$SLURM_JOB_ID.0" | grep -q FAILED; then break; fi
  sleep 0.3
done
exit 0
"""

ELSEWHERE = """
mkdir -p logs
echo step > logs/run_$SLURM_JOB_ID.out
echo other > logs/slurm-1_$SLURM_JOB_ID.out
rm -f slurm-$SLURM_JOB_ID.out
sleep 300
"""


class Submitted:
    """The cluster and its jobs by a word."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self.cluster = cluster
        self.ids: dict[str, str] = {}

    def submit(self, word: str, *arguments: str) -> str:
        self.ids[word] = self.cluster.submit("-J", word, *arguments)
        return self.ids[word]

    def submit_all(self) -> None:
        chain = self.submit("chain", "--time=1", "--wrap", "sleep 300")
        self.ids["chain, next"] = self.cluster.submit(
            "-J", "chain", "--time=1", f"--dependency=afterany:{chain}", "--begin=now+1hour", "--wrap", "sleep 300"
        )
        self.submit("old", "--wrap", "exit 3")
        self.submit("requeued", "--requeue", "--wrap", "sleep 300")
        self.submit("cancelled", "--wrap", "sleep 300")
        self.submit("cancelled early", "--hold", "--wrap", "sleep 300")
        self.submit("exit 3", "--wrap", "exit 3")
        self.submit("kill -9", "--wrap", "kill -9 $$")
        self.submit("failed step", "--wrap", FAILED_STEP)
        fine = self.submit("fine", "--wrap", "exit 0")
        self.ids["fine, never"] = self.cluster.submit(
            "-J", "fine", f"--dependency=afternotok:{fine}", "--wrap", "sleep 300"
        )
        self.submit("alone", "--wrap", "sleep 300")
        self.ids["alone, next"] = self.cluster.submit(
            "-J", "alone", "--dependency=singleton", "--begin=now+1hour", "--wrap", "sleep 300"
        )
        self.submit("array", "--array=0-5%2", "--wrap", "test $SLURM_ARRAY_TASK_ID = 0 && exit 5; sleep 300")
        self.submit("array again", "--array=0-3%1", "--requeue", "--wrap", "sleep 300")
        self.submit("many", "--array=0-999", "--hold", "--wrap", "sleep 300")
        self.submit("logs elsewhere", "--wrap", ELSEWHERE)
        for name in HOSTILE_NAMES:
            self.submit(name, "--wrap", "sleep 300")

    def scheduler(self, calls: Counter[str] | None = None, *prefix: str, deadline: float = 25) -> SlurmScheduler:
        counted = Counter[str]() if calls is None else calls
        site = Site(scheduler="slurm", command_prefix=(*self.cluster.command_prefix, *prefix), timezone="UTC")
        return SlurmScheduler("hpc", site, lambda name: counted.update([name]), deadline_seconds=deadline)
