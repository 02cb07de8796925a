"""Builds the environment in which the tests' Iris controller runs: `python scripts/iris_environment.py [FOLDER]`.

The controller needs Python 3.12 and pins that do not go with the product, so it has an environment of its own
(.venv-iris at the top of the checkout, some 550 MB). Nothing of it is a part of the product.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Without the pins of finelog an older release is taken, with which nothing starts; httpx 1 and newer protobuf break.
REQUIREMENTS = (
    "marin-iris[controller]==0.2.227.dev40316220070",
    "marin-finelog==0.2.71.dev40003900277",
    "marin-finelog-server==0.2.71.dev40003900277",
    "httpx<1",
    "protobuf<7.37",
)


def interpreters() -> Iterator[str]:
    """Yield what may be a Python 3.12; pyenv's own come before its shim, which may stand for another version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((str(path) for path in pyenv.glob("versions/3.12*/bin/python3.12")), reverse=True)
    yield from filter(None, [shutil.which("python3.12")])


def python_312() -> str:
    """Return a Python 3.12 that runs."""
    check = "import sys, ensurepip; sys.exit(sys.version_info[:2] != (3, 12))"
    for candidate in interpreters():
        if subprocess.run([candidate, "-c", check], check=False, capture_output=True).returncode == 0:
            return candidate
    sys.exit("this needs Python 3.12 with venv: install it, or let pyenv do so (pyenv install 3.12)")


def main() -> None:
    """Make the environment, unless it is there already."""
    top = Path(__file__).resolve().parent.parent
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else top / ".venv-iris"
    stamp = folder / ".installed"
    wanted = "\n".join(REQUIREMENTS)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    python = folder / "bin" / "python"
    subprocess.run([python_312(), "-m", "venv", "--clear", str(folder)], check=True)
    # pip takes many minutes to find versions that go together here; uv, which it installs, takes seconds.
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
    install = [str(folder / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "--prerelease=if-necessary", *REQUIREMENTS], check=True)
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
