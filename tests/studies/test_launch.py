"""How a launcher starts: its folder, and errors in one line."""

import pytest
from absl import app, flags

from regal_jax.errors import OptionError
from regal_jax.studies import flags as config_flags
from regal_jax.studies import launch
from regal_jax.studies.settings import Output, policy_file


@pytest.fixture
def values(tmp_path):
    found = flags.FlagValues()
    config_flags.define(Output(output_dir=str(tmp_path / "new" / "folder")), found)
    return found


def test_the_folder_keeps_the_flags_of_the_run(values, tmp_path):
    values(["test"])
    folder = launch.folder(config_flags.read(Output(), values), values)
    assert folder == tmp_path / "new" / "folder"
    assert (folder / "config.flags").read_text() == f"--output_dir={folder}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--output_folder=x"], "output_folder"), ([], "methods: one is wrong")],
)
def test_wrong_flags_and_errors_are_one_line(arguments, message, monkeypatch):
    def main(settings, folder):
        raise OptionError("methods: one is wrong")

    monkeypatch.setattr(launch.compilation_cache, "enable", lambda: None)
    monkeypatch.setattr(
        app, "run", lambda main, flags_parser: main(flags_parser(["test", *arguments]))
    )
    with pytest.raises(SystemExit, match=f"^error: .*{message}") as failure:
        launch.run(main, Output(), flags.FlagValues())
    assert "\n" not in str(failure.value)


def test_the_shipped_policy_has_no_file():
    assert policy_file("shipped") is None
    assert policy_file("folder/best.policy").name == "best.policy"
