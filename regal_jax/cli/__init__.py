"""The ``regal-jax`` command, a file each subcommand, imported when it is asked for."""

import argparse
import importlib
import keyword
import sys
import traceback
from collections.abc import Sequence

from regal_jax import __version__, compilation_cache
from regal_jax.errors import InfeasibleError, LimitError, OptionError, RegalError
from regal_jax.reporting import progress
from regal_jax.reporting.terminal import one_line, say

COMMANDS = {
    "schedule": "search for a schedule, print what it saves",
    "import": "convert any importable file to a graph file",
    "check": "validate a schedule and its claimed costs",
    "info": "what is in a graph, and what bounds its cost",
    "explain": "why a program's memory peak is where it is, and what would lower it",
    "memory": "what a JAX function needs on a GPU or TPU that needn't be there",
    "methods": "list the methods: for which graphs, learned or not, from which paper",
    "experiment": "run a launcher: train, compare, print a paper's table",
    "completion": "print a script that completes the command in bash, zsh or fish",
}
"""By name; each is a module of this package with ``add_flags(parser)`` and ``run(options)``, whose
docstring is its help."""
USAGE_ERROR = 2
INFEASIBLE = 3
TOO_MUCH = 1
_STATUS = {InfeasibleError: INFEASIBLE, LimitError: TOO_MUCH}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status. Bad input is one line on stderr, no traceback."""
    options = argparse.Namespace(verbose=False)
    try:
        parser().parse_args(arguments, options)
        compilation_cache.enable()
        with progress.warnings_in_one_line("regal-jax", quiet=getattr(options, "quiet", False)):
            options.run(options)
    except RegalError as error:
        if options.verbose:
            traceback.print_exc()
        say(f"regal-jax: error: {one_line(str(error))}", sys.stderr)
        return next(
            (code for kind, code in _STATUS.items() if isinstance(error, kind)), USAGE_ERROR
        )
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print("regal-jax: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def commands(parser: argparse.ArgumentParser) -> "dict[str, _Command]":
    """The parsers of the subcommands, by name."""
    (found,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return found.choices


def parser() -> argparse.ArgumentParser:
    """The parser of all subcommands, which are imported when they parse."""
    result = _Parser(prog="regal-jax", description=_ABOUT, allow_abbrev=False, formatter_class=Help)
    result.add_argument("--version", action="version", version=f"regal-jax {__version__}")
    adder = result.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, summary in COMMANDS.items():
        adder.add_parser(name, help=summary).command = name
    return result


_ABOUT = """\
Schedules computation graphs: which device runs each op, and when.

examples:
  regal-jax import model.onnx --output=model.json
  regal-jax schedule model.json --num_devices=1 --output=schedule.json --plot=memory.png
  regal-jax explain package.module:function --html=memory.html
  regal-jax memory package.module:function --accelerator=h100 --limit=70GiB
  regal-jax schedule --help"""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help with the defaults of flags that have one, and line ends as written."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        none = default is None or default is argparse.SUPPRESS or action.nargs == 0
        return text if none or not action.option_strings else f"{text} (default: {default})"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others."""

    def error(self, message: str):
        raise OptionError(f"{message} (see {self.prog} --help)")


class _Command(_Parser):
    """A subcommand's parser, which gets its flags from its module before it parses."""

    command = ""

    def filled(self) -> "_Command":
        """Itself, with its flags."""
        if self.get_default("run") is None:
            name = self.command + "_" * keyword.iskeyword(self.command)
            module = importlib.import_module(f"regal_jax.cli.{name}")
            self.description, self.formatter_class = module.__doc__, Help
            module.add_flags(self)
            self.set_defaults(run=module.run)
        return self

    def parse_known_args(self, args=None, namespace=None, **options):
        self.filled()
        return super().parse_known_args(args, namespace, **options)
