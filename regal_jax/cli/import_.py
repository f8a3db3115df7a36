"""Converts any importable file to regal-graph/1, the format of all other subcommands.

examples:
  regal-jax import model.onnx '--dimensions=batch=1,*=64' --output=model.json
  regal-jax import ta01.txt --job_shop --output=jobs.json
  regal-jax import j301_1.sm --psplib --output=project.json
"""

import argparse

from regal_jax.cli import flags, printing
from regal_jax.datasets import job_shop, project_scheduling, tpch
from regal_jax.errors import OptionError
from regal_jax.graphs import files
from regal_jax.reporting.terminal import say

READERS = {
    "job_shop": job_shop.read_job_shop,
    "psplib": project_scheduling.read_project,
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The file, what it is, and the file to write."""
    flags.add_graph(parser)
    parser.add_argument(
        "--output",
        type=flags.text,
        required=True,
        metavar="FILE",
        help="graph file to write (.json)",
    )
    readers = parser.add_mutually_exclusive_group()
    for name, text in (("job_shop", "a job shop (two formats)"), ("psplib", "a .sm file")):
        readers.add_argument(
            f"--{name}", dest="reader", action="store_const", const=name, help=f"GRAPH is {text}"
        )
    readers.add_argument("--tpch", action="store_true", help="GRAPH is a TPC-H .jsonl.gz")
    parser.set_defaults(reader="any")
    flags.add_printing(parser)


def run(options: argparse.Namespace) -> None:
    """Converts a file. Raises RegalError for one that isn't what it is said to be."""
    if options.tpch:
        tpch.convert_tpch(options.graph, options.output)
        wrote = {"wrote": options.output}
        printing.report(options, wrote, lambda: printing.say_wrote([options.output]))
        return
    reader = READERS.get(options.reader)
    if options.dimensions and reader:
        raise OptionError(f"{options.graph}: only ONNX models have --dimensions")
    graph = reader(options.graph) if reader else flags.read_graph(options)
    files.save_graph(graph, options.output)
    wrote = {"wrote": options.output, "ops": graph.num_ops, "tensors": graph.num_tensors}
    text = f"wrote {options.output}: {graph.num_ops} ops, {graph.num_tensors} tensors"
    printing.report(options, wrote, lambda: say(text))
