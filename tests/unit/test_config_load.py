"""Reading any bytes as a config: a config or faults, never a traceback, within bounds."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runwatch.config import reference
from runwatch.config.addresses import split_listen
from runwatch.config.durations import format_duration, parse_duration
from runwatch.config.load import check, load_config, warnings
from runwatch.config.paths import allowed_roots

REPOSITORY = Path(__file__).parents[2]


def faults_of(content: bytes | str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        config, faults, _ = check(path)
        assert (config is None) == bool(faults)
        texts = [str(fault) for fault in faults]
    assert all(text.isprintable() for text in texts)
    return [text.removeprefix(f"{folder}/") for text in texts]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


# In the parser's own words.
TAB = "not YAML: found character '\\t' that cannot start any token while scanning for the next token"
UNFIT = "not YAML: expected <block end>, but found '<block mapping start>' while parsing a block collection"
OPEN = "not YAML: found unexpected end of stream while scanning a quoted scalar"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("jobs: [", "c.yaml:1: not YAML: "),
        ("a:\n\tb: 1", "c.yaml:2: not YAML: found character '\\t'"),
        (b"a: b\nc: \xff", "c.yaml:2: expected UTF-8, got the byte 0xFF"),
        (b"a: b\nc: \0", "c.yaml:2: not YAML: the character U+0000"),
        ("# nothing\n", "c.yaml:1: the file is empty"),
        ("- a", "c.yaml:1: expected a mapping with keys such as jobs and sites"),
        ("a:\n\tb: 1", f"c.yaml:2: {TAB}: indent with spaces, not with tabs"),
        ("jobs:\n  - a: 1\n   b: 2", f"c.yaml:3: {UNFIT} that began on line 2: is the line indented as those that"),
        ("a:\n  b: 1\n   c: 2", "c.yaml:3: not YAML: mapping values are not allowed here: is the line indented as"),
        ('a: "b\nc: d\n', f"c.yaml:3: {OPEN} that began on line 1: is a quote left open?"),
        ("listen: 9877", "c.yaml:1: listen: expected HOST:PORT such as 0.0.0.0:9877 or [::]:9877, got '9877'"),
        ("a: 1\n---\nb: 2", "c.yaml:2: not YAML: "),
        ("a: *b", "c.yaml:1: not YAML: found undefined alias"),
        ('listen: "\\UFFFFFFFF"', "c.yaml:1: not YAML: an escape names no Unicode character"),
        ('listen: "\\ud800"', "c.yaml:1: listen: not valid Unicode"),
        ("max_jobs: !!python/object:os.system x", "c.yaml:1: max_jobs: tags are not read"),
        (
            "poll_interval: 1:30",
            "c.yaml:1: poll_interval: expected a duration such as 90s, 5m, 2h or 1d12h, got '1:30'",
        ),
        ("max_jobs: 0b_", "c.yaml:1: max_jobs: expected a number or text in quotes"),
        ("a: " + "[" * 100_000, "c.yaml:1: not YAML: nested deeper than 32 levels"),
        ("a: &a {b: *a}", "c.yaml:1: nested deeper than 32 levels once aliases are expanded"),
        ("a: &a {<<: *a}", "c.yaml:1: nested deeper than 32 levels once aliases are expanded"),
        (BOMB, "c.yaml:1: more than 200000 values once aliases are expanded"),
        (b"x" * (16 * 1024 * 1024 + 1), "c.yaml: larger than 16 MiB"),
        ("web_config: missing.yaml", "c.yaml:1: web_config: "),
        (
            "sites:\n  m:\n    scheduler: slurm\n    timezone: UTC\n    job_page: https://slurm.example.org/{job}",
            "c.yaml:5: sites.m.job_page: expected {scheduler_job} once, behind the host, and no other braces",
        ),
        (
            "sites:\n  m: {scheduler: none, checkpoint_page: 'ftp://x/{path}'}",
            "c.yaml:2: sites.m.checkpoint_page: expected an address that begins with http:// or https://",
        ),
        (
            "jobs:\n  - {run: a, bucket: sft, checkpoints: ['gs://b/a', 'gs://b/a-*']}",
            "c.yaml:2: jobs[0].checkpoints[1]: no `*` here: name the folder itself",
        ),
        (
            "jobs:\n  - run: a\n    bucket: eval\n    trials: {path: /data/a-*}",
            "c.yaml:4: jobs[0].trials.path: no `*` here",
        ),
        ("file_roots: [gs://bucket]", "c.yaml:1: file_roots[0]: expected a path on this machine"),
    ],
    ids=lambda value: str(value)[:20].encode("unicode_escape").decode(),
)
def test_what_is_no_config_is_a_fault(content: bytes | str, expected: str) -> None:
    assert any(text.startswith(expected) for text in faults_of(content))


def test_long_numbers_take_no_quadratic_time() -> None:
    started = time.process_time()
    assert faults_of("max_jobs: " + "9" * 200_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), ("", "Is a directory"), ("\0", "null")])
def test_what_cannot_be_opened(tmp_path: Path, name: str, reason: str) -> None:
    config, (fault,), _ = check(tmp_path / name)
    assert config is None
    assert fault.line is None
    assert reason in fault.message


_TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["*a", "&a x", "<<", "on", "12", "1d", "gs://b", "s3://b", "{}", "[]", "~", "a/b/c", "!!set x"]),
)
_KEYS = st.sampled_from(
    (
        *("run", "bucket", "site", "history", "wandb", "jsonl", "checkpoints", "trials", "labels", "match", "listen"),
        *("path", "config", "scheduler", "controller", "timezone", "token", "stale_after", "web_config", "x"),
    )
)
_VALUES = st.recursive(
    _TEXT | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(_flow, value)) + "]" if isinstance(value, list) else str(value)


@settings(max_examples=150)
@given(st.binary(max_size=60) | st.text(alphabet="{}[]&*!|>'\"%@`#,?:-<= \n\tax01.", max_size=60).map(str.encode))
@example(b"? ? ?\n: :")
def test_any_bytes_are_a_config_or_faults(content: bytes) -> None:
    faults_of(content)


@settings(max_examples=120)
@given(st.dictionaries(st.sampled_from(["jobs", "discover", "sites", "wandb", "listen", "file_roots"]), _VALUES))
def test_any_values_under_known_keys_are_a_config_or_faults(sections: dict[str, object]) -> None:
    text = "".join(f"{name}: {_flow(value)}\n" for name, value in sections.items())
    faults_of(text.encode("utf-8", "replace"))


def test_stale_after_is_three_times_the_longest_interval(tmp_path: Path) -> None:
    assert faults_of("poll_interval: 40m") == []
    assert faults_of("poll_interval: 41m") != []
    every = "".join(f"{kind}_interval: 1m\n" for kind in ("history", "checkpoints", "scheduler", "trials", "log"))
    assert faults_of("poll_interval: 5h\n" + every) == []


def test_warnings_without_a_file_name_the_key(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("wandb: {api_key_file: missing}\njobs: [{run: a, bucket: rl, trials: {path: t}}]")
    assert [str(warning) for warning in warnings(load_config(path))] == [
        f"wandb.api_key_file: no such file now: {tmp_path / 'missing'}",
    ]


def test_labels_that_do_nothing_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "jobs:\n"
        "- {run: a, bucket: rl, history: {jsonl: a}, labels: {hold: nokill, ablation: spike_mitigation}}\n"
        "- {run: b, bucket: rl, history: {jsonl: b}, labels: {hold: no-kill, ablation: spike-mitigation}}\n"
        "- {run: c, bucket: datagen, trials: {path: c}, labels: {turns: 'one', ablation: arm-3}}\n"
        "discover:\n"
        "- {wandb: lab/p, bucket: rl, labels: {hold: 'yes'}}\n"
    )
    _, faults, found = check(path)
    assert faults == ()
    assert [str(warning).removeprefix(f"{path}:") for warning in found] == [
        "2: jobs[0].labels.hold: 'nokill' has no effect: only 'no-kill' has one",
        "2: jobs[0].labels.ablation: 'spike_mitigation' has no effect on alerts: did you mean 'spike-mitigation'?",
        "4: jobs[2].labels.turns: 'one' has no effect: only 'single' has one",
        "6: discover[0].labels.hold: 'yes' has no effect: only 'no-kill' has one",
    ]


def test_allowed_roots_are_the_folders_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "jobs:\n"
        "  - {run: a, bucket: rl, history: {jsonl: rows/a.jsonl}, checkpoints: [saved/a, gs://bucket/c]}\n"
        "  - {run: b, bucket: rl, history: {log: logs/*/b.out}}\n"
        "discover: [{wandb: e/p, bucket: rl, checkpoints: ['found/x-{name}']}]\n"
    )
    assert allowed_roots(load_config(path)) == tuple(tmp_path / name for name in ("found", "logs", "rows", "saved/a"))
    path.write_text("file_roots: [only]\n")
    assert allowed_roots(load_config(path)) == (tmp_path / "only",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0:9877", ("0.0.0.0", 9877)),
        ("[::1]:0", ("::1", 0)),
        (":9877", ("0.0.0.0", 9877)),
        ("host-1.example:65535", ("host-1.example", 65535)),
    ],
)
def test_listen(text: str, expected: tuple[str, int]) -> None:
    assert split_listen(text) == expected


@pytest.mark.parametrize("text", ["", "9877", "host", "::1:9877", "[::g]:1", "[1.2.3.4]:1", "a b:1", "h:65536", "h:-1"])
def test_no_listen(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        split_listen(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("1d12h", 129600.0), ("1h30m", 5400.0), ("250ms", 0.25), ("1w", 604800.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    "value", ["", "s", "5", 5, True, None, "-1s", "0s", "1x", "1s ago", "٣s", "4000d", "9" * 400 + "s"]
)
def test_no_durations(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(value)


def test_reference_is_fresh() -> None:
    committed = (REPOSITORY / "docs" / "config.md").read_text()
    assert committed == reference.render(), "run: python -m runwatch.config.reference > docs/config.md"
