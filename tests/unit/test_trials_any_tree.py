"""Whatever lies below a root, a look ends with an update or a typed failure, and never with more trials than files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from runwatch.derive.trials import measure_trials, summarise_trials
from runwatch.facts import FailureReason, TrialsUpdate
from runwatch.measurements import Measurements
from tests.unit.trial_trees import Reading, job_result, trial, update_of, write

FOLDERS = st.sampled_from(
    ["trace_jobs", "task_chunks", "chunk_000", "chunk_1", "chunk_x", "job", "t__aaaaaaa", "agent", "steps", "\udcff"]
)
FILES = st.sampled_from(["result.json", "results.json", "job.log", "trial.log", "lock.json", "trajectory.json", "x"])
CONTENTS = st.sampled_from(
    [
        b"", b"{", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"trial_name": "t"}', b'{"results": [{}]}',
        b'{"trial_name": "t", "agent_result": {}, "verifier_result": {"rewards": {"reward": 1}}}',
        b'{"n_total_trials": 3, "stats": {"evals": {"e\\ud800": {"metrics": [{"mean": 0.5}]}}}}',
        b'{"n_total_trials": -1, "finished_at": "x", "stats": 7}', b'{"steps": [{"source": "agent"}]}',
        b'{"results": [{"trial_name": "a", "task_id": null, "is_resolved": true}], "accuracy": 1}',
    ]
)  # fmt: skip
TREES = st.lists(st.tuples(st.lists(FOLDERS, max_size=5), FILES, CONTENTS), max_size=15)


@settings(max_examples=150)
@given(TREES, st.sampled_from(["rl", "eval", "datagen"]))
def test_any_tree(tree: list[tuple[list[str], str, bytes]], bucket: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for folders, name, content in tree:
            path = Path(folder, *folders, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        reading = Reading()
        for _ in range(4):
            outcome = reading.look(folder)
            if not isinstance(outcome, TrialsUpdate):
                half_written = outcome.reason is FailureReason.PARSE and list(Path(folder).rglob("results.json"))
                assert half_written or outcome.reason is FailureReason.NOT_FOUND
                continue
            assert outcome.caught_up
            summary = summarise_trials(outcome)
            files = [*Path(folder).rglob("result.json"), *Path(folder).rglob("results.json")]
            assert summary.trials <= len(files)
            assert summary.scored <= summary.trials
            evidence = measure_trials(Measurements(), summary, bucket=bucket, target=None, observed=1.0, is_over=False)
            assert all(line.text.isprintable() for line in evidence)


def test_names_that_do_not_print_are_escaped_for_people(tmp_path: Path) -> None:
    job = os.fsdecode(b"job\xff\x1b[31m")
    job_result(tmp_path / job, 2)
    trial(tmp_path / job / "t__aaaaaaa")
    write(tmp_path / "stray\n" / "x", "")
    evidence = measure_trials(
        Measurements(), summarise_trials(update_of(tmp_path)), bucket="eval", target=None, observed=1.0, is_over=False
    )
    texts = [line.text for line in evidence]
    assert "job\\udcff\\x1b[31m: 1 results, 0 trial folders without one" in texts
    assert any("stray\\n is no job folder" in text for text in texts)
