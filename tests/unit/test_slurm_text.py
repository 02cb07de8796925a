"""What squeue, sacct and scontrol print, read into records.

`tests/data/slurm` was printed by SLURM 22.05.8. The samples of other versions here follow SchedMD's documentation.
"""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwatch.parsing.slurm_ids import Dependency, JobId
from runwatch.parsing.slurm_text import (
    ACCOUNTING_FIELDS,
    QUEUE_FIELDS,
    QueueRecord,
    parse_accounting,
    parse_details,
    parse_queue,
)

DATA = Path(__file__).parents[1] / "data" / "slurm"
UTC = ZoneInfo("UTC")
NOW = 1796000000.0
SEPARATOR = "@0011aabb@"

# 2026-11-29T17:30:05 UTC
SUBMITTED = 1795973405.0


def queue_line(*fields: str) -> str:
    assert len(fields) == len(QUEUE_FIELDS)
    return "".join(field + SEPARATOR for field in fields) + "\n"


def running(job: str, name: str, workdir: str = "/data/wd") -> str:
    return queue_line(
        job, "RUNNING", "0:03", "(null)", "None", "2026-11-29T17:30:05", "2026-11-29T17:30:06", "2026-11-29T18:30:06",
        "u1", "n1", workdir, name,
    )  # fmt: skip


def test_queue_records() -> None:
    waiting = queue_line(
        "2", "PENDING", "0:00", "afterany:1(unfulfilled)", "Dependency", "2026-11-29T17:30:05", "2026-11-30T00:00:00",
        "N/A", "u1", "", "/data/wd", "sft-cell-a",
    )  # fmt: skip
    ended = queue_line(
        "4", "FAILED", "0:02", "(null)", "NonZeroExitCode", "2026-11-29T17:30:05", "2026-11-29T17:30:06",
        "2026-11-29T17:30:08", "u1", "n1", "/data/wd", "fail3",
    )  # fmt: skip
    records, malformed = parse_queue(running("1", "sft-cell-a") + waiting + ended, SEPARATOR, UTC, NOW)
    assert malformed == 0
    run, wait, end = records
    assert (run.id, run.word, run.submitted, run.started) == (JobId("1"), "RUNNING", SUBMITTED, SUBMITTED + 1)
    assert run.ended is None  # a forecast while it runs
    assert wait.dependencies == (Dependency("afterany", "1", "unfulfilled"),)
    assert wait.started is None  # a forecast while it waits
    assert (end.started, end.ended) == (SUBMITTED + 1, SUBMITTED + 3)


@pytest.mark.parametrize("word", ["CANCELLED", "DEADLINE"])
def test_job_that_ended_while_it_waited_never_started(word: str) -> None:
    line = queue_line(
        "8",
        word,
        "0:00",
        "(null)",
        "BeginTime",
        "1795987733",
        "1795987737",
        "1795987737",
        "root",
        "",
        "/w",
        "cx",
    )
    [record] = parse_queue(line, SEPARATOR, UTC, NOW)[0]
    assert record.started is None
    assert record.ended == 1795987737


def test_job_that_is_being_requeued_has_not_started_again() -> None:
    """As 22.05.8 shows it for a moment: COMPLETING since it was requeued at 1795989524."""
    line = queue_line(
        "1", "COMPLETING", "0:00", "(null)", "None", "1795989521", "1795989524", "NONE", "root", "n1", "/w", "rq"
    )
    [record] = parse_queue(line, SEPARATOR, UTC, NOW)[0]
    assert (record.word, record.started, record.ended) == ("REQUEUED", None, 1795989524)
    ending = line.replace("0:00", "0:09").replace("NONE", "1795989533")
    [record] = parse_queue(ending, SEPARATOR, UTC, NOW)[0]
    assert (record.word, record.started) == ("COMPLETING", 1795989524)


def test_what_a_login_shell_prints_first_is_no_part_of_a_record() -> None:
    records, malformed = parse_queue("Welcome to login01!\nquota: 5 %\n" + running("7", "x"), SEPARATOR, UTC, NOW)
    assert [record.id.base for record in records] == ["7"]
    assert malformed == 0


