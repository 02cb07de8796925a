"""Builds the environment in which the tests run Harbor: `python scripts/harbor_environment.py [FOLDER]`.

Harbor needs Python 3.12 and much that does not go with the product, so it has an environment of its own
(.venv-harbor at the top of the checkout). Nothing of it is a part of the product.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from iris_environment import python_312

REQUIREMENT = "harbor==0.26.0"


def main() -> None:
    """Make the environment, unless it is there already."""
    top = Path(__file__).resolve().parent.parent
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else top / ".venv-harbor"
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == REQUIREMENT:
        return
    python = folder / "bin" / "python"
    subprocess.run([python_312(), "-m", "venv", "--clear", str(folder)], check=True)
    # pip takes minutes to find versions that go together here; uv, which it installs, takes seconds.
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
    install = [str(folder / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(python), REQUIREMENT]
    subprocess.run(install, check=True)
    stamp.write_text(REQUIREMENT, encoding="utf-8")


if __name__ == "__main__":
    main()
