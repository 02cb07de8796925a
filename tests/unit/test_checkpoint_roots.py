from __future__ import annotations

import pytest

from runwatch.parsing.checkpoint_roots import Root, parse_root


@pytest.mark.parametrize(
    ("text", "root", "address"),
    [
        ("gs://marin-us-east5/a/b-1/", Root("marin-us-east5", "a/b-1"), "gs://marin-us-east5/a/b-1/checkpoints"),
        ("gs://bucket", Root("bucket", ""), "gs://bucket/checkpoints"),
        ("gs://b.c/tmp/ttl=14d/run#1", Root("b.c", "tmp/ttl=14d/run#1"), "gs://b.c/tmp/ttl=14d/run#1/checkpoints"),
        ("/data/run 1", Root(None, "/data/run 1"), "/data/run 1/checkpoints"),
        ("runs/a", Root(None, "runs/a"), "runs/a/checkpoints"),
    ],
)
def test_roots(text: str, root: Root, address: str) -> None:
    assert parse_root(text) == root
    assert root.address("checkpoints") == address


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("s3://bucket/run", r"S3 is not supported; expected gs://bucket/prefix"),
        ("S3A://bucket/run", r"S3 is not supported"),
        ("https://storage.googleapis.com/b/run", r"https:// is not supported; expected gs://bucket/prefix or a path"),
        ("gs:///run", r"is no bucket's name"),
        ("gs://Not_A*Bucket/run", r"is no bucket's name"),
        ("file:///data/run", r"file:// is not supported; expected gs://bucket/prefix or a path"),
        ("", r"is empty"),
        ("  ", r"is empty"),
        ("gs://bucket/a\nb", r"control character"),
    ],
)
def test_what_is_refused_says_what_is_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_root(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "exports"),
    [
        ("gs://bucket/run/hf", True),
        ("/data/run/exports/", True),
        ("/data/hf/run", False),  # a team's folder of that name says nothing of what lies below
        ("gs://bucket/run/checkpoints", False),
        ("gs://bucket", False),
    ],
)
def test_roots_that_are_export_folders(text: str, exports: bool) -> None:
    assert parse_root(text).is_export_folder is exports
