"""A real Prometheus scrapes the real exporter on the demo's captures, and answers a query for every metric."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from runwatch.catalogue import METRICS
from runwatch.demo.fleet import BRINGUP, ENDED, EVAL, FAILED, LIVE, LOGGED, RL, write_fleet
from runwatch.metric_kinds import Section
from tests.e2e.prometheus_process import Prometheus, prometheus_program, scraping
from tests.e2e.prometheus_tools import promtool
from tests.e2e.running_exporter import Exporter, serving
from tests.e2e.running_server import eventually

# Written down by hand from the contract, so that neither the catalogue nor the demo can lose one unnoticed.
NAMES = {
    Section.PROGRESS: """
        mljob_step mljob_target_step mljob_first_step_timestamp_seconds mljob_last_step_timestamp_seconds
        mljob_step_duration_seconds mljob_step_duration_recent_seconds mljob_tokens_per_second
        mljob_tokens_per_second_baseline mljob_eta_seconds mljob_eta_with_interruptions_seconds
        mljob_gap_threshold_seconds mljob_gaps mljob_gap_seconds mljob_longest_gap_seconds
        mljob_gap_end_timestamp_seconds mljob_goodput_ratio mljob_replayed_steps mljob_loss mljob_grad_norm
        mljob_learning_rate mljob_validation_loss mljob_rl_eval_score mljob_accelerators mljob_loss_trend_ratio
        mljob_grad_norm_window_ratio mljob_loss_trend_last5_min_ratio mljob_nonfinite
    """,
    Section.CHECKPOINTS: """
        mljob_checkpoint_step mljob_checkpoint_timestamp_seconds mljob_checkpoint_lag_steps
        mljob_checkpoint_interval_seconds mljob_checkpoints
    """,
    Section.RL: """
        mljob_rl_reward mljob_rl_pass_at_n mljob_rl_policy_loss mljob_rl_policy_entropy mljob_rl_grad_norm
        mljob_rl_ppo_clip_ratio mljob_rl_z_clip_triggered mljob_rl_tis_importance_ratio mljob_rl_tis_capped_ratio
        mljob_rl_log_ratio_abs mljob_rl_log_ratio_abs_by_position mljob_rl_tis_log_ratio_abs_mean
        mljob_rl_diverged_tokens mljob_rl_generated_tokens mljob_rl_step mljob_rl_timing_seconds
        mljob_rl_grad_norm_last2_min mljob_rl_grad_norm_window_ratio mljob_rl_log_ratio_abs_mean_window_ratio
        mljob_rl_log_ratio_abs_max_window_ratio mljob_rl_entropy_deviation_ratio mljob_rl_collapse_step
        mljob_rl_trial_pass_ratio mljob_rl_trials_in_window
    """,
    Section.EXPORTER: """
        runwatch_build_info runwatch_source_up runwatch_source_interval_seconds
        runwatch_source_last_success_timestamp_seconds runwatch_source_errors_total runwatch_source_requests_total
        runwatch_poll_duration_seconds runwatch_jobs runwatch_series runwatch_jobs_dropped
        runwatch_history_rows_malformed_total runwatch_config_last_reload_successful
        runwatch_config_last_reload_success_timestamp_seconds runwatch_log_lines_unparsed_total
    """,
}
# Of the section Trials: what an eval has that nothing serves (chunks, engine and upload are datagen's and the log's).
TRIAL_NAMES = """
    mljob_trials mljob_trials_target mljob_last_trial_timestamp_seconds mljob_trials_scored mljob_trials_agent_ran
    mljob_trial_pass_ratio mljob_trial_reward mljob_trial_turns mljob_trial_exceptions mljob_trial_exception_ratio
    mljob_trial_instant_failures
"""
PROCESS_NAMES = "process_cpu_seconds_total process_resident_memory_bytes process_start_time_seconds process_open_fds"


@dataclass(frozen=True)
class Scraped:
    exporter: Exporter
    prometheus: Prometheus
    config: Path


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """The demo's jobs as they are at its start, watched and scraped; nothing of them goes on."""
    prometheus_program()
    folder = tmp_path_factory.mktemp("scraped")
    fleet = write_fleet(folder, port=0, now=time.time())
    with (
        serving(fleet.config) as exporter,
        scraping(exporter.port, folder, {"cluster": "scrapers-own"}) as prometheus,
    ):
        eventually(lambda: len(prometheus.query("mljob_info")) == 9, "all jobs were scraped", 60)
        yield Scraped(exporter, prometheus, fleet.config)


@pytest.mark.parametrize("section", NAMES)
def test_the_list_is_that_of_the_catalogue(section: Section) -> None:
    of_catalogue = [metric.name for metric in METRICS.values() if metric.section is section]
    assert sorted(NAMES[section].split()) == sorted(of_catalogue)


@pytest.mark.parametrize("section", NAMES)
def test_every_metric_can_be_queried(scraped: Scraped, section: Section) -> None:
    def selector(name: str) -> str:
        return f"{name}_bucket" if METRICS[name].kind == "histogram" else name

    without = [name for name in NAMES[section].split() if not scraped.prometheus.query(selector(name))]
    assert without == []


def test_metrics_of_trials_can_be_queried(scraped: Scraped) -> None:
    assert [name for name in TRIAL_NAMES.split() if not scraped.prometheus.query(name)] == []


