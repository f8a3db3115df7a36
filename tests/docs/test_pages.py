"""What the README and the documentation tell people to run, run; their links lead on."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

import regal_jax as rj
from regal_jax import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if page.name != "how_to_add_a_method.md"  # tests/test_plugins.py, word by word
)
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))
LINKED = [ROOT / name for name in ("README.md", "BUILD_NOTES.md", "CONTRIBUTING.md")]
MODEL = ROOT / "tests/graphs/importers/tensorflow/data/regal_example.pbtxt"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def lines(page: Path) -> list[str]:
    """The commands of a page, without comments."""
    text = "\n".join(blocks(page, "bash"))
    return [line.split("  #")[0].strip() for line in text.splitlines() if line.strip()]


def launched() -> list[tuple[str, str]]:
    """Launchers and benchmarks, with their page; those of the results, too."""
    pages = (*PAGES, *sorted((ROOT / "docs" / "results").glob("*.md")))
    return [(p.name, line) for p in pages for line in lines(p) if line.startswith("python ")]


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
WITH_COMMANDS = [page for page in PAGES if any(x.startswith("regal-jax ") for x in lines(page))]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_python(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for block in blocks(page, "python"):
        exec(block, {})
    if page.name == "README.md":
        assert (tmp_path / "schedule.json").exists()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where commands find what pages call by these names; launchers write nowhere else."""
    onnx = pytest.importorskip("onnx")
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    shutil.copy(light, tmp_path / "model.onnx")
    rj.save_graph(rj.import_graph(MODEL), tmp_path / "model.json")
    (tmp_path / "ta01.txt").write_text(JOB_SHOP)
    (tmp_path / "dump.txt").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.compilation_cache, "enable", lambda: None)
    return tmp_path


JOB_SHOP = "2 2\n0 3 1 2\n1 2 0 4\n"
MODULE = """HloModule program, is_scheduled=true

ENTRY main {
  x = f32[256] parameter(0)
  y = f32[256] exponential(x)
  ROOT z = f32[256] add(y, x)
}
"""


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands(page, folder):
    """One after another, as they stand; searches within a second."""
    for line in lines(page):
        if line.startswith("regal-jax ") and not line.startswith("regal-jax experiment"):
            words = shlex.split(line)[1:]
            quick = ["--time_limit=1"] if words[0] == "schedule" else []
            assert cli.main([*words, *quick]) == 0, line


@pytest.mark.parametrize(("page", "line"), launched())
def test_launchers_and_their_flags_are_there(page, line):
    """They run in tests/experiments, or take hours."""
    words = line.split()[1:]
    for word in [words[0], *(w.split("=")[1] for w in words if w.startswith("--flagfile="))]:
        assert (ROOT / word).is_file(), f"{page}: {line}"


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]
    missing = [t for t in targets if not (ROOT / t.split("#")[0]).exists()]
    assert not missing


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 9 * 1024


def test_the_reference_has_every_public_name():
    listed = re.findall(r"auto\w+:: (\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    modules = {"datasets", "register"}  # sections of their own
    assert set(listed) == set(rj.__all__) - modules
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_are_python(page):
    """Sphinx runs them; here their cells compile, PyTorch's too, which it may leave out."""
    options = r"(?::.*\n)*"  # of the cell, such as :tags: [remove-input]
    cells = re.findall(
        rf"```\{{code-cell\}} ipython3\n{options}(.*?)```", page.read_text(), re.DOTALL
    )
    assert cells
    for cell in cells:
        compile(cell, page.name, "exec")
