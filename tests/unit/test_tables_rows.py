"""Which job stands where, in which order and under which name; and the JSON for scripts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from runwatch.catalogue import JOB_PHASES, JOB_STATES, METRICS
from runwatch.measurements import Evidence, JobReport
from runwatch.report.columns import TABLES, CellFormat
from runwatch.report.rows import FilledTable, fill_tables
from runwatch.report.tables import render_tables, tables_json
from tests.unit.small_fleet import (
    HOUR,
    MINUTE,
    NOW,
    Value,
    job,
    measure,
    nothing_measured,
    rl_collapsing,
    rl_seqnorm,
    sft_blind,
    sft_degraded,
    small_fleet,
)


def by_table(reports: list[JobReport]) -> dict[str, list[str]]:
    return {t.kind.key: [row.report.run for row in t.rows] for t in fill_tables(reports, NOW)}


def only(report: JobReport, table: str) -> dict[str, str]:
    """Return the cells of a single job in a table, by column title."""
    filled: dict[str, FilledTable] = {t.kind.key: t for t in fill_tables([report], NOW)}
    kind = filled[table].kind
    return dict(zip([column.title for column in kind.columns], filled[table].rows[0].cells, strict=True))


def test_every_job_stands_somewhere_worst_first() -> None:
    assert by_table(small_fleet()) == {
        "rl": ["rl-base", "rl-shaped"],
        "sft": ["delphi-1e23-p33m67-k0p20-lr0.67-b6607e", "cell-b", "cell-a"],
        "eval": ["tb2-eval"],
        "training_health": ["rl-base", "delphi-1e23-p33m67-k0p20-lr0.67-b6607e", "cell-b", "cell-a", "rl-shaped"],
        "bringup": ["cell-c", "rl-new", "datagen-x"],
    }


@pytest.mark.parametrize("bucket", ["rl", "sft", "datagen", "eval", "other"])
@pytest.mark.parametrize("step", [None, 0])
def test_no_job_is_ever_missing(bucket: str, step: int | None) -> None:
    values: dict[str, Value] = {} if step is None else {"step": step}
    for state in (None, *JOB_STATES):
        for phase in (None, *JOB_PHASES):
            found = by_table([job("it", bucket, measure(values, state, phase))])
            assert len([key for key in found if key != "training_health"]) == 1
            assert ("training_health" in found) is (step is not None)


def test_equally_bad_jobs_are_ordered_by_name() -> None:
    jobs = [job(name, "sft", measure({"step": 1}, "running", "stepping"), [("stable", "stable")]) for name in "cab"]
    assert by_table(jobs)["sft"] == ["a", "b", "c"]


def test_columns_name_metrics_of_the_catalogue() -> None:
    for kind in TABLES:
        assert kind.columns[0].format is CellFormat.NAME
        for column in kind.columns:
            for name in column.metrics:
                assert set(dict(column.labels)) <= set(METRICS[name].labels)


def test_columns_are_the_operators() -> None:
    titles = {kind.key: [column.title for column in kind.columns] for kind in TABLES}
    assert titles["rl"] == [
        "Job", "Step", "Reward", "pass@N", "Policy Loss", "Grad Norm", "Entropy", "log-ratio (policy)",
        "TIS log-ratio", "Trend",
    ]  # fmt: skip
    assert titles["sft"] == ["Job", "Step", "Loss", "Grad Norm", "tok/s", "ETA", "Trend"]
    assert titles["training_health"] == [
        "Job", "Step", "tok/s", "Preempts", "Gaps", "Checkpoint", "Goodput", "ETA", "Trend",
    ]  # fmt: skip
    assert titles["datagen"] == ["Run", "Chunks", "Trials", "avg_turns", "Mean", "exc%", "Trend"]
    assert titles["eval"] == ["Model × benchmark", "Trials", "pass-rate", "top exception", "Infra", "Trend"]
    assert titles["other"] == ["Job", "Type", "State", "Elapsed", "Note"]


def test_sites_are_named_where_there_are_several() -> None:
    assert only(rl_seqnorm(), "rl")["Job"] == "rl-shaped (shaped)"
    text = render_tables([rl_seqnorm(), replace(sft_blind(), site="leonardo")], NOW, bucket=None, width=200)
    assert "│ rl-shaped (marin) (shaped) │" in text
    assert "│ cell-b (leonardo) │" in text


def test_the_shaping_is_marked_on_rl_jobs_only() -> None:
    report = job("x", "sft", measure({"step": 1}), info={"shaping": "on"})
    assert only(report, "sft")["Job"] == "x"
    assert only(rl_collapsing(), "rl")["Job"] == "rl-base (base)"


def test_pass_at_n_says_which_n() -> None:
    sixteen = job("b", "rl", measure({"step": 1, "rl_pass_at_n": {"4": 0.1, "16": 0.25}}))
    table = fill_tables([rl_collapsing(), sixteen], NOW)[0]
    assert [row.cells[3] for row in table.rows] == ["0.700", "0.250"]
    assert table.notes == ("pass@N: N = 16 for b", "pass@N: N = 8 for rl-base (base)")


def test_rewards_of_unlike_shaping_are_not_comparable() -> None:
    def rewarded(run: str, shaping: str, values: dict[str, Value] | None = None) -> JobReport:
        return job(
            run, "rl", measure({"step": 1, "rl_reward": 0.5} if values is None else values), info={"shaping": shaping}
        )

    both = [rewarded("a", "on"), rewarded("b", "off"), rewarded("c", ""), rewarded("d", "on")]
    assert fill_tables(both, NOW)[0].notes == ("rewards not comparable: a (shaped), d (shaped) with b (base)",)
    assert fill_tables([both[0], both[2], both[3]], NOW)[0].notes == ()
    assert fill_tables([both[0], rewarded("b", "off", {"step": 1})], NOW)[0].notes == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"chunks": {"done": 18, "running": 2, "hung": 0, "failed": 0, "pending": 0}}, "18/20 done, 2 running"),
        ({"chunks": {"done": 20, "running": 0, "hung": 0, "failed": 0, "pending": 0}}, "20/20 done"),
        ({"chunks": {"done": 0, "running": 1, "hung": 1, "failed": 1, "pending": 7}},
         "0/10 done, 1 running, 1 hung, 1 failed"),
        ({}, "—"),
    ],
)  # fmt: skip
def test_chunks_cell(values: dict[str, Value], expected: str) -> None:
    assert only(job("x", "datagen", measure({"trials": 5} | values)), "datagen")["Chunks"] == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"trial_exceptions": {"BError": 5, "AError": 5, "other": 90}, "trial_exception_ratio": 1}, "AError (5)"),
        ({"trial_exceptions": {"other": 3}, "trial_exception_ratio": 0.1}, "other (3)"),
        ({"trial_exception_ratio": 0}, "none"),
        ({}, "—"),
    ],
)
def test_top_exception_cell(values: dict[str, Value], expected: str) -> None:
    assert only(job("x", "eval", measure({"trials": 5} | values)), "eval")["top exception"] == expected


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ({}, "—"),
        ({"tunnel": 1, "engine": 0}, "tunnel ✓, engine ✗, progress —"),
        ({"api_base": 1}, "tunnel —, engine —, progress —"),
        ({"api_base": 0, "progress": 1}, "tunnel —, engine —, progress ✓, api_base ✗"),
    ],
)
def test_infrastructure_cell(checks: dict[str, float], expected: str) -> None:
    assert only(job("x", "eval", measure({"trials": 5, "infra_check": checks})), "eval")["Infra"] == expected


def test_datagen_names_its_tracker_row_and_an_eval_its_kind() -> None:
    datagen = job("x", "datagen", measure({"trials": 5}), info={"tracker_row": "12", "kind": "swe"})
    assert only(datagen, "datagen")["Run"] == "x (tracker row #12)"
    evaluation = job("x", "eval", measure({"trials": 5}), info={"tracker_row": "12", "kind": "tb2"})
    assert only(evaluation, "eval")["Model × benchmark"] == "x (tb2)"


def test_a_note_stands_before_what_is_known() -> None:
    note = [Evidence("note", "pushes 9 rows")]
    values = measure({"start_timestamp_seconds": NOW - 600}, "failed", "finished")
    failed = job("x", "other", values, [("failed", "failed, exit 1: diagnose")], info={"kind": "upload"}, evidence=note)
    cells = only(failed, "other")
    assert (cells["Type"], cells["Note"]) == ("upload", "pushes 9 rows; failed, exit 1: diagnose")
    assert only(replace(failed, verdicts=()), "other")["Note"] == "pushes 9 rows"
    assert only(replace(failed, evidence=()), "other")["Note"] == "failed, exit 1: diagnose"


def test_an_eval_waits_for_its_first_result() -> None:
    waiting = job("x", "eval", measure({"trials": 0}, "running", "bringup"), [("bringup", "no first result yet")])
    assert only(waiting, "bringup")["Waits for"] == "its first result"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"checkpoints": {"complete": 0, "partial": 2}}, "none (2 partial)"),
        ({"checkpoints": {"complete": 0, "partial": 0}}, "none"),
        ({"checkpoint_step": 9000}, "9000"),
        ({"checkpoint_step": 9000, "checkpoint_lag_steps": -4}, "9000, lag -4"),
        # As of the last look, ten minutes ago, it was five minutes old.
        ({"checkpoint_step": 9000, "checkpoint_timestamp_seconds": NOW - 15 * MINUTE,
          "observed_timestamp_seconds": {"checkpoints": NOW - 10 * MINUTE}}, "9000, 5 min old"),
        ({}, "—"),
    ],
)  # fmt: skip
def test_checkpoint_cell(values: dict[str, Value], expected: str) -> None:
    assert only(job("x", "sft", measure({"step": 1} | values)), "training_health")["Checkpoint"] == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"gaps": {"unknown": 0}, "gap_seconds": {"unknown": 0}}, "0 / 0.00 h"),
        ({"gaps": {"preemption": 12}, "gap_seconds": {"preemption": 25920}}, "12 / 7.20 h, 12 preemption"),
        ({"gaps": {"preemption": 1, "unexplained": 2}, "gap_seconds": {"preemption": 400, "unexplained": 1400}},
         "3 / 0.50 h, 1 preemption, 2 unexplained"),
        ({}, "—"),
    ],
)  # fmt: skip
def test_gaps_cell(values: dict[str, Value], expected: str) -> None:
    assert only(job("x", "sft", measure({"step": 1} | values)), "training_health")["Gaps"] == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "—"),
        ({"interruptions": {"preemption": 9}, "preemptions": 80}, "9"),
        ({"preemptions": 80}, "80*"),
    ],
)
def test_preempts_cell(values: dict[str, Value], expected: str) -> None:
    assert only(job("x", "sft", measure({"step": 1} | values)), "training_health")["Preempts"] == expected


def test_what_a_queued_job_waits_for() -> None:
    queued = [("queued", "queued")]
    for reason, text in (("capacity", "capacity"), ("dependency", "another job"), ("unknown", "its turn in the queue")):
        report = job("x", "sft", measure({"waiting": {reason: 1}}, "pending", "queued"), queued)
        assert only(report, "bringup")["Waits for"] == text


@pytest.mark.parametrize(
    ("values", "verdicts", "expected"),
    [
        # What is wrong is told beside what it waits for, and hides it not.
        ({"waiting": {"compile": 1}}, [("bringup_stuck", "no first step for 3 h (limit 45 min)"),
                                       ("bringup", "no first step yet")],
         "compilation; no first step for 3 h (limit 45 min)"),
        ({}, [("bringup_stuck", "no first step for 3 h (limit 45 min)"), ("bringup", "no first step yet")],
         "its first step; no first step for 3 h (limit 45 min)"),
        ({"waiting": {"weights": 1}, "source_configured_timestamp_seconds": {"checkpoints": NOW - 60}},
         [("bringup", "no first step yet")], "its weights; checkpoints not read yet"),
        ({"waiting": {"capacity": 1}}, [("deep_probe", "deep-probe: new setting"), ("queued", "queued")],
         "capacity; deep-probe: new setting"),
        # Nobody knows whether it waits for anything.
        ({}, [("unknown", "state unknown: no source tells whether it runs"), ("bringup", "no first step yet")],
         "state unknown: no source tells whether it runs; no first step yet"),
    ],
)  # fmt: skip
def test_what_a_job_waits_for_and_what_is_wrong_with_it(
    values: dict[str, Value], verdicts: list[tuple[str, str]], expected: str
) -> None:
    assert only(job("x", "sft", measure(values, "running", "bringup"), verdicts), "bringup")["Waits for"] == expected


def test_a_blind_source_is_told_and_takes_stable_away() -> None:
    assert only(sft_blind(), "sft")["Trend"] == "history not read for 23 min"
    saved = replace(sft_blind(), verdicts=rl_collapsing().verdicts[2:])
    assert only(saved, "sft")["Trend"] == "entropy −34 % vs trend; history not read for 23 min; checkpoint saved"
    filled = fill_tables([replace(sft_blind(), intervals={"history": 600})], NOW)
    assert filled[0].rows[0].cells[-1] == "stable"


def test_while_the_next_link_waits_a_blind_source_is_told() -> None:
    values: dict[str, Value] = {
        "step": 5, "successor": {"77": 1}, "observed_timestamp_seconds": {"scheduler": NOW - HOUR},
        "source_configured_timestamp_seconds": {"scheduler": NOW - 2 * HOUR, "history": NOW - 60},
    }  # fmt: skip
    ended = [("timeout", "ended at the wall-time limit; successor 77 waits")]
    report = job("x", "sft", measure(values, "timeout", "finished"), ended)
    assert only(report, "sft")["Trend"] == (
        "ended at the wall-time limit; successor 77 waits; scheduler not read for 1 h; history not read yet"
    )
    over = measure({name: value for name, value in values.items() if name != "successor"}, "timeout", "finished")
    assert only(replace(report, measurements=over), "sft")["Trend"] == ended[0][1]


def test_a_source_that_has_not_answered_yet_is_told() -> None:
    report = job("x", "sft", measure({"source_configured_timestamp_seconds": {"history": NOW - 60}}))
    assert only(report, "bringup")["Waits for"] == "history not read yet"


def test_an_ended_job_has_no_eta() -> None:
    report = job("x", "sft", measure({"step": 5, "eta_seconds": 3600}, "killed", "finished"))
    assert only(report, "sft")["ETA"] == "—"


def test_grid_roll_up() -> None:
    def cell(run: str, state: str | None, step: int | None = None, eta: float | None = None) -> JobReport:
        values: dict[str, Value] = {"target_step": 200}
        values |= {} if step is None else {"step": step}
        values |= {} if eta is None else {"eta_seconds": eta}
        return job(run, "sft", measure(values, state), info={"grid": "lr"})

    cells = [
        cell("a", "running", 50, 2 * HOUR), cell("b", "running", 100, HOUR), cell("c", "running"), cell("d", "pending"),
        cell("e", "preempted", 9, 9 * HOUR), cell("f", "succeeded", 200), cell("g", "failed", 3), cell("h", None),
    ]  # fmt: skip
    tables = {table.kind.key: table for table in fill_tables([*cells, sft_degraded()], NOW)}
    assert tables["sft"].notes == (
        "grid lr: 3 running / 2 pending / 1 done / 1 ended without success / 1 unknown; "
        "running: a 25.0 %, b 50.0 %, c —; long pole: a, ETA 2 h",
        "grid lr-sweep: 1 running / 0 pending / 0 done; running: delphi-1e23-p33m67-k0p20-lr0.67-b6607e 96.8 %; "
        "long pole: delphi-1e23-p33m67-k0p20-lr0.67-b6607e, ETA 2 d 4 h",
    )
    only_waiting = fill_tables([cell("d", "pending")], NOW)
    assert only_waiting[0].notes == ("grid lr: 0 running / 1 pending / 0 done",)


def test_json_has_metric_names_and_verdicts_as_keys() -> None:
    document = json.loads(tables_json(small_fleet(), NOW, None))
    assert document["now"] == NOW
    assert document["now_utc"] == "2026-03-01T12:00:00Z"
    assert [entry["run"] for entry in document["jobs"]] == [
        "rl-base", "tb2-eval", "delphi-1e23-p33m67-k0p20-lr0.67-b6607e", "cell-b", "cell-c", "rl-new", "cell-a",
        "rl-shaped", "datagen-x",
    ]  # fmt: skip
    first = document["jobs"][0]
    assert first["tables"] == ["rl", "training_health"]
    assert first["metrics"]["mljob_rl_reward"] == 0.4512
    assert first["metrics"]["mljob_gaps"] == [{"cause": "unknown", "value": 2.0}]
    assert first["verdicts"][1] == {"verdict": "grad_norm_high", "text": "grad 1.3, two steps"}
    assert document["grids"] == {
        "lr-sweep": [
            {"cell": "cell-a", "run": "cell-a", "site": "marin", "state": "done"},
            {"cell": "cell-b", "run": "cell-b", "site": "marin", "state": "running"},
            {"cell": "cell-c", "run": "cell-c", "site": "marin", "state": "pending"},
            {
                "cell": "delphi-1e23-p33m67-k0p20-lr0.67-b6607e",
                "run": "delphi-1e23-p33m67-k0p20-lr0.67-b6607e",
                "site": "marin",
                "state": "running",
            },
        ]
    }
    blind = document["jobs"][3]
    assert blind["blind_sources"] == [{"source": "history", "age_seconds": 1380.0, "ever_read": True}]
    assert document["jobs"][-1]["metrics"] == {}
    assert [entry["run"] for entry in json.loads(tables_json(small_fleet(), NOW, "datagen"))["jobs"]] == ["datagen-x"]
    assert json.loads(tables_json([nothing_measured()], NOW, "rl"))["jobs"] == []
