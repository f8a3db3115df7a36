"""Prints a script that completes regal-jax's subcommands, flags and their values.

examples:
  regal-jax completion bash > ~/.local/share/bash-completion/completions/regal-jax
  echo 'eval "$(regal-jax completion zsh)"' >> ~/.zshrc
  regal-jax completion fish > ~/.config/fish/completions/regal-jax.fish
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping

from regal_jax import registry, shipped
from regal_jax.reporting.terminal import say


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")


def run(options: argparse.Namespace) -> None:
    """Prints the script."""
    from regal_jax import cli

    commands = {name: parser.filled() for name, parser in cli.commands(cli.parser()).items()}
    if options.shell == "fish":
        say("\n".join(_fish(commands)))
    else:
        prefix = _ZSH if options.shell == "zsh" else ""
        say(prefix + _BASH % "\n".join(f"    {case}" for case in _bash(commands)))


_ZSH = """\
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""
_BASH = """\
_regal_jax() {
  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words
  if [[ $current == "=" ]]; then current=""; fi
  if [[ $before == "=" ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi
  case "$COMP_CWORD ${COMP_WORDS[1]} $before" in
%s
  esac
  if [[ -z $current ]]; then words="${words%%%%-*}"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _regal_jax regal-jax"""


def _bash(commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """A case for the subcommand, for each flag with a value, for the rest of each subcommand."""
    yield f"'1 '*) words={shlex.quote(' '.join(commands))} ;;"
    for name, parser in commands.items():
        rest: list[str] = []
        for action in parser._actions:
            words = _values(action)
            rest = [*rest, *action.option_strings] if action.option_strings else [*words, *rest]
            if action.option_strings and action.nargs != 0:
                pattern = "|".join(f"*' {name} {flag}'" for flag in action.option_strings)
                yield f"{pattern}) words={shlex.quote(' '.join(words))} ;;"
        yield f"*' {name} '*) words={shlex.quote(' '.join(rest))} ;;"


def _fish(commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """A line for each subcommand, and for each of its flags."""
    for name, parser in commands.items():
        about = shlex.quote((parser.description or "").splitlines()[0])
        yield f"complete -c regal-jax -n __fish_use_subcommand -f -a {name} -d {about}"
        inside = f"complete -c regal-jax -n '__fish_seen_subcommand_from {name}'"
        for action in parser._actions:
            words = _values(action)
            values = f" -x -a {shlex.quote(' '.join(words))}" if words else " -r"
            names = "".join(
                f" -{'l' if flag.startswith('--') else 's'} {flag.lstrip('-')}"
                for flag in action.option_strings
            )
            if names:
                about = shlex.quote(action.help or "")
                yield f"{inside}{names}{'' if action.nargs == 0 else values} -d {about}"
            elif words:
                yield f"{inside} -f -a {shlex.quote(' '.join(words))}"


def _values(action: argparse.Action) -> list[str]:
    """What a flag or an argument may be; empty for files, numbers and the like."""
    named = {
        "method": lambda: registry.names("method"),
        "target": lambda: list(shipped.targets()),
        "launcher": lambda: list(shipped.launchers()),
    }
    return [*map(str, action.choices)] if action.choices else named.get(action.dest, list)()
