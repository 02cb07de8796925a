"""A day of healthy jobs fires nothing but what is listed with its reason, and one sick job among them is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.required_programs import required_program
from tests.scenarios.judge import rule_files
from tests.scenarios.quiet.fleet import PLACES, batch
from tests.scenarios.quiet.healthy import DAY, HOUR, MINUTE, Healthy, story_of
from tests.scenarios.quiet.listed import LISTED, WANDB_IS_OUT, judged
from tests.scenarios.quiet.quiet_days import watch_fleet
from tests.scenarios.quiet.training_jobs import WAITS_FOR_NODES
from tests.scenarios.quiet.watching import Fired, wandb_is_out, watch

STEP = 5 * MINUTE


@pytest.fixture(scope="module")
def promtool() -> None:
    """Without promtool nothing can be judged: skipped at home, a failure in CI."""
    required_program("prometheus", "promtool")


@pytest.mark.timeout(900)  # a machine that is shared may need long
@pytest.mark.usefixtures("promtool")
def test_a_quiet_day_fires_nothing_but_what_is_listed() -> None:
    day = watch_fleet(1, STEP)
    assert day.jobs >= 200
    assert day.evaluations == 24 * 12 + 1
    assert not day.judged.unlisted, "\n".join(day.judged.unlisted)
    assert not day.judged.unused(), "these are listed and excuse nothing: strike them out"


def _dead_since_an_hour() -> Healthy:
    """A run that makes steps of 30 s for an hour and then none, while its scheduler has it running."""
    document = {
        "bucket": "sft",
        "site": "marin",
        "scheduler": {"kind": "iris", "gang": 4, "states": [{"from": "-10m", "state": "running"}]},
        "history": [
            {
                "origin": "wandb",
                "alive": [["-9m", "10h"]],
                "values": {"train/loss": 2.0},
                "steps": [{"from": "0", "every": "30s", "until": "60m"}],
            }
        ],
    }
    return Healthy("sick", "dead", -600, DAY, story_of(document, -600, DAY))


@pytest.mark.usefixtures("promtool")
def test_one_dead_job_in_a_small_fleet_is_told(tmp_path: Path) -> None:
    well = [job for job in batch(0.1, 0, 10) if job.kind != "long-evaluations"]
    jobs = [*well, _dead_since_an_hour()]
    fired = watch(jobs, 0.1, STEP, rule_files(), tmp_path)
    # The last step is that of 60 min, its limit 15 min and a quarter of 20 steps: 17.5 min. True at 80 min, and at
    # 85 min for the five minutes that are waited; the last look is that of 140 min.
    assert judged(fired, jobs, 0.1, STEP).unlisted == (
        "MLJobStalled (critical) of sick (dead), site marin: day 0 01:25 to 0 02:20, for 55 min",
    )


def _preempted(origin: str = "wandb", resumed: float = 4 * HOUR) -> Healthy:
    history = [{"origin": origin, "steps": [{"at": "0"}]}]
    story = story_of({"bucket": "sft", "site": "marin", "history": history}, 0, DAY)
    return Healthy("p", "preempted", 0, DAY, story, {WAITS_FOR_NODES: ((2 * HOUR, resumed),)})


def _fired(name: str, severity: str, since: float, until: float, **labels: str) -> Fired:
    return Fired((("alertname", name), ("severity", severity), ("site", "marin"), *labels.items()), since, until)


def _unlisted(alert: Fired) -> bool:
    return bool(judged([alert], [_preempted()], 1, STEP).unlisted)


def test_a_listing_excuses_its_alert_severity_kind_and_time_only() -> None:
    assert not _unlisted(_fired("MLJobNotResumed", "warning", 2.8 * HOUR, 4 * HOUR, run="p"))
    assert _unlisted(_fired("MLJobNotResumed", "critical", 2.8 * HOUR, 4 * HOUR, run="p"))
    assert _unlisted(_fired("MLJobNotResumed", "warning", 2.8 * HOUR, 4.5 * HOUR, run="p"))
    assert _unlisted(_fired("MLJobNotResumed", "warning", HOUR, 4 * HOUR, run="p"))
    assert _unlisted(_fired("MLJobSilentStall", "warning", 2.8 * HOUR, 4 * HOUR, run="p"))
    assert _unlisted(_fired("MLJobNotResumed", "warning", 2.8 * HOUR, 4 * HOUR, run="somebody's"))


def test_an_alert_that_fires_when_wandb_goes_out_may_end_when_it_is_back() -> None:
    (out, back), late = wandb_is_out(1)[0], 5 * MINUTE

    def unlisted(origin: str, resumed: float, last: float) -> bool:
        alert = _fired("MLJobNotResumed", "warning", 2.8 * HOUR, last, run="p")
        return bool(judged([alert], [_preempted(origin, resumed)], 1, STEP).unlisted)

    assert not unlisted("wandb", out + late, back)
    assert unlisted("wandb", out + late, back + 2 * STEP)
    assert not unlisted("wandb", out - STEP, back)
    assert unlisted("wandb", out - STEP - 1, back)
    assert unlisted("jsonl", out + late, back)


def test_while_wandb_is_out_only_its_own_source_is_excused() -> None:
    (out,) = wandb_is_out(1)
    assert not _unlisted(_fired("RunwatchSourceDown", "warning", out[0] + 900, out[1], source="history"))
    assert _unlisted(_fired("RunwatchSourceDown", "warning", out[0] + 900, out[1], source="scheduler"))
    assert _unlisted(_fired("RunwatchSourceDown", "warning", out[0] + 900, out[1] + HOUR, source="history"))
    assert any(row.while_it == WANDB_IS_OUT for row in LISTED)


def test_the_fleet_has_every_bucket_and_every_kind_of_scheduler() -> None:
    jobs = batch(1, 0, 1)
    stories = [job.story for job in jobs]
    assert {story.bucket for story in stories} == {"sft", "rl", "eval", "datagen", "other"}
    assert {s.scheduler.kind if s.scheduler else "" for s in stories} == {"iris", "kubernetes", "slurm", ""}
    assert {history.origin for story in stories for history in story.history} == {"wandb", "jsonl", "log"}
    assert len({story.site for story in stories}) == 5
    assert len({job.run for job in jobs}) == len(jobs) >= 200
    assert {kind for kind, _, _ in PLACES} == {job.run.rpartition("-")[0].rpartition("-")[0] for job in jobs}
