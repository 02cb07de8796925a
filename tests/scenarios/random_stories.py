"""Jobs that a seed makes up: they wait, run, fall, go on and end, and their steps, saves and results follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.scenarios.format import Scenario

_MINUTE, _HOUR = 60, 3600
_MOST_STATES = 25
_MOST_STEPS = 3000

Json = dict[str, Any]


def random_scenario(seed: int, **exporter: object) -> Scenario:
    """Make three jobs and how one exporter watches them: what the seed is the same for is the same story.

    Args:
        seed: Of all that happens.
        exporter: Keys of the exporter, as in a scenario file.
    """
    random = Random(seed)
    minutes = random.choice([30, 60, 120])
    jobs = {f"job-{number}": _job(random, minutes * _MINUTE) for number in range(3)}
    content = {"about": "made up", "covers": [], "minutes": minutes, "jobs": jobs, "exporters": {"a": exporter}}
    return Scenario.model_validate(content)


@dataclass(slots=True)
class _Life:
    """What a scheduler does with a job, seconds. `spans` are those in which it runs, `end` is when it is over."""

    states: list[Json] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    end: int | None = None

    def becomes(self, at: int, state: str, **more: object) -> None:
        self.states.append({"from": f"{at}s", "state": state, **more})


def _job(random: Random, watched: int) -> Json:
    bucket = random.choice(["sft", "sft", "rl", "eval", "datagen", "other"])
    kind = random.choice(["iris", "kubernetes", "slurm"])
    life = _life(random, kind, watched)
    job: Json = {"bucket": bucket, "site": "lab", "log": {"written": _times(life)}}
    if random.random() < 0.8:
        job["scheduler"] = {"kind": kind, "gang": random.choice([1, 4]), "states": life.states}
    every = random.choice([8, 30, 60, 300, 1800])
    steps = [] if bucket == "other" else _steps(random, bucket, life, every)
    if steps:
        job["history"] = [_history(random, life, steps)]
    if steps and bucket in {"sft", "rl"} and random.random() < 0.5:
        job["checkpoints"] = [_saves(random, each, every) for each in steps[:6]]
    if bucket in {"eval", "datagen"} or (bucket == "rl" and random.random() < 0.4):
        job["trials"] = {"target": random.choice([None, 5, 50, 500]), "results": _results(random, life)}
    return job


def _times(life: _Life) -> list[list[str]]:
    return [[f"{since}s", f"{until}s"] for since, until in life.spans]


def _life(random: Random, kind: str, watched: int) -> _Life:
    life = _Life()
    now = -random.randint(0, 600) * _MINUTE
    link = 0
    if random.random() < 0.4:
        life.becomes(now, "pending", waiting=random.choice(["queue", "capacity", ""]))
        now += random.randint(1, 90) * _MINUTE
    while now <= watched and len(life.states) < _MOST_STATES:
        life.becomes(now, "running", **({"link": f"link-{link}"} if kind == "slurm" else {}))
        began = now
        now += random.choice([random.randint(60, 600), random.randint(600, 2 * _HOUR), random.randint(1, 11) * _HOUR])
        life.spans.append((began, now))
        what = random.random()
        if what < 0.5:
            life.becomes(now, "preempted")
            now += random.randint(30, 9000)
        elif what < 0.6 and kind == "slurm":
            link += 1
            life.becomes(now, "timeout", successor={"scheduler_job": f"link-{link}"})
            now += random.randint(30, 3000)
        elif what < 0.7:
            life.becomes(now, "pending")
            now += random.randint(30, 3000)
        else:
            life.becomes(now, random.choice(["succeeded", "failed", "killed", "timeout"]))
            life.end = now
            break
    return life


def _steps(random: Random, bucket: str, life: _Life, every: int) -> list[Json]:
    """Return the rows of each attempt, of which some do steps of the one before again."""
    parts: list[Json] = []
    following = 0
    for began, ended in life.spans:
        since = began + random.choice([0, 120, 600, 1800])
        count = min(_MOST_STEPS, (ended - since) // every)
        if count <= 0:
            continue
        first = max(0, following - random.choice([0, 0, 5, 40]))
        values: Json = {"train/loss": [2.0, random.choice([1.0, 9.0, 0.0])], "grad/norm/total": 0.5}
        if bucket == "rl":
            norm, entropy = [0.4, random.choice([0.4, 2.0])], [0.5, random.choice([0.5, 0.1])]
            values = {"policy/raw_grad_norm": norm, "policy/policy_entropy": entropy}
        parts.append({"from": f"{since}s", "every": f"{every}s", "count": count, "first": first, "values": values})
        following = first + count
    return parts


def _history(random: Random, life: _Life, steps: list[Json]) -> Json:
    origin = random.choice(["wandb", "jsonl", "log"])
    history: Json = {"origin": origin, "steps": steps, "clock": random.choice(["0", "20s", "-50s"])}
    last = steps[-1]["first"] + steps[-1]["count"] - 1
    if random.random() < 0.6:
        history["config"] = {"trainer": {"num_train_steps": max(1, last + random.choice([-2, 0, 1, 100]))}}
    if origin == "wandb":
        history |= {"created": f"{life.spans[0][0]}s", "alive": _times(life)}
        if life.end is not None and random.random() < 0.7:
            history["end"] = {"at": f"{life.end - 5}s", "how": random.choice(["succeeded", "failed", "killed"])}
    return history


def _saves(random: Random, steps: Json, every: int) -> Json:
    stride = max(1, steps["count"] // 4)
    since = int(steps["from"][:-1]) + stride * every
    rhythm = {"from": f"{since}s", "every": f"{stride * every}s", "count": 3}
    return {**rhythm, "step": steps["first"] + stride, "stride": stride, "partial": random.random() < 0.1}


def _results(random: Random, life: _Life) -> list[Json]:
    return [
        {
            "from": f"{began + 60}s",
            "every": f"{random.choice([30, 120, 600])}s",
            "until": f"{min(ended, began + 5 * _HOUR)}s",
            "reward": random.choice([0.0, 1.0, None]),
            "turns": random.choice([1.0, 8.0, None]),
        }
        for began, ended in life.spans[:8]
        if ended - began > 300
    ]
