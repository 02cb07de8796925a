"""What a scraper reads out of a body is what was measured."""

from __future__ import annotations

import gzip
import math
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from runwatch.catalogue import INFO_LABELS, JOB_METRICS
from runwatch.exposition import MAX_LABEL_VALUE_BYTES, Exposition, escape_help, format_value, printable_label_value
from runwatch.measurements import JobReport, Measurements

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def report(
    run: str = "run-a", *, bucket: str = "sft", site: str = "desk", info: dict[str, str] | None = None, **values: float
) -> JobReport:
    measurements = Measurements()
    for name, value in values.items():
        measurements.set(name, value)
    return JobReport(run, bucket, site, info or {}, measurements, (), ())


def read(body: bytes) -> Samples:
    samples: Samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} stands twice"
            samples[key] = sample.value
    return samples


def test_a_small_body_byte_for_byte() -> None:
    exposition = Exposition()
    measured = report("b", bucket="rl", site="none", info={"owner": 'u"1\\'}, mljob_step=300.0, mljob_loss=0.1)
    measured.measurements.set("mljob_gaps", 2, cause="preemption")
    measured.measurements.set("mljob_gaps", 0, cause="failure")
    exposition.update(measured)
    exposition.update(report("a", mljob_step=1e16))
    info_end = ",".join(f'{label}=""' for label in INFO_LABELS if label not in ("kind", "owner"))
    assert exposition.render(b"# TYPE other gauge\nother 1\n").plain.decode() == (
        "# HELP mljob_info What the job is; always 1.\n"
        "# TYPE mljob_info gauge\n"
        f'mljob_info{{run="a",bucket="sft",site="desk",kind="",owner="",{info_end}}} 1\n'
        f'mljob_info{{run="b",bucket="rl",site="none",kind="",owner="u\\"1\\\\",{info_end}}} 1\n'
        "# HELP mljob_step The trainer's own step counter, at its latest row.\n"
        "# TYPE mljob_step gauge\n"
        'mljob_step{run="a",bucket="sft",site="desk"} 1e+16\n'
        'mljob_step{run="b",bucket="rl",site="none"} 300\n'
        "# HELP mljob_gaps Closed gaps between logged steps, by cause.\n"
        "# TYPE mljob_gaps gauge\n"
        'mljob_gaps{run="b",bucket="rl",site="none",cause="failure"} 0\n'
        'mljob_gaps{run="b",bucket="rl",site="none",cause="preemption"} 2\n'
        "# HELP mljob_loss Latest finite training loss (not RL).\n"
        "# TYPE mljob_loss gauge\n"
        'mljob_loss{run="b",bucket="rl",site="none"} 0.1\n'
        "# TYPE other gauge\n"
        "other 1\n"
    )


def expected_label(value: str) -> str:
    """Say what a label must read back as, where it need not be changed; other values are tested by themselves."""
    changed = "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
    too_long = len(value.encode("utf-8", "surrogatepass")) > MAX_LABEL_VALUE_BYTES
    return printable_label_value(value) if changed or too_long else value


hostile_text = st.text(st.characters() | st.sampled_from('\\"\n\r\t{},= \0\ud800\u2028\x85'), max_size=30)


