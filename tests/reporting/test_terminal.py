"""Names from files are shown, and do nothing to the terminal."""

import warnings

import pytest

from regal_jax.reporting import progress, tables, terminal

ATTACK = "a\x1b[31mred\x07\u202eb\u2028c\x9bd\r\x7f"
SHOWN = r"a\x1b[31mred\x07\u202eb\u2028c\x9bd\r\x7f"


def test_control_characters_are_shown_as_escapes():
    assert terminal.printable(ATTACK) == SHOWN
    assert terminal.printable("ä漢 two\nlines") == "ä漢 two\nlines"
    assert terminal.one_line("two\n lines") == "two lines"


def test_tables_and_warnings_are_printable(capsys):
    rows = [{"graph": ATTACK}]
    for text in (tables.text_table(rows), tables.markdown_table(rows)):
        assert "\x1b" not in text
        assert r"a\x1b[31mred" in text
    with progress.warnings_in_one_line("regal-jax"):
        warnings.warn(f"graph {ATTACK}", stacklevel=1)
    assert capsys.readouterr().err.startswith(r"regal-jax: warning: graph a\x1b[31mred\x07")


@pytest.mark.parametrize("command", ["info", "schedule"])
def test_the_command_line_is_printable(tmp_path, capsys, command):
    import regal_jax as rj
    from regal_jax.cli import main
    from tests.policies.cases import random_graph

    rj.save_graph(random_graph(0).replace(name=ATTACK, family=ATTACK), tmp_path / "g.json")
    assert main([command, str(tmp_path / "g.json")]) == 0
    assert main(["info", str(tmp_path / f"{ATTACK[:5]}.json")]) == 2
    captured = capsys.readouterr()
    assert (r"\x1b[31mred" in captured.out) == (command == "info")
    assert not set(captured.out + captured.err) & set("\x1b\x07\u202e\u2028\x9b\r\x7f")