def test_output_that_was_cut_short_is_counted() -> None:
    text = running("7", "x") + running("8", "y")[:-30]
    records, malformed = parse_queue(text, SEPARATOR, UTC, NOW)
    assert [record.id.base for record in records] == ["7"]
    assert malformed == 1


def test_record_without_an_id_is_counted_and_the_rest_read() -> None:
    records, malformed = parse_queue(running("?", "x") + running("8", "y"), SEPARATOR, UTC, NOW)
    assert [record.id.base for record in records] == ["8"]
    assert malformed == 1


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_names_and_folders_of_any_text_come_back_as_they_were(texts: list[tuple[str, str]]) -> None:
    printed = "".join(running(str(i), name, folder) for i, (name, folder) in enumerate(texts, 1))
    records, malformed = parse_queue(printed, SEPARATOR, UTC, NOW)
    assert malformed == 0
    assert [(r.id.base, r.name, r.workdir) for r in records] == [(str(i), n, f) for i, (n, f) in enumerate(texts, 1)]


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    records, _ = parse_queue(text.replace("|", SEPARATOR), SEPARATOR, UTC, NOW)
    assert all(isinstance(record, QueueRecord) for record in records)
    assert isinstance(parse_details(text), dict)


def accounting_of_22_05() -> str:
    """The rows that 22.05.8 printed, in the order of fields that is asked for now."""
    header, *rows = (DATA / "sacct_P.txt").read_text().splitlines()
    names = [name.lower() for name in header.split("|")]
    printed = ""
    for row in rows:
        values = dict(zip(names, row.split("|"), strict=True))
        values["nodelist"] = "n1"  # was not asked for; all of these had started
        printed += "".join(values.get(field, "") + SEPARATOR for field in ACCOUNTING_FIELDS) + "\n"
    return printed


def test_accounting_rows_of_22_05() -> None:
    rows, malformed = parse_accounting(accounting_of_22_05(), SEPARATOR, UTC, NOW)
    assert malformed == 0
    assert [(row.id.key, row.word) for row in rows] == [
        ("1", "TIMEOUT"), ("2", "TIMEOUT"), ("3", "TIMEOUT"), ("4", "FAILED"), ("6_0", "COMPLETED"),
        ("6_1", "COMPLETED"), ("6_2", "COMPLETED"), ("6_3", "COMPLETED"), ("10", "REQUEUED"), ("10", "CANCELLED"),
        ("11", "CANCELLED"), ("12", "FAILED"),
    ]  # fmt: skip
    assert (rows[0].started, rows[0].ended) == (SUBMITTED + 1, SUBMITTED + 69)
    assert rows[3].exited == (3, 0)
    assert rows[11].exited == (0, 9)
    # The first start of the requeued job: 17:31:39 to 17:31:41.
    assert (rows[8].started, rows[8].ended) == (SUBMITTED + 94, SUBMITTED + 96)
    assert rows[1].submit_line == "sbatch --parsable --dependency=afterany:1 chain.sbatch"


def details_of_22_05(job: str) -> str:
    """What `scontrol show job <job> -o` printed."""
    return (DATA / "scontrol_show_job_o.txt").read_text().partition(f"## {job}\n")[2].partition("##")[0]


def test_detail_of_22_05() -> None:
    details = parse_details(details_of_22_05("1"))
    assert details["1"].log_path == "/data/slurm/logs/sft-cell-a_1.out"  # behind `Comment=exp=foo bar=baz`
    assert (details["1"].word, details["1"].restarts, details["1"].exited) == ("RUNNING", 0, (0, 0))
    assert details["1"].accelerators is None
    assert parse_details(details_of_22_05("4"))["4"].exited == (3, 0)


def test_waiting_tasks_of_an_array_have_no_log() -> None:
    details = parse_details(details_of_22_05("6"))
    assert list(details) == ["6_0"]
    assert details["6_0"].log_path == "/data/slurm/wd/slurm-6_0.out"


DOCUMENTED = (
    "JobId={job} {array}JobName={name} UserId=u1(1000) GroupId=u1(1000) MCS_label=N/A Priority=1 Nice=0 Account=a QOS=q"
    " JobState={state} Reason=None Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0"
    " RunTime=00:00:03 TimeLimit=00:01:00 TimeMin=N/A SubmitTime=2026-11-29T17:30:05 {tres} Socks/Node=*"
    " Features=(null) DelayBoot=00:00:00 Licenses=(null) Network=(null) Command=/w/a.sh WorkDir=/w"
    " StdErr={log} StdIn=/dev/null StdOut={log} {tail}\n"
)


