"""`explain`: every value, every verdict with figure and rule, evidence by topic, times in UTC."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from runwatch.measurements import Evidence, JobReport
from runwatch.report.explain import explain_json, explain_text
from tests.unit.small_fleet import HOUR, NOW, job, measure, nothing_measured, rl_collapsing, sft_blind

EVIDENCE = (
    Evidence(
        "gaps",
        "no step for 1 h, explained by nothing",
        {
            "start_timestamp_seconds": NOW - 2 * HOUR,
            "end_timestamp_seconds": NOW - HOUR + 0.5,
            "length_seconds": 3600.5,
            "cause": "unexplained",
            "checked": True,
            "interruption": None,
        },
    ),
    Evidence("values", "loss is not finite", {"loss": math.nan, "step": 41}),
    Evidence("gaps", "a second \x1b[31mgap"),
)


def with_evidence() -> JobReport:
    return replace(rl_collapsing(), evidence=EVIDENCE)


def test_text() -> None:
    report = job(
        "cell-b",
        "sft",
        measure({"step": 320, "eta_seconds": 2700, "last_step_timestamp_seconds": NOW - 60.25,
                 "observed_timestamp_seconds": {"history": NOW - 23 * 60},
                 "source_configured_timestamp_seconds": {"history": NOW - 7200, "checkpoints": NOW - 60},
                 "goodput_ratio": 0.1}),
        [("unobserved", "history not read for 23 min")],
        info={"kind": "midtraining", "owner": ""},
        evidence=EVIDENCE,
    )  # fmt: skip
    assert (
        explain_text(report, NOW)
        == """\
cell-b (bucket sft, site marin) at 2026-03-01T12:00:00Z

identity
  kind: midtraining

verdicts, worst first
  unobserved: history not read for 23 min [holds when: a source did not answer for max(5 min, 3 × its interval), or \
never within 45 min]

sources
  checkpoints: never answered, asked since 2026-03-01T11:59:00Z
  history: last answered 2026-03-01T11:37:00Z, 23 min ago, asked since 2026-03-01T10:00:00Z (blind)

values
  mljob_source_configured_timestamp_seconds{source="checkpoints"} = 2026-03-01T11:59:00Z (1772366340)
  mljob_source_configured_timestamp_seconds{source="history"} = 2026-03-01T10:00:00Z (1772359200)
  mljob_observed_timestamp_seconds{source="history"} = 2026-03-01T11:37:00Z (1772365020)
  mljob_step = 320
  mljob_last_step_timestamp_seconds = 2026-03-01T11:58:59.750Z (1772366339.75)
  mljob_eta_seconds = 2700 s (45 min)
  mljob_goodput_ratio = 0.1

evidence: gaps
  no step for 1 h, explained by nothing [start_timestamp_seconds=2026-03-01T10:00:00Z, \
end_timestamp_seconds=2026-03-01T11:00:00.500Z, length_seconds=3600.5 s, cause=unexplained, checked=True, \
interruption=—]
  a second \\x1b[31mgap

evidence: values
  loss is not finite [loss=nan, step=41]
"""
    )


def test_every_measurement_is_told() -> None:
    report = with_evidence()
    text = explain_text(report, NOW)
    for name in report.measurements.names():
        series = len(report.measurements.family(name))
        assert sum(line.strip().startswith((f"{name} ", f"{name}{{")) for line in text.splitlines()) == series


def test_a_verdict_has_its_figure_and_its_threshold() -> None:
    text = explain_text(with_evidence(), NOW)
    assert "  entropy_drift: entropy −34 % vs trend [holds when: RL: entropy off its 10-step trend by > 30 %]\n" in text


def test_nothing_measured() -> None:
    assert (
        explain_text(nothing_measured(), NOW)
        == """\
datagen-x (bucket datagen, site marin) at 2026-03-01T12:00:00Z

identity
  —

verdicts, worst first
  —

sources
  —

values
  —
"""
    )


def test_json() -> None:
    document = json.loads(explain_json(with_evidence(), NOW))
    assert document["run"] == "rl-base"
    assert document["now_utc"] == "2026-03-01T12:00:00Z"
    assert document["verdicts"][2]["verdict"] == "entropy_drift"
    assert document["verdicts"][2]["rule"] == "RL: entropy off its 10-step trend by > 30 %"
    assert document["metrics"]["mljob_rl_grad_norm"] == 1.31
    assert document["evidence"]["gaps"][0]["fields"] == {
        "start_timestamp_seconds": NOW - 7200,
        "start_utc": "2026-03-01T10:00:00Z",
        "end_timestamp_seconds": NOW - 3599.5,
        "end_utc": "2026-03-01T11:00:00.500Z",
        "length_seconds": 3600.5,
        "cause": "unexplained",
        "checked": True,
        "interruption": None,
    }
    assert document["evidence"]["values"][0]["fields"] == {"loss": "nan", "step": 41}
    assert document["blind_sources"] == []


def test_a_short_time_is_not_rounded_to_another() -> None:
    values = {"step_duration_seconds": 0.0469, "step_duration_recent_seconds": 8, "eta_seconds": 90}
    text = explain_text(job("x", "sft", measure(values)), NOW)
    assert "  mljob_step_duration_seconds = 0.0469 s\n" in text
    assert "  mljob_step_duration_recent_seconds = 8 s\n" in text
    assert "  mljob_eta_seconds = 90 s (2 min)\n" in text


def test_several_values_are_a_list() -> None:
    fields = {"signals": ["entropy", "grad_norm"], "steps": (41, 42.5), "none": []}
    report = replace(rl_collapsing(), evidence=(Evidence("verdicts", "two hold", fields),))
    assert "  two hold [signals=[entropy, grad_norm], steps=[41, 42.5], none=[]]\n" in explain_text(report, NOW)
    document = json.loads(explain_json(report, NOW))
    assert document["evidence"]["verdicts"][0]["fields"] == {
        "signals": ["entropy", "grad_norm"], "steps": [41, 42.5], "none": [],
    }  # fmt: skip


def test_json_tells_blind_sources() -> None:
    document = json.loads(explain_json(sft_blind(), NOW))
    assert document["blind_sources"] == [{"source": "history", "age_seconds": 1380.0, "ever_read": True}]
