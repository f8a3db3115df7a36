"""``regal-jax completion``: what each shell that is installed completes with its script."""

import shutil
import subprocess

import pytest

from regal_jax import cli

CASES = [
    ("", {"schedule", "import", "experiment"}),
    ("schedule --obj", {"--objective"}),
    ("schedule --objective ", {"makespan", "peak_memory"}),
    ("schedule g.json --method price", {"price_sweep"}),
    ("schedule --target lat", {"latency", "latency_random_ties"}),
    ("experiment regal_mem", {"regal_memory"}),
    ("completion z", {"zsh"}),
]
TYPED = {
    "bash": "{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}; _regal_jax; echo ${{COMPREPLY[@]}}",
    "zsh": "{script}\nemulate -R zsh; setopt ksharrays shwordsplit\n"
    "COMP_WORDS=({words}); COMP_CWORD={last}; _regal_jax; echo ${{COMPREPLY[@]}}",
    "fish": "{script}\ncomplete -C {line}",
}


@pytest.fixture(scope="module")
def scripts():
    return {}


def script(shell, scripts, capsys):
    if shell not in scripts:
        assert cli.main(["completion", shell]) == 0
        scripts[shell] = capsys.readouterr().out
    return scripts[shell]


@pytest.mark.parametrize("shell", TYPED)
@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_words_are_completed(shell, typed, expected, scripts, capsys):
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    words = ["regal-jax", *typed.split(" ")]
    values = {"words": " ".join(f"'{word}'" for word in words), "last": len(words) - 1}
    line = f"'regal-jax {typed}'"
    text = TYPED[shell].format(script=script(shell, scripts, capsys), line=line, **values)
    done = subprocess.run([shell, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    offered = done.stdout.split()
    assert expected <= set(offered)
    if shell == "bash" and words[-1]:  # the others choose from what is offered
        assert set(offered) == expected


def test_files_are_left_to_the_shell(scripts, capsys):
    text = TYPED["bash"].format(
        script=script("bash", scripts, capsys), words="regal-jax schedule ''", last=2
    )
    assert subprocess.run(["bash", "-c", text], capture_output=True, text=True).stdout == "\n"


def test_an_unknown_shell_is_one_line(capsys):
    assert cli.main(["completion", "tcsh"]) == 2
    assert "invalid choice" in capsys.readouterr().err
