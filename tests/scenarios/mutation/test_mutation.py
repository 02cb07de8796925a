"""The corpus tells the rules from any single change of them: a threshold, an operator, a `for`, a severity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.judge import play, rule_files
from tests.scenarios.mutation.equivalent import EQUIVALENTS
from tests.scenarios.mutation.mutants import mutants_of, read_rules
from tests.scenarios.mutation.score import known_survivors, played_in_processes, score
from tests.scenarios.played import shared_folder
from tests.scenarios.test_scenarios import CORPUS, promtool  # noqa: F401  # the fixture: without promtool nothing can be judged

WANTED = 0.95


@pytest.mark.timeout(900)  # some minutes on two cores; three more where nobody has simulated the scenarios yet
def test_scenarios_kill_mutants_of_the_rules(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]
) -> None:
    played = played_in_processes(CORPUS, shared_folder(tmp_path_factory))
    result = score(rule_files(), played, tmp_path, given_up=known_survivors())
    record_property("printed", "\n".join(result.lines()))
    assert result.share >= WANTED, "\n".join(result.lines())


def test_every_known_survivor_is_a_mutant() -> None:
    names = {mutant.name for mutant in mutants_of(read_rules(rule_files()))}
    stale = known_survivors() - names
    assert not stale, f"`make survivors` finds them anew: {sorted(stale)}"


def test_a_survivor_that_is_known_is_not_run_and_counts(tmp_path: Path) -> None:
    rules, scenario = tmp_path / "rules.yaml", tmp_path / "few.yaml"
    rules.write_text(_RULES)
    scenario.write_text(_SCENARIO)
    killed = "MLJobFew: line 1: > → <"
    found = score([rules], [play(scenario)], tmp_path).survivors
    assert killed not in {mutant.name for mutant in found}
    with_it = score([rules], [play(scenario)], tmp_path, given_up=frozenset({killed})).survivors
    assert {mutant.name for mutant in with_it} == {killed, *(mutant.name for mutant in found)}


def test_every_reason_for_equivalence_is_about_a_mutant() -> None:
    mutants = mutants_of(read_rules(rule_files()))
    idle = [kind for kind in EQUIVALENTS if not any(kind.is_one(mutant) for mutant in mutants)]
    assert idle == []


_RULES = """\
groups:
- name: few
  rules:
  - record: mljob:loss
    expr: max by (run, site, bucket) (mljob_loss)
  - alert: MLJobFew
    expr: mljob:loss > 2.2 and mljob:loss < 100
    for: 2m
    labels: {severity: warning}
"""

_SCENARIO = """\
about: The loss goes from 2 to 3.
covers: ["MLJobFew: fires"]
minutes: 14
jobs:
  p33:
    bucket: sft
    history:
      - origin: wandb
        values: {train/loss: 2.0}
        steps:
          - {from: -10m, every: 1m, until: 4m}
          - {from: 5m, every: 1m, until: 14m, values: {train/loss: 3.0}}
expect:
  - {alert: MLJobFew, severity: warning, from: 7m}
"""


def test_what_no_scenario_tells_survives(tmp_path: Path) -> None:
    """By hand: 2.0 lies between 1.76 and 2.2; 3.0 is above 2.75 as above 2.2, and nothing is near 100."""
    rules, scenario = tmp_path / "rules.yaml", tmp_path / "few.yaml"
    rules.write_text(_RULES)
    scenario.write_text(_SCENARIO)
    result = score([rules], [play(scenario)], tmp_path)
    survivors = [mutant.change for mutant in result.survivors]
    assert survivors == [
        "line 1: > → >=",
        "line 1: 2.2 → 2.75",
        "line 1: and … dropped",
        "line 1: < → <=",
        "line 1: 100 → 80",
        "line 1: 100 → 125",
    ]
    assert len(result.mutants) == 14
