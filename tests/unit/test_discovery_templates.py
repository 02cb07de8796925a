"""Filling templates and choosing what their `*` stands for."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.config.model import Discovery, HistorySource, Trials
from runwatch.found.places import Places, places_of, starred_templates
from runwatch.found.templates import Candidate, StarPattern, choose, fill, split_star, wants_times


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"name": "a..b", "arm": "x"}, "gs://b/a..b/x"),
        ({"name": " a ", "arm": "{name}x"}, None),
        ({"name": "a", "arm": None}, None),
        ({"name": "a"}, None),
        ({"name": "", "arm": "x"}, None),
        ({"name": "..", "arm": "x"}, None),
        ({"name": "a/b", "arm": "x"}, None),
        ({"name": "a\\b", "arm": "x"}, None),
        ({"name": "a*", "arm": "x"}, None),
        ({"name": "a\nb", "arm": "x"}, None),
        ({"name": "a\0", "arm": "x"}, None),
        ({"name": "$(rm -rf) `x`; 'q' \"=|", "arm": "x"}, "gs://b/$(rm -rf) `x`; 'q' \"=|/x"),
    ],
)
def test_values_are_data(values: dict[str, str | None], expected: str | None) -> None:
    assert fill("gs://b/{name}/{arm}", values) == expected


def test_a_template_is_taken_apart_at_its_star() -> None:
    assert split_star("gs://b/c/run-*") == StarPattern("gs://b/c", "run-", "", "")
    assert split_star("/data/*-run/checkpoints/x") == StarPattern("/data", "", "-run", "/checkpoints/x")
    assert split_star("/run-*") == StarPattern("", "run-", "", "")
    assert split_star("gs://b/c") is None
    pattern = StarPattern("e/p", "run-", "-z", "")
    assert [pattern.star_of(name) for name in ("run-1-z", "run--z", "run-z", "other-1-z", "run-1")] == [
        "1",
        "",
        None,  # the two given parts may not share a character
        None,
        None,
    ]
    assert split_star("/data/r-*/c").address("r-1") == "/data/r-1/c"  # type: ignore[union-attr]
    for twice in ("/a-*/b-*", "/a-*-*"):
        with pytest.raises(ValueError, match="one"):
            split_star(twice)


def chosen(child: str, *candidates: Candidate, earlier: str = "") -> str | None:
    found = choose(candidates, child, earlier)
    return None if found is None else found.name


OLD, NEW = Candidate("run-aa11", "aa11", 10.0), Candidate("run-bb22", "bb22", 20.0)
UNDATED = Candidate("run-cc33", "cc33")


def test_the_one_that_exists_is_meant_whatever_the_child_is_called() -> None:
    assert chosen("") is None
    assert chosen("", UNDATED) == "run-cc33"
    assert chosen("checkpoints-other_dd44", OLD) == "run-aa11"


def test_of_several_the_one_that_the_childs_name_holds() -> None:
    assert chosen("checkpoints-run_aa11-efc771c2", OLD, NEW, UNDATED) == "run-aa11"
    assert chosen("checkpoints-run-cc33", OLD, NEW, UNDATED) == "run-cc33"
    # As a word of its own, not as a part of another.
    assert chosen("checkpoints-run_aa112", OLD, NEW) == "run-bb22"
    one, twelve = Candidate("r-12", "12", 5.0), Candidate("r-a-12", "a-12", 1.0)
    assert chosen("train-a-12", one, twelve) == "r-a-12"


def test_else_the_newest_and_none_where_no_time_tells() -> None:
    assert chosen("", OLD, NEW, UNDATED) == "run-bb22"
    assert chosen("", UNDATED, Candidate("run-dd", "dd")) is None
    assert chosen("", Candidate("run-x", "x", 20.0), NEW) == "run-x"  # of the same age: by name


def test_an_earlier_choice_stays_until_the_child_tells_otherwise() -> None:
    assert chosen("train", OLD, NEW, earlier="run-aa11") == "run-aa11"
    assert chosen("train-bb22", OLD, NEW, earlier="run-aa11") == "run-bb22"
    assert chosen("train", OLD, NEW, earlier="run-gone") == "run-bb22"


def test_times_are_asked_for_only_where_they_decide() -> None:
    assert wants_times([OLD], "") == ()
    assert wants_times([OLD, NEW], "") == [OLD, NEW]
    assert wants_times([OLD, NEW], "child-aa11") == ()
    assert wants_times([OLD, NEW], "", "run-aa11") == ()


CANDIDATES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(0, 3).map(float))),
    max_size=6,
    unique_by=lambda pair: pair[0],
)


@settings(max_examples=100)
@given(CANDIDATES, st.sampled_from(["", "a", "x-b_c", "d e"]), st.sampled_from(["", "n-a", "n-z"]), st.integers())
def test_the_choice_hangs_on_no_order(
    pairs: list[tuple[str, float | None]], child: str, earlier: str, seed: int
) -> None:
    candidates = [Candidate(f"n-{star}", star, time) for star, time in pairs]
    shuffled = list(candidates)
    Random(seed).shuffle(shuffled)
    assert choose(candidates, child, earlier) == choose(shuffled, child, earlier)


DISCOVERY = Discovery.model_validate(
    {
        "site": "m",
        "match": "x",
        "bucket": "sft",
        "history": [{"wandb": "e/p/{name}-*"}, {"jsonl": "/rows/{name}.jsonl"}, {"log": "/logs/{name}/*.out"}],
        "checkpoints": ["gs://b/{name}-*", "/local/{name}"],
        "trials": {"path": "/trials/{name}-*", "target": 3},
    }
)


def test_what_is_not_resolved_is_left_out() -> None:
    assert places_of(DISCOVERY, {"name": "r"}) == Places(
        history=(HistorySource.model_validate({"jsonl": "/rows/r.jsonl"}), HistorySource(log="/logs/r/*.out")),
        checkpoints=("/local/r",),
    )
    resolved = {"e/p/r-*": "e/p/r-1", "gs://b/r-*": "gs://b/r-2", "/trials/r-*": "/trials/r-3"}
    everything = places_of(DISCOVERY, {"name": "r"}, resolved)
    assert [source.wandb for source in everything.history] == ["e/p/r-1", None, None]
    assert everything.checkpoints == ("gs://b/r-2", "/local/r")
    assert everything.trials == Trials(path="/trials/r-3", target=3)
    assert places_of(DISCOVERY, {"name": "../r"}, resolved) == Places()


def test_templates_with_a_star_and_what_they_lead_to() -> None:
    assert starred_templates(DISCOVERY, {"name": "r"}) == {
        "e/p/r-*": "wandb",
        "gs://b/r-*": "folder",
        "/trials/r-*": "folder",
    }
    assert starred_templates(DISCOVERY, {"name": "a/b"}) == {}
