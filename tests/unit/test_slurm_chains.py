"""Which link of a SLURM chain is the run, and whether one that waits can ever follow it."""

from __future__ import annotations

import pytest

from runwatch.facts import SchedulerState, Successor
from runwatch.parsing.slurm_chains import choose, components
from runwatch.parsing.slurm_ids import JobId, parse_dependencies
from runwatch.parsing.slurm_text import AccountingRow, JobDetail, QueueRecord
from runwatch.sources.slurm_facts import facts_of
from runwatch.sources.slurm_memory import LinkMemory


def link(
    job: str, word: str, started: float | None = None, ended: float | None = None, *, depends: str = "",
    reason: str = "None",
) -> LinkMemory:  # fmt: skip
    memory = LinkMemory(job)
    waits_for = parse_dependencies(depends)
    memory.see([QueueRecord(JobId(job), word, "train", "u1", "/w", reason, waits_for, 50.0, started, ended)])
    return memory


def successor(*links: LinkMemory) -> Successor | None:
    return choose([memory.view("") for memory in links], by_name=False).successor


@pytest.mark.parametrize("kind", ["afternotok", "afterok", "afterany", "after"])
def test_link_behind_one_that_can_never_start_can_never_start_either(kind: str) -> None:
    """Job 1 ended well, so `afternotok:1` is never met: job 2 stays in the queue, and what waits for it with it."""
    ended = link("1", "COMPLETED", 100.0, 200.0)
    never = link("2", "PENDING", depends="afternotok:1(failed)", reason="DependencyNeverSatisfied")
    behind = link("3", "PENDING", depends=f"{kind}:2(unfulfilled)", reason="Dependency")
    last = link("4", "PENDING", depends="afterany:3(unfulfilled)", reason="Dependency")
    assert successor(ended, never, behind, last) == Successor("2", running=False, can_start=False)


def test_link_that_needs_only_one_of_two_can_start() -> None:
    ended = link("1", "FAILED", 100.0, 200.0)
    never = link("2", "PENDING", depends="afterok:1(failed)", reason="DependencyNeverSatisfied")
    either = link("3", "PENDING", depends="afterok:2(unfulfilled)?afternotok:1(unfulfilled)", reason="Dependency")
    assert successor(ended, never, either) == Successor("3", running=False, can_start=True)


def test_link_that_waits_for_one_that_only_waits_can_start() -> None:
    ended = link("1", "TIMEOUT", 100.0, 200.0)
    following = link("2", "PENDING", reason="Priority")
    behind = link("3", "PENDING", depends="afterany:2(unfulfilled)", reason="Dependency")
    assert successor(ended, following, behind) == Successor("2", running=False, can_start=True)
    assert successor(ended, behind) == Successor("3", running=False, can_start=True)


def test_first_component_of_a_heterogeneous_job_stands_for_it_in_accounting_too() -> None:
    def row(job: JobId, word: str, code: int) -> AccountingRow:
        return AccountingRow(job, word, "train", "u1", "/w", "", (code, 0), (0, 0), 50.0, 100.0, 200.0)

    memory = LinkMemory("12")
    memory.account([row(JobId("12"), "FAILED", 3), row(JobId("12", component=1), "COMPLETED", 0)], now=300.0)
    [task] = memory.view("").tasks
    assert (task.state, task.exit_code, len(task.attempts)) == (SchedulerState.FAILED, 3, 1)


def test_array_of_which_two_run_at_a_time_holds_the_accelerators_of_two() -> None:
    """Four tasks of 4 GPUs, two at a time: 0 and 1 have ended, 2 and 3 run; never 16 at once."""
    memory = LinkMemory("6")
    array: tuple[tuple[float, float | None], ...] = ((100.0, 200.0), (100.0, 210.0), (201.0, None), (211.0, None))

    def see(now_running: bool) -> int | None:
        memory.see([
            QueueRecord(
                JobId("6", (range(i, i + 1),), i), "RUNNING" if ended is None and now_running else "COMPLETED", "train",
                "u1", "/w", "None", (), 50.0, started, ended if ended is not None or now_running else 300.0 + i,
            )
            for i, (started, ended) in enumerate(array)
        ])  # fmt: skip
        return facts_of(choose([memory.view("")], by_name=False), {"6": memory}, "6", "6").accelerators

    assert see(now_running=True) is None  # scontrol has told of none yet
    for key, task in memory.tasks.items():
        task.detail = JobDetail(key, "RUNNING", (0, 0), 0, "", 4, "a100")
    assert see(now_running=True) == 8
    assert see(now_running=False) == 8


def test_chain_goes_on_with_the_link_that_runs_where_another_ended_beside_it() -> None:
    """Jobs 2 and 3 both wait for job 1; job 3 finds the folder locked, and fails at once."""
    links = [
        link("1", "TIMEOUT", 100.0, 200.0),
        link("2", "RUNNING", 210.0, depends="afterany:1(unfulfilled)"),
        link("3", "FAILED", 210.0, 215.0, depends="afterany:1(unfulfilled)"),
    ]
    chain = choose([memory.view("") for memory in links], by_name=False)
    assert (chain.main.id, chain.main.newest.state) == ("2", SchedulerState.RUNNING)
    assert [one.id for one in chain.links] == ["1", "2", "3"]
    # One that is lost from sight is none that runs.
    links[1].see([])
    lost = choose([memory.view("no accounting") for memory in links], by_name=False)
    assert (lost.main.id, lost.main.newest.state) == ("3", SchedulerState.FAILED)


def test_jobs_that_were_to_run_alone_under_their_name_are_a_chain() -> None:
    """`--dependency=singleton` names no job: it waits for all earlier ones of its name and user."""
    links = [
        link("1", "TIMEOUT", 100.0, 200.0),
        link("2", "TIMEOUT", 210.0, 300.0, depends="singleton(fulfilled)"),
        link("5", "PENDING", depends="singleton(unfulfilled)", reason="Dependency"),
    ]
    assert components([memory.view("") for memory in links])["1"] == {"1", "2", "5"}
    assert successor(*links) == Successor("5", running=False, can_start=True)
    alone = [links[0], link("3", "RUNNING", 120.0)]
    assert components([memory.view("") for memory in alone])["1"] == {"1"}
