"""Where a job's checkpoints lie: reading one entry of the config's `checkpoints` list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from runwatch.parsing.checkpoint_layouts import parse_step_folder

EXPORT_FOLDERS = frozenset({"hf", "exports"})
"""Folders that hold weights exported for inference. What lies below them has a checkpoint's name and is none."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Root:
    """One place that may hold checkpoint folders.

    `bucket` is the GCS bucket, or None on a file system. `path` is the object prefix without slashes at its ends
    ("" for the whole bucket), or the file system's path as it was written.
    """

    bucket: str | None
    path: str

    def address(self, *parts: str) -> str:
        """Return the address of something below this root, for people and as a key: `gs://bucket/prefix/step-5`."""
        if self.bucket is None:
            return str(PurePath(self.path, *parts))
        return "/".join([f"gs://{self.bucket}", *filter(None, (self.path, *parts))])

    @property
    def is_export_folder(self) -> bool:
        """Whether the root's own name says that it holds exports, not checkpoints."""
        return PurePath(self.path).name in EXPORT_FOLDERS

    @property
    def is_step_folder(self) -> bool:
        """Whether the root's own name is that of one checkpoint."""
        return parse_step_folder(PurePath(self.path).name) is not None


def parse_root(text: str) -> Root:
    """Read one entry of `checkpoints`: `gs://bucket/prefix`, or an absolute or relative path.

    Raises:
        ValueError: the entry cannot be read as one of these; the text says what is expected instead.
    """
    if not text.strip():
        raise ValueError("an address is empty: expected gs://bucket/prefix or a path")
    if _CONTROL_CHARACTERS.search(text):
        raise ValueError(f"{text!r} holds a control character")
    matched = _SCHEME.fullmatch(text)
    if matched is None:
        return Root(None, text)
    scheme = matched["scheme"].lower()
    if scheme == "gs":
        return _parse_gcs(text, matched["rest"])
    if scheme in {"s3", "s3a", "s3n"}:
        raise ValueError(
            f"{text!r}: S3 is not supported; expected gs://bucket/prefix, or a path where the bucket is mounted"
        )
    raise ValueError(f"{text!r}: {scheme}:// is not supported; expected gs://bucket/prefix or a path")


def _parse_gcs(text: str, rest: str) -> Root:
    bucket, _, prefix = rest.partition("/")
    if _BUCKET.fullmatch(bucket) is None:
        raise ValueError(f"{text!r}: {bucket!r} is no bucket's name; expected gs://bucket/prefix")
    return Root(bucket, prefix.strip("/"))
