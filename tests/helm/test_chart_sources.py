"""The chart's own files: nothing that only newer Helms know, no dead links, nothing empty, nothing stale."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import helm_python
import pytest
import yaml
from scripts.chart_readme import UndescribedError, described_values, with_table

import runwatch
from tests.helm.chart_rendering import CHART_FOLDER, EVERYTHING, TOP, texts

TEMPLATES = sorted((CHART_FOLDER / "templates").iterdir())

# All that the templates use. Go's own are those of Go 1.17, the rest Sprig's 3.2 and Helm's: what Helm 3.8 is made of.
GO_FUNCTIONS = {"and", "eq", "gt", "index", "len", "ne", "not", "or", "printf"}
SPRIG_FUNCTIONS = {
    *("append", "base", "compact", "contains", "deepCopy", "default", "dict", "fail", "get", "hasKey", "int", "join"),
    *(
        "keys",
        "kindIs",
        "list",
        "lower",
        "merge",
        "nindent",
        "omit",
        "quote",
        "regexFind",
        "replace",
        "set",
        "sha256sum",
        "sortAlpha",
    ),
    *("splitList", "ternary", "toString", "trim", "trimPrefix", "trimSuffix", "trunc", "unset", "until", "urlParse"),
}
HELM_FUNCTIONS = {"fromYaml", "include", "required", "toYaml", "tpl"}
KEYWORDS = {"define", "else", "end", "if", "range", "with", "true", "false"}
OBJECTS = {
    ".Chart.AppVersion",
    ".Chart.Name",
    ".Chart.Version",
    ".Files.Get",
    ".Files.Glob",
    ".Release.Name",
    ".Release.Namespace",
    ".Release.Service",
}
CHART_FIELDS = {
    *("annotations", "apiVersion", "appVersion", "description", "keywords", "kubeVersion", "maintainers", "name"),
    *("type", "version"),
}


def actions(text: str) -> list[str]:
    """Return what stands between double braces, without comments and texts in quotes."""
    found = re.findall(r"\{\{-?\s*(.*?)\s*-?\}\}", text, re.DOTALL)
    return [re.sub(r'"(?:\\.|[^"\\])*"|`[^`]*`', '""', action) for action in found if not action.startswith("/*")]


def test_the_templates_use_only_what_helm_3_8_knows() -> None:
    code = [action for path in TEMPLATES for action in actions(path.read_text(encoding="utf-8"))]
    names = {name for action in code for name in re.findall(r"(?<![\w.$])[A-Za-z]\w*", action)}
    assert names - KEYWORDS == GO_FUNCTIONS | SPRIG_FUNCTIONS | HELM_FUNCTIONS
    used = {name for action in code for name in re.findall(r"\.(?:Chart|Files|Release|Capabilities)\.\w+", action)}
    assert used == OBJECTS
    # Go 1.23's, with words that are older.
    assert not [action for action in code if re.match(r"else\s+with\b", action)]


def test_the_chart_has_only_fields_that_helm_3_8_knows() -> None:
    described = yaml.safe_load((CHART_FOLDER / "Chart.yaml").read_text(encoding="utf-8"))
    assert set(described) == CHART_FIELDS
    assert described["apiVersion"] == "v2"
    assert described["appVersion"] == runwatch.__version__


def links() -> list[Path]:
    return [path for path in CHART_FOLDER.rglob("*") if path.is_symlink()]


def test_links_lead_to_something_in_this_repository() -> None:
    assert {path.name for path in links()} == {"rules", "dashboards", "alertmanager.yml", "alertmanager-templates"}
    for link in links():
        assert not link.readlink().is_absolute(), link
        assert link.resolve(strict=True).is_relative_to(TOP), link
    # A link behind a link would be followed too.
    behind = [path for link in links() if link.is_dir() for path in link.rglob("*") if path.is_symlink()]
    assert behind == []


def contents() -> list[Path]:
    """Return every file of the chart, those behind its links too."""
    folders = [CHART_FOLDER, *(link for link in links() if link.is_dir())]
    return sorted({path for folder in folders for path in folder.rglob("*") if path.is_file()})


def test_no_file_of_the_chart_is_empty() -> None:
    names = {path.relative_to(CHART_FOLDER).parts[0] for path in contents()}
    assert {"Chart.yaml", "README.md", "files", "templates", "values.schema.json", "values.yaml"} <= names
    assert [path for path in contents() if not path.read_text(encoding="utf-8").strip()] == []


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(helm_python.package(CHART_FOLDER, destination=tmp_path_factory.mktemp("package")))


def test_a_package_holds_the_files_themselves(package: Path) -> None:
    with tarfile.open(package) as archive:
        members = archive.getmembers()
        assert all(member.isfile() for member in members)
        packed = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    # Chart.yaml is written anew by Helm.
    expected = {str(path.relative_to(CHART_FOLDER)): path.read_bytes() for path in contents()}
    assert {name for name in expected if not name.startswith(".")} == set(packed) - {".helmignore"}
    assert {name for name in packed if name != "Chart.yaml" and packed[name] != expected[name]} == set()


def test_a_release_fits_into_its_secret() -> None:
    """Helm keeps a release as gzipped JSON, in base64, in one Secret, and the API takes 1 MiB."""
    files = {str(path): base64.b64encode(path.read_bytes()).decode() for path in contents()}
    release = json.dumps({"chart": files, "manifest": "".join(texts(EVERYTHING).values()), "config": EVERYTHING})
    assert len(base64.b64encode(gzip.compress(release.encode()))) < 1024 * 1024


def test_the_readme_is_that_of_the_values() -> None:
    command = [sys.executable, str(TOP / "scripts" / "chart_readme.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_table_is_made_from_the_comments() -> None:
    values = "# A heading\n\n# -- Says one\n# thing | another.\na: 1\nb:\n  # -- Two.\n  c: {d: [x]}\n"
    assert [(value.key, value.default, value.meaning) for value in described_values(values)] == [
        ("a", "1", "Says one thing | another."),
        ("b.c", '{"d": ["x"]}', "Two."),
    ]
    readme = "x\n<!-- Made by scripts/chart_readme.py from values.yaml: begin -->\nold\n"
    readme += "<!-- Made by scripts/chart_readme.py from values.yaml: end -->\ny\n"
    made = with_table(readme, values)
    assert made.startswith("x\n")
    assert made.endswith("\ny\n")
    assert "old" not in made
    assert "\n| `a` | `1` | Says one thing \\| another. |\n| `b.c` | " in made


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ("# -- Yes.\na: 1\nb: 2\n", "values.yaml:3: b: expected a comment"),
        ("a:\n  # About b.\n  b: {}\n", "values.yaml:3: a.b: expected a comment"),
        ("- a\n", "values.yaml: expected a mapping"),
    ],
)
def test_a_value_that_nothing_describes_is_an_error(values: str, fault: str) -> None:
    with pytest.raises(UndescribedError, match=f"^{fault}"):
        described_values(values)


def test_a_readme_without_marks_is_an_error() -> None:
    with pytest.raises(UndescribedError, match=r"^README\.md: expected the lines"):
        with_table("nothing", "# -- One.\na: 1\n")