@pytest.mark.parametrize(
    ("version", "tres", "tail"),
    [
        ("21.08", "TRES=cpu=8,mem=4G,node=2,billing=8,gres/gpu=8", "Power= NtasksPerTRES:0"),
        ("22.05", "TRES=cpu=8,node=2,gres/gpu=8,gres/gpu:a100=8", "Power= MailUser=u1 MailType=END"),
        (
            "23.11",
            "ReqTRES=cpu=8,gres/gpu=16 AllocTRES=cpu=8,node=2,gres/gpu=8,gres/gpu:a100=8",
            "Power= TresPerNode=gres:gpu:4",
        ),
        ("25.05", "ReqTRES=cpu=8 AllocTRES=cpu=8,gres/gpu:a100=8", "TresPerTask=cpu=1,gres/gpu=1 OOMKillStep=0"),
    ],
)
def test_detail_of_documented_versions(version: str, tres: str, tail: str) -> None:
    text = DOCUMENTED.format(job=5, array="", name="run", state="RUNNING", tres=tres, log="/l/a b=c_5.out", tail=tail)
    detail = parse_details(text)["5"]
    assert (detail.log_path, detail.restarts, detail.accelerators) == ("/l/a b=c_5.out", 2, 8)
    assert detail.accelerator_type == ("" if version == "21.08" else "a100")


def test_job_without_a_log_as_of_25_05() -> None:
    """A placeholder job has no StdOut at all, and a comment at the end."""
    text = DOCUMENTED.format(job=5, array="", name="r", state="CANCELLED", tres="", log="", tail="").rpartition(
        " StdErr"
    )[0]
    detail = parse_details(text + ' AdminComment={"pods":["a/b"]} OOMKillStep=0\n')["5"]
    assert (detail.word, detail.log_path) == ("CANCELLED", "")


def test_heterogeneous_job_has_the_accelerators_of_all_its_components() -> None:
    def component(job: int, offset: int, tres: str) -> str:
        text = DOCUMENTED.format(job=job, array="", name="het", state="RUNNING", tres=tres, log="/l/o", tail="Power=")
        return text.replace("JobName=", f"HetJobId=12 HetJobOffset={offset} JobName=", 1)

    driver = component(12, 0, "TRES=cpu=8,node=1")
    trainers = component(13, 1, "TRES=cpu=8,node=2,gres/gpu=8,gres/gpu:a100=8")
    engines = component(14, 2, "TRES=cpu=8,node=1,gres/gpu=4,gres/gpu:h100=4")
    other = DOCUMENTED.format(job=15, array="", name="x", state="RUNNING", tres="TRES=gres/gpu=1", log="/l/x", tail="")
    for job, beside in (("12", ""), (None, other)):
        details = parse_details(driver + trainers + beside, job)
        assert (details["12"].accelerators, details["12"].accelerator_type) == (8, "a100")
        assert set(details) == {"12"} | ({"15"} if beside else set())
    mixed = parse_details(driver + trainers + engines, "12")["12"]
    assert (mixed.accelerators, mixed.accelerator_type) == (12, "")


def test_record_that_a_name_makes_up_takes_nothing_from_another_job() -> None:
    def record(job: int, name: str, log: str) -> str:
        return DOCUMENTED.format(job=job, array="", name=name, state="RUNNING", tres="", log=log, tail="Power=")

    made_up = record(1, "y", "/etc/passwd").rstrip("\n")
    text = record(1, "real", "/l/1.out") + record(2, f"x\n{made_up}", "/l/2.out") + record(3, "z", "/l/3.out")
    assert "1" not in parse_details(text)
    assert parse_details(text)["3"].log_path == "/l/3.out"
    # Asked for alone, each is read right.
    assert parse_details(record(1, "real", "/l/1.out"), "1")["1"].log_path == "/l/1.out"
    assert parse_details(record(2, f"x\n{made_up}", "/l/2.out"), "2")["2"].log_path == "/l/2.out"