def test_process_metrics_can_be_queried(scraped: Scraped) -> None:
    assert [name for name in PROCESS_NAMES.split() if not scraped.prometheus.query(name)] == []


# Worked out from the plan of the replays (`demo/fleet.py`) and the captures. First gap: 51 steps done again and the
# first new one, 2 s each, and 360 s down; second: 540 s and one step. RL: 9 steps done again, one new, 5 s each, 480 s.
VALUES = {
    f'mljob_step{{run="{ENDED}"}}': 299,
    f'mljob_checkpoint_step{{run="{ENDED}"}}': 6,
    f'mljob_step{{run="{LIVE}"}}': 899,
    f'mljob_gaps{{run="{LIVE}",cause="unknown"}}': 2,
    f'mljob_gap_seconds{{run="{LIVE}",cause="unknown"}}': (51 + 1) * 2 + 360 + 540 + 2,
    f'mljob_longest_gap_seconds{{run="{LIVE}"}}': 542,
    f'mljob_replayed_steps{{run="{LIVE}"}}': 51,
    f'mljob_tokens_per_second{{run="{LIVE}"}}': 16 * 4096 / 2,
    f'mljob_eta_seconds{{run="{LIVE}"}}': (20_000 - 900) * 2,
    f'mljob_checkpoints{{run="{LIVE}",completeness="partial"}}': 1,
    f'mljob_checkpoint_step{{run="{LIVE}"}}': 851,
    f'mljob_accelerators{{run="{LIVE}",type="v5p"}}': 64,
    f'mljob_nonfinite{{run="{LIVE}",metric="loss"}}': 0,
    f'mljob_nonfinite{{run="{FAILED}",metric="loss"}}': 1,
    f'mljob_exit_code{{run="{FAILED}"}}': 1,
    f'mljob_state{{run="{FAILED}",state="failed"}}': 1,
    f'mljob_phase{{run="{BRINGUP}",phase="bringup"}}': 1,
    f'mljob_rl_step{{run="{RL}"}}': 90,
    f'mljob_rl_collapse_step{{run="{RL}"}}': 47,
    f'mljob_replayed_steps{{run="{RL}"}}': 9,
    f'mljob_gap_seconds{{run="{RL}",cause="unknown"}}': (9 + 1) * 5 + 480,
    f'mljob_checkpoint_step{{run="{RL}"}}': 90,
    f'count(mljob_rl_log_ratio_abs_by_position{{run="{RL}"}})': 10,
    f'count(mljob_rl_log_ratio_abs{{run="{RL}"}})': 3,
    f'count(mljob_rl_pass_at_n{{run="{RL}",n="8"}})': 1,
    f'runwatch_history_rows_malformed_total{{run="{LIVE}"}}': 1,
    f'mljob_step{{run="{LOGGED}"}}': 50,
    f'mljob_loss{{run="{LOGGED}"}}': 3.117,
    f'mljob_trials{{run="{EVAL}"}}': 16,
    f'mljob_trials_scored{{run="{EVAL}"}}': 12,
    f'mljob_trial_pass_ratio{{run="{EVAL}"}}': 0.5,
    f'mljob_rl_trials_in_window{{run="{RL}"}}': 12,
    'runwatch_jobs{bucket="sft"}': 5,
    'runwatch_source_up{source="history",site="lab"}': 1,
    "sum(runwatch_source_errors_total)": 0,
    "runwatch_jobs_dropped": 0,
}


@pytest.mark.parametrize("expression", VALUES)
def test_values_are_those_of_the_captures(scraped: Scraped, expression: str) -> None:
    assert scraped.prometheus.value(expression) == pytest.approx(VALUES[expression], rel=1e-6)


def test_no_label_clashes_with_the_targets_own(scraped: Scraped) -> None:
    labels = scraped.prometheus.api("labels")
    assert isinstance(labels, list)
    assert {"run", "bucket", "site", "source", "cluster"} <= set(labels)
    assert [label for label in labels if label.startswith("exported_")] == []
    [(series, _)] = scraped.prometheus.query(f'mljob_step{{run="{LIVE}"}}')
    target = {"job": "runwatch", "instance": f"127.0.0.1:{scraped.exporter.port}", "cluster": "scrapers-own"}
    own = {"run": LIVE, "bucket": "sft", "site": "lab", "__name__": "mljob_step"}
    assert series == own | target


def test_promtool_finds_nothing_in_the_body(scraped: Scraped) -> None:
    checked = promtool("check", "metrics", stdin=scraped.exporter.metrics().encode())
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_series_vanish_with_their_job(tmp_path: Path) -> None:
    prometheus_program()
    fleet = write_fleet(tmp_path, port=0, now=time.time())
    with serving(fleet.config) as exporter, scraping(exporter.port, tmp_path, {}) as prometheus:
        eventually(lambda: len(prometheus.query("mljob_info")) == 9, "all jobs were scraped", 60)
        settings = yaml.safe_load(fleet.config.read_text())
        settings["jobs"] = [job for job in settings["jobs"] if job["run"] != RL]
        fleet.config.write_text(yaml.safe_dump(settings))
        os.kill(exporter.process.pid, signal.SIGHUP)
        eventually(lambda: f'run="{RL}"' not in exporter.metrics(), "the exporter dropped the job")
        # Series that merely stopped coming would stay for five minutes.
        eventually(lambda: not prometheus.query(f'{{run="{RL}"}}'), "Prometheus dropped the job", 100)
        assert len(prometheus.query("mljob_info")) == 8
