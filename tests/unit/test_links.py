"""Where a job's pages are: what the config gives, encoded, and Google Cloud's own for its buckets."""

from __future__ import annotations

import re

import pytest

from runwatch.config.addresses import check_page_address
from runwatch.derive.links import NO_PAGES, SitePages, measure_links
from runwatch.measurements import Measurements

IRIS = SitePages("https://iris.example.org/#/job/{scheduler_job}")


def links(pages: SitePages, scheduler_job: str, *checkpoints: str) -> dict[tuple[str, ...], float]:
    measured = Measurements()
    evidence = measure_links(measured, pages, scheduler_job, checkpoints)
    found = dict(measured.family("mljob_link"))
    assert [entry.text for entry in evidence] == [f"{target}: {url}" for target, url in found]
    return found


def test_an_id_is_one_part_of_the_address() -> None:
    # As Iris' own JobName.dashboard_url has it.
    assert links(IRIS, "/ana/rl a?b") == {("scheduler", "https://iris.example.org/#/job/%2Fana%2Frl%20a%3Fb"): 1.0}


def test_without_an_address_or_an_id_there_is_no_link() -> None:
    assert links(NO_PAGES, "/ana/rl") == {}
    assert links(IRIS, "") == {}
    assert links(NO_PAGES, "", "/data/runs/rl") == {}


def test_folders_of_buckets_are_shown_by_google_cloud() -> None:
    console = "https://console.cloud.google.com/storage/browser"
    assert links(NO_PAGES, "", "gs://marin-eu/checkpoints/rl one/", "gs://tmp/rl") == {
        ("checkpoints", f"{console}/marin-eu/checkpoints/rl%20one"): 1.0,
        ("checkpoints", f"{console}/tmp/rl"): 1.0,
    }


def test_a_sites_own_page_of_checkpoints_comes_first() -> None:
    pages = SitePages(checkpoints="https://files.example.org/view/{path}?sort=time")
    assert links(pages, "", "gs://b/x", "/data/r#1") == {
        ("checkpoints", "https://files.example.org/view/b/x?sort=time"): 1.0,
        ("checkpoints", "https://files.example.org/view/data/r%231?sort=time"): 1.0,
    }


@pytest.mark.parametrize(
    "address",
    [
        "https://iris.example.org/#/job/{scheduler_job}",
        "http://10.0.0.5:10000/job?id={scheduler_job}&tab=tasks",
    ],
)
def test_addresses_of_pages(address: str) -> None:
    check_page_address(address, "{scheduler_job}")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("iris.example.org/{scheduler_job}", "http:// or https://"),
        ("javascript:alert({scheduler_job})", "http:// or https://"),
        ("https:///{scheduler_job}", "names a host"),
        ("https://iris.example.org:x/{scheduler_job}", "names a host"),
        ("https://iris.example.org/a b/{scheduler_job}", "names a host"),
        ("https://ana:secret@iris.example.org/{scheduler_job}", "remove the user and the password"),
        ("https://iris.example.org/job", "{scheduler_job} once"),
        ("https://iris.example.org/{scheduler_job}/{scheduler_job}", "once"),
        ("https://iris.example.org/{job}/{scheduler_job}", "no other braces"),
        ("https://{scheduler_job}.example.org/", "behind the host"),
        ("https://{scheduler_job}@example.org/", "remove the user"),
    ],
)
def test_addresses_that_are_no_pages(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        check_page_address(address, "{scheduler_job}")
    assert "secret" not in str(raised.value).replace("secrets are", "")
