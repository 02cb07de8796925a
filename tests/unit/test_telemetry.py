"""The exporter's own metrics are those of the catalogue, and no others."""

from __future__ import annotations

import threading

from prometheus_client.parser import text_string_to_metric_families

from runwatch import __version__
from runwatch.catalogue import METRICS
from runwatch.facts import FailureReason, SourceKind
from runwatch.metric_kinds import Section
from runwatch.telemetry import Telemetry

HISTORY, CHECKPOINTS = SourceKind.HISTORY, SourceKind.CHECKPOINTS


def samples(telemetry: Telemetry, *, reproducible: bool = True) -> dict[tuple[str, ...], float]:
    """Read back: (name, label values in order of label names) -> value."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(telemetry.render(reproducible=reproducible).decode())
        for sample in family.samples
    }


def use_everything(telemetry: Telemetry) -> None:
    telemetry.count_request(HISTORY, "none")
    telemetry.count_error(HISTORY, "none", FailureReason.AUTH)
    telemetry.observe_poll(HISTORY, "none", 0.3)
    telemetry.set_source_up(HISTORY, "none", False)
    telemetry.set_last_success(HISTORY, "none", 1764449286.5)
    telemetry.set_interval(HISTORY, "none", 60)
    telemetry.set_jobs({"rl": 2, "sft": 0})
    telemetry.set_series(120)
    telemetry.set_jobs_dropped(0)
    telemetry.add_malformed("run-a", 3)
    telemetry.set_log_lines_unparsed("run-a", 2)
    telemetry.set_reload(True, 1764449000)


def test_exactly_the_catalogues_families_with_their_help_type_and_labels() -> None:
    telemetry = Telemetry()
    use_everything(telemetry)
    catalogued = {name: metric for name, metric in METRICS.items() if metric.section is Section.EXPORTER}
    found = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(telemetry.render(reproducible=False).decode())
    }
    own = {name: family for name, family in found.items() if not name.startswith("process_")}
    assert set(own) == set(catalogued)
    for name, family in own.items():
        metric = catalogued[name]
        assert (family.documentation, family.type) == (metric.help, metric.kind)
        assert {label for sample in family.samples for label in sample.labels} - {"le"} == set(metric.labels)
    assert "process_resident_memory_bytes" in found
    assert b"_created" not in telemetry.render(reproducible=False)


def test_values() -> None:
    telemetry = Telemetry()
    use_everything(telemetry)
    telemetry.count_error(HISTORY, "none", FailureReason.AUTH)
    found = samples(telemetry, reproducible=False)
    assert found[("runwatch_build_info", __version__)] == 1
    assert found[("runwatch_source_errors_total", "auth", "none", "history")] == 2
    assert found[("runwatch_source_errors_total", "timeout", "none", "history")] == 0
    assert found[("runwatch_source_requests_total", "none", "history")] == 1
    assert found[("runwatch_source_up", "none", "history")] == 0
    assert found[("runwatch_source_last_success_timestamp_seconds", "none", "history")] == 1764449286.5
    assert found[("runwatch_poll_duration_seconds_bucket", "0.25", "none", "history")] == 0
    assert found[("runwatch_poll_duration_seconds_bucket", "0.5", "none", "history")] == 1
    assert found[("runwatch_poll_duration_seconds_sum", "none", "history")] == 0.3
    assert found[("runwatch_jobs", "rl")] == 2
    assert found[("runwatch_history_rows_malformed_total", "run-a")] == 3


def test_what_was_never_set_is_absent() -> None:
    assert samples(Telemetry()) == {("runwatch_build_info", __version__): 1}


def test_a_failed_reload_keeps_the_time_of_the_last_success() -> None:
    telemetry = Telemetry()
    telemetry.set_reload(False, 50)
    assert ("runwatch_config_last_reload_success_timestamp_seconds",) not in samples(telemetry)
    telemetry.set_reload(True, 100)
    telemetry.set_reload(False, 200)
    found = samples(telemetry)
    assert found[("runwatch_config_last_reload_successful",)] == 0
    assert found[("runwatch_config_last_reload_success_timestamp_seconds",)] == 100


def test_a_dropped_source_leaves_no_series_and_others_stay() -> None:
    telemetry = Telemetry()
    use_everything(telemetry)
    telemetry.set_source_up(CHECKPOINTS, "none", True)
    telemetry.set_source_up(HISTORY, "desk", True)
    telemetry.drop_source(HISTORY, "none")
    telemetry.drop_source(SourceKind.LOG, "was never there")
    found = samples(telemetry, reproducible=False)
    health = [key[0] for key in found if key[-2:] == ("none", "history") and not key[0].endswith("_total")]
    assert not [name for name in health if not name.startswith("runwatch_poll_duration")]
    assert ("runwatch_source_requests_total", "none", "history") in found
    assert found[("runwatch_source_up", "none", "checkpoints")] == 1
    assert found[("runwatch_source_up", "desk", "history")] == 1


def test_a_forgotten_run_and_a_bucket_without_jobs_leave_no_series() -> None:
    telemetry = Telemetry()
    use_everything(telemetry)
    telemetry.forget_run("run-a")
    telemetry.forget_run("was never there")
    telemetry.set_jobs({"eval": 1})
    found = samples(telemetry)
    assert not [key for key in found if key[0] == "runwatch_history_rows_malformed_total"]
    assert [key for key in found if key[0] == "runwatch_jobs"] == [("runwatch_jobs", "eval")]


def test_reproducible_output_depends_on_neither_order_nor_durations() -> None:
    one, other = Telemetry(), Telemetry()
    for telemetry, sites in ((one, ("a", "b", "c")), (other, ("c", "a", "b"))):
        for site in sites:
            telemetry.count_request(HISTORY, site)
            telemetry.observe_poll(HISTORY, site, 0.1 * len(sites) + ord(sites[0]))
            telemetry.add_malformed(f"run-{site}", 1)
    rendered = one.render(reproducible=True)
    assert rendered == other.render(reproducible=True)
    assert b"runwatch_poll_duration_seconds" not in rendered
    assert b"process_" not in rendered


def test_hostile_names_come_out_as_valid_text() -> None:
    telemetry = Telemetry()
    name = 'a"b\\c\nd\ud800'
    telemetry.add_malformed(name, 1)
    telemetry.count_request(HISTORY, name)
    [run] = [key[1] for key in samples(telemetry) if key[0] == "runwatch_history_rows_malformed_total"]
    assert run.startswith('a"b\\c\nd\ufffd~')
    telemetry.forget_run(name)
    assert "runwatch_history_rows_malformed_total" not in {key[0] for key in samples(telemetry)}
    telemetry.set_source_up(HISTORY, name, True)
    telemetry.drop_source(HISTORY, name)
    assert "runwatch_source_up" not in {key[0] for key in samples(telemetry)}


def test_counts_from_many_threads_add_up_while_others_render() -> None:
    telemetry = Telemetry()

    def work(site: str) -> None:
        for number in range(200):
            telemetry.count_request(HISTORY, site)
            telemetry.set_jobs({"rl": number})
            if number % 50 == 0:
                telemetry.render(reproducible=False)

    threads = [threading.Thread(target=work, args=(site,)) for site in ("a", "a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = samples(telemetry)
    assert found[("runwatch_source_requests_total", "a", "history")] == 400
    assert found[("runwatch_source_requests_total", "b", "history")] == 200


def test_unparsed_lines_count_up_however_often_the_log_is_read_anew() -> None:
    telemetry = Telemetry()
    for so_far in (2, 2, 5, 1, 3):  # the fourth look read the log from its start again
        telemetry.set_log_lines_unparsed("run-a", so_far)
    assert samples(telemetry)[("runwatch_log_lines_unparsed_total", "run-a")] == 2 + 0 + 3 + 0 + 2
    telemetry.forget_run("run-a")
    assert not [key for key in samples(telemetry) if key[0] == "runwatch_log_lines_unparsed_total"]
