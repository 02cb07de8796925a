"""Which mutants of the rules some scenario tells from the rules as they are."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.format import Scenario, load_scenario
from tests.scenarios.judge import Played
from tests.scenarios.mutation.equivalent import reason_of
from tests.scenarios.mutation.mutants import Mutant, mutants_of, read_rules
from tests.scenarios.mutation.rename import RuleBook
from tests.scenarios.mutation.trial import killed
from tests.scenarios.played import play_once

SURVIVORS = Path(__file__).with_name("survivors.txt")
WORKERS = 2
JUDGES = 6
"""How many alerts may judge a change of a recording, one after another, until one of them tells it."""


@dataclass(frozen=True, slots=True)
class Score:
    """What became of the mutants that change what the rules say."""

    mutants: tuple[Mutant, ...]
    survivors: tuple[Mutant, ...]

    @property
    def share(self) -> float:
        """The share that a scenario kills, 0 to 1."""
        return 1 - len(self.survivors) / len(self.mutants)

    def lines(self) -> list[str]:
        """Return it in words: the score, and each survivor."""
        count = len(self.mutants) - len(self.survivors)
        head = f"mutants of the rules killed by scenarios: {count} of {len(self.mutants)}, {self.share:.1%}"
        return [head, *(f"  survives: {mutant.name}" for mutant in self.survivors)]


def is_about(scenario: Scenario, alert: str) -> bool:
    """Tell whether a scenario says anything of an alert: that it fires, or that it does not."""
    covered = {words.partition(": ")[0] for words in scenario.covers}
    return alert in covered | {firing.alert for firing in scenario.expect}


def known_survivors() -> frozenset[str]:
    """Return the names of the mutants that no scenario killed when `make survivors` last ran them all."""
    return frozenset(SURVIVORS.read_text().splitlines())


def score(
    rule_paths: Sequence[Path], played: Sequence[Played], folder: Path, given_up: frozenset[str] = frozenset()
) -> Score:
    """Run every mutant through the scenarios that are about its alert, until one kills it.

    Args:
        rule_paths: the rule files.
        played: the scenarios.
        folder: where files may be written.
        given_up: names of mutants that are not run and count as survivors: those take longest.

    Raises:
        HarnessError: promtool refuses the rules, or an alert as it is does not fire as often as a scenario says.
    """
    book = RuleBook(read_rules(list(rule_paths)))
    mutants = [mutant for mutant in mutants_of(book.rules) if not reason_of(mutant)]
    alive = [mutant for mutant in mutants if mutant.name not in given_up]
    for turn in range(JUDGES):
        by_alert: dict[str, list[Mutant]] = {}
        for mutant in alive:
            judges = book.judges(mutant.unit)
            if turn < len(judges):
                by_alert.setdefault(judges[turn], []).append(mutant)

        def run(alert: str, by_alert: Mapping[str, list[Mutant]] = by_alert, turn: int = turn) -> set[str]:
            below = folder / str(turn)
            below.mkdir(exist_ok=True)
            about = [p for p in played if is_about(p.scenario, alert)]
            return killed(alert, by_alert[alert], book, about, below)

        by_size = sorted(by_alert, key=lambda alert: (-len(by_alert[alert]), alert))
        with ThreadPoolExecutor(WORKERS) as pool:
            dead = set().union(*_all(pool, run, by_size))
        alive = [mutant for mutant in alive if mutant.name not in dead]
    living = {mutant.name for mutant in alive} | given_up
    return Score(tuple(mutants), tuple(mutant for mutant in mutants if mutant.name in living))


def _all(pool: Executor, run: Callable[[str], set[str]], alerts: Iterable[str]) -> list[set[str]]:
    return list(pool.map(run, alerts))


def played_in_processes(scenarios: Sequence[Path], folder: Path) -> list[Played]:
    """Return scenarios, simulated in processes of their own (it is Python alone that works here) or found in a folder.

    The shortest come first: `test_scenarios.py`, which may run at the same time, begins with the longest.
    """
    shortest_first = sorted(scenarios, key=lambda path: len(load_scenario(path).watched))
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(play_once, shortest_first, [folder] * len(scenarios), chunksize=4))