@settings(max_examples=200)
@given(run=hostile_text, site=hostile_text, owner=hostile_text, part=hostile_text, value=st.floats(allow_nan=False))
def test_any_text_reads_back_equal(run: str, site: str, owner: str, part: str, value: float) -> None:
    if math.isinf(value):
        value = 0.0
    measured = report(run, site=site, info={"owner": owner}, mljob_loss=value)
    measured.measurements.set("mljob_rl_timing_seconds", value, part=part)
    exposition = Exposition()
    exposition.update(measured)
    body = exposition.render()
    job = {"run": expected_label(run), "bucket": "sft", "site": expected_label(site)}
    info = dict.fromkeys(INFO_LABELS, "") | {"owner": expected_label(owner)}

    def key(name: str, added: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        return name, tuple(sorted((job | added).items()))

    assert read(body.plain) == {
        key("mljob_info", info): 1.0,
        key("mljob_loss", {}): value,
        key("mljob_rl_timing_seconds", {"part": expected_label(part)}): value,
    }
    assert body.series == 3
    assert body.plain.count(b"\n") == 3 + 2 * 3  # Nothing in a label starts a line of its own.


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_values_read_back_exactly_and_are_as_short_as_can_be(value: float) -> None:
    text = format_value(value)
    assert float(text) == value
    assert len(text) <= len(repr(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (3.0, "3"), (1.5, "1.5"), (1e-7, "1e-07"), (1764449286.0, "1764449286")],
)
def test_values_as_text(value: float, text: str) -> None:
    assert format_value(value) == text


@given(st.text(st.characters() | st.sampled_from("\0\ud800\udfff€😀"), max_size=2000))
def test_labels_are_valid_bounded_and_never_merged(value: str) -> None:
    exported = printable_label_value(value)
    assert len(exported.encode()) <= MAX_LABEL_VALUE_BYTES
    if exported != value:
        assert exported[-13] == "~"
        assert printable_label_value(value + "\ud801") != exported


def test_long_labels_are_cut_on_a_character_and_stay_apart() -> None:
    first, second = ("€" * 400 + tail for tail in "xy")
    one, other = printable_label_value(first), printable_label_value(second)
    assert one != other
    assert one[:-13] == other[:-13] == "€" * 337  # (1024 - 13) // 3 bytes
    assert printable_label_value("\ud800") != printable_label_value("\udfff") != printable_label_value("\ufffd")
    assert printable_label_value("x" * 1024) == "x" * 1024


def test_help_is_escaped() -> None:
    assert escape_help('a\\b\n"c"') == 'a\\\\b\\n"c"'


def test_only_a_change_is_a_change() -> None:
    exposition = Exposition()
    assert exposition.update(report(mljob_step=1)) is True
    assert exposition.update(report(mljob_step=1)) is False
    assert exposition.update(report(mljob_step=2)) is True
    assert exposition.update(report(mljob_step=2, info={"owner": "u2"})) is True
    assert exposition.update(report(mljob_step=2, site="other", info={"owner": "u2"})) is True
    samples = read(exposition.render().plain)
    assert samples[("mljob_step", (("bucket", "sft"), ("run", "run-a"), ("site", "other")))] == 2
    assert len(samples) == exposition.series == 2


def test_measurements_that_are_changed_in_place_are_seen() -> None:
    exposition = Exposition()
    measured = report(mljob_step=1)
    exposition.update(measured)
    measured.measurements.set("mljob_step", 2)
    assert exposition.update(measured) is True
    assert b'site="desk"} 2\n' in exposition.render().plain


def test_what_is_measured_no_more_vanishes() -> None:
    exposition = Exposition()
    exposition.update(report("a", mljob_step=1, mljob_loss=2))
    exposition.update(report("a", mljob_step=1))
    body = exposition.render()
    assert b"mljob_loss" not in body.plain
    assert body.series == 2


def test_a_removed_job_leaves_nothing() -> None:
    exposition = Exposition()
    exposition.update(report("stays", mljob_step=1))
    before = exposition.render()
    exposition.update(report("goes", info={"owner": "u"}, mljob_step=1, mljob_loss=2))
    assert b"goes" in exposition.render().plain
    exposition.remove("goes")
    exposition.remove("was never there")
    assert exposition.render() == before
    exposition.remove("stays")
    assert exposition.render().plain == b""
    assert exposition.series == 0


def test_gzip_is_one_member_and_the_same_each_time() -> None:
    exposition = Exposition()
    for number in range(50):
        exposition.update(report(f"run-{number}", mljob_step=number))
    body = exposition.render(b"up 1\n")
    inflate = zlib.decompressobj(31)
    assert inflate.decompress(body.gzip) == body.plain
    assert inflate.eof
    assert inflate.unused_data == b""
    assert gzip.decompress(body.gzip).endswith(b"up 1\n")
    assert body.gzip[4:8] == b"\0\0\0\0"  # The header's time.
    assert exposition.render(b"up 1\n") == body


def test_families_are_contiguous_and_in_the_catalogues_order() -> None:
    exposition = Exposition()
    for number in (3, 1, 2):
        measured = Measurements()
        for metric in JOB_METRICS[number::2]:
            if metric.name != "mljob_info":
                measured.set(metric.name, number, **dict.fromkeys(metric.labels, "x"))
        exposition.update(JobReport(f"run-{number}", "rl", "s", {}, measured, (), ()))
    names: list[str] = []
    runs: dict[str, list[str]] = {}
    for line in exposition.render().plain.decode().splitlines():
        name = line.split(" ")[2] if line.startswith("#") else line.split("{")[0]
        if names[-1:] != [name]:
            names.append(name)
        if not line.startswith("#"):
            runs.setdefault(name, []).append(line.split('"')[1])
    assert names == [metric.name for metric in JOB_METRICS]
    assert all(found == sorted(found) for found in runs.values())


def test_an_info_label_that_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(ValueError, match="mljob_info has no label colour"):
        Exposition().update(report(info={"colour": "red"}))
