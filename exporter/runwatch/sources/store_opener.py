"""Opening what lies at a root: a folder of this machine, or a prefix of a bucket over one kept connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from runwatch.parsing.checkpoint_roots import Root
from runwatch.sources.file_roots import ANYWHERE, FileRoots
from runwatch.sources.files import FileStore
from runwatch.sources.folder_listing import BucketOpener, LookFailedError, ObjectStore
from runwatch.sources.protocol import CountRequest
from runwatch.sources.regular_file import file_failure


def google_cloud() -> BucketOpener:
    """Connect to Google Cloud Storage. Only a config with gs:// roots pays the import of Google's client."""
    from runwatch.sources.gcs import GcsConnection  # noqa: PLC0415

    return GcsConnection()


class StoreOpener:
    """Opens stores; safe to use from several threads.

    Args:
        count_request: called with the site for each request, folder listing or file opened.
        connect_buckets: called once, when the first `gs://` root is opened.
        roots: the folders of this machine that may be read.
    """

    def __init__(
        self,
        count_request: CountRequest,
        connect_buckets: Callable[[], BucketOpener] = google_cloud,
        roots: FileRoots = ANYWHERE,
    ) -> None:
        self._count_request = count_request
        self._roots = roots
        self._connect_buckets = connect_buckets
        self._buckets: BucketOpener | None = None
        self._lock = threading.Lock()

    def open(self, root: Root, site: str) -> ObjectStore:
        """Return the store of a root.

        Raises:
            LookFailedError: no connection can be made, or the folder is none that may be read.
        """

        def count() -> None:
            self._count_request(site)

        if root.bucket is None:
            try:
                self._roots.require(Path(root.path))
            except OSError as error:
                raise LookFailedError(file_failure(error, Path(root.path))) from error
            return FileStore(root.path, count)
        with self._lock:
            if self._buckets is None:
                self._buckets = self._connect_buckets()
            buckets = self._buckets
        return buckets.open(root.bucket, root.path, count)

    def close(self) -> None:
        """Release connections."""
        with self._lock:
            if self._buckets is not None:
                self._buckets.close()
            self._buckets = None
