"""A real SLURM cluster of one node: munge, MariaDB, slurmdbd, slurmctld and slurmd with folders and ports of their own.

Nothing is shared with a cluster that the machine may have: the configuration is named by `SLURM_CONF`, munge has its
own socket and key, everything listens on 127.0.0.1, and each daemon is ended by its process id. Needs root, as
slurmd does to start jobs, or the user that it then also runs as.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.free_ports import free_port

PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "mariadb",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sbatch",
    "sacctmgr",
)
INSTALL = "apt-get install --no-install-recommends slurm-wlm slurmdbd munge mariadb-server"
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def missing_programs() -> list[str]:
    """Return which of the programs that a cluster needs are not here."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


def wait_for(what: str, seen: Callable[[], bool], seconds: float = 80.0) -> None:
    """Wait until something is seen; fails naming it."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, f"{what} was not seen within {seconds:.0f} s"
        time.sleep(0.2)


class SlurmCluster:
    """One cluster. `accounting` brings the database and slurmdbd too; `command_prefix` reaches it."""

    def __init__(self, folder: Path, *, min_job_age: int = 300) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.logs = folder / "logs"
        self._min_job_age = min_job_age
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._user = pwd.getpwuid(os.getuid()).pw_name
        self._host = socket.gethostname().split(".", 1)[0]
        self._ports = {name: free_port() for name in ("mariadb", "dbd", "ctld", "d")}
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        self.command_prefix = ("env", f"PATH={PATH}", f"SLURM_CONF={folder / 'slurm.conf'}")

    def start(self) -> None:
        """Bring everything up: returns when the node takes jobs."""
        for name in ("work", "logs", "state", "spool", "database"):
            (self.folder / name).mkdir(parents=True)
        self._write_configuration()
        self._start_munge()
        self._start_database()
        self._start("slurmdbd", "-D")
        self._wait_for_port("dbd")
        self.run("sacctmgr", "-i", "add", "cluster", "runwatch")
        self.start_controller()
        self._start("slurmd", "-D")
        wait_for("an idle node", lambda: self._answer("sinfo", "-h", "-o", "%T") == "idle")

    def stop(self) -> None:
        """End every job, then every daemon, the node first, each by its process id."""
        if "slurmctld" in self._daemons and "slurmd" in self._daemons:
            self.run("scancel", f"--user={self._user}", check=False)
            self._wait_until_quiet()
        for name in ("slurmd", "slurmctld", "slurmdbd", "munged", "mariadbd"):
            self._end(name)

    def _wait_until_quiet(self) -> None:
        """Wait for the last job's process: slurmd leaves its jobs behind when it ends."""
        end = time.monotonic() + 20
        while self._answer("squeue", "-h", "-t", "running,completing", "-o", "%i") and time.monotonic() < end:
            time.sleep(0.2)

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run one of the cluster's commands and return what it printed."""
        ran = subprocess.run(
            arguments,
            env=self.environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=60,
        )
        assert ran.returncode == 0 or not check, f"{arguments}: {ran.stderr}"
        return ran.stdout.strip()

    def submit(self, *arguments: str) -> str:
        """Submit with sbatch and return the job's id."""
        return self.run("sbatch", "--parsable", *arguments)

    def state(self, job: str) -> str:
        """Return the state words that squeue gives now for a job and its tasks."""
        return ",".join(self.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", job, check=False).split())

    def wait_for_state(self, job: str, state: str, seconds: float = 80.0) -> None:
        """Wait until squeue gives a job this state."""
        wait_for(f"job {job} {state}", lambda: self.state(job) == state, seconds)

    def start_controller(self) -> None:
        """Start slurmctld; it goes on from its saved state."""
        self._start("slurmctld", "-D")
        wait_for("the controller", lambda: "UP" in self._answer("scontrol", "ping"))

    def kill_controller(self) -> None:
        """End slurmctld at once."""
        self._end("slurmctld", signal.SIGKILL)

    def hang_controller(self) -> None:
        """Stop slurmctld where it is: it holds its port and answers nobody."""
        self._daemons["slurmctld"].send_signal(signal.SIGSTOP)

    def resume_controller(self) -> None:
        """Let slurmctld go on."""
        self._daemons["slurmctld"].send_signal(signal.SIGCONT)
        wait_for("the controller", lambda: "UP" in self._answer("scontrol", "ping"))

    def kill_accounting(self) -> None:
        """End slurmdbd at once."""
        self._end("slurmdbd", signal.SIGKILL)

    def start_accounting(self) -> None:
        """Start slurmdbd."""
        self._start("slurmdbd", "-D")
        wait_for("accounting", lambda: self._answers("sacct", "-n"))

    def _answer(self, *arguments: str) -> str:
        return self.run(*arguments, check=False)

    def _answers(self, *arguments: str) -> bool:
        ran = subprocess.run(arguments, env=self.environment, capture_output=True, check=False, timeout=60)
        return ran.returncode == 0

    def _start(self, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=PATH)
        assert path is not None
        with (self.folder / f"{program}.out").open("ab") as output:
            self._daemons[program] = subprocess.Popen(
                [path, *arguments],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _end(self, program: str, how: signal.Signals = signal.SIGTERM) -> None:
        daemon = self._daemons.pop(program, None)
        if daemon is None:
            return
        daemon.send_signal(signal.SIGCONT)
        daemon.send_signal(how)
        try:
            daemon.wait(15)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(15)

    def _wait_for_port(self, name: str) -> None:
        def listening() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", self._ports[name])) == 0

        wait_for(f"the port of {name}", listening)

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        # Forced, for munged refuses a socket below a folder that only its owner may enter.
        self._start(
            "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
            f"--log-file={self.folder}/munged.log", f"--pid-file={self.folder}/munged.pid",
            f"--seed-file={self.folder}/munged.seed",
        )  # fmt: skip
        wait_for("munge", (self.folder / "munge.socket").exists)

    def _start_database(self) -> None:
        data = self.folder / "database"
        own = ("--no-defaults", f"--datadir={data}", f"--user={self._user}")
        self.run("mariadb-install-db", *own, "--auth-root-authentication-method=normal", "--skip-test-db")
        self._start(
            "mariadbd", *own, "--bind-address=127.0.0.1", f"--port={self._ports['mariadb']}",
            f"--socket={self.folder}/mariadb.socket", f"--pid-file={self.folder}/mariadb.pid",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0",
        )  # fmt: skip
        client = ("mariadb", "--no-defaults", f"--socket={self.folder}/mariadb.socket", "-u", "root", "-e")
        wait_for("the database", lambda: self._answers(*client, "select 1"))
        self.run(
            *client,
            "create database slurm; create user 'slurm'@'127.0.0.1' identified by 'slurm';"
            "create user 'slurm'@'localhost' identified by 'slurm';"
            "grant all on slurm.* to 'slurm'@'127.0.0.1'; grant all on slurm.* to 'slurm'@'localhost';",
        )

    def _write_configuration(self) -> None:
        ports, folder = self._ports, self.folder
        accounting = [
            "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge.socket", "DbdHost=localhost", "DbdAddr=127.0.0.1",
            f"DbdPort={ports['dbd']}", f"SlurmUser={self._user}", "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1", f"StoragePort={ports['mariadb']}", "StorageUser=slurm", "StoragePass=slurm",
            "StorageLoc=slurm", f"LogFile={folder}/slurmdbd.log", f"PidFile={folder}/slurmdbd.pid",
        ]  # fmt: skip
        (folder / "slurmdbd.conf").write_text("\n".join(accounting) + "\n")
        (folder / "slurmdbd.conf").chmod(0o600)
        lines = [
            "ClusterName=runwatch", f"SlurmctldHost={self._host}(127.0.0.1)", f"SlurmctldPort={ports['ctld']}",
            f"SlurmdPort={ports['d']}", f"SlurmUser={self._user}", f"SlurmdUser={self._user}", "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/munge.socket", "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd.pid",
            f"SlurmctldLogFile={folder}/slurmctld.log", f"SlurmdLogFile={folder}/slurmd.log",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/linux",
            "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "MpiDefault=none", "ReturnToService=2",
            "SchedulerType=sched/backfill", "SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1",
            f"MinJobAge={self._min_job_age}", "KillWait=2", "JobRequeue=1", "SlurmdParameters=config_overrides",
            "AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePass={folder}/munge.socket", f"AccountingStoragePort={ports['dbd']}",
            # More processors than there are, so that no job of a test waits for another.
            f"NodeName={self._host} NodeAddr=127.0.0.1 CPUs=32 Sockets=1 CoresPerSocket=32 ThreadsPerCore=1",
            "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        ]  # fmt: skip
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
