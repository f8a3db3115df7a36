"""Graphs of one-shot priority sampling: the paper's, new ones in every epoch, and real ones."""

from collections.abc import Sequence

from regal_jax.datasets import job_shop, machine_corpora
from regal_jax.datasets.machine_graphs import zoo_machine_graph
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.one_shot.settings import Graphs, Training
from regal_jax.studies.topoformer import graphs
from regal_jax.studies.topoformer.settings import RealGraphs
from regal_jax.training.trainer import EpochGraphs

GraphCorpus = Corpus[Sequence[ComputationGraph] | EpochGraphs]


def test_graphs(settings: Graphs) -> dict[str, list[ComputationGraph]]:
    """The paper's test graphs of the settings."""
    return {name: _published(name, "test", settings) for name in settings.settings}


def corpora(settings: Training) -> dict[str, GraphCorpus]:
    """What is trained on for each setting, by --train_instances."""
    names = settings.settings
    if names and settings.train_instances == "fresh":
        return dict.fromkeys(names, fresh_corpus(settings))
    return {name: paper_corpus(name, settings) for name in names}


def paper_corpus(name: str, settings: Training) -> GraphCorpus:
    """The paper's training graphs of a setting."""
    validation = validation_graphs([name], settings.validation_graphs, settings.data_dir)
    return Corpus(name, _published(name, "train", settings), validation)


def fresh_corpus(settings: Training) -> GraphCorpus:
    """New graphs in every epoch, of the settings in turns (ours)."""
    names = settings.train_settings or settings.settings
    count, folder = settings.epoch_graphs, settings.data_dir
    epochs = fresh_epochs(names, settings.training.seed, count, folder)
    return Corpus("fresh", epochs, validation_graphs(names, settings.validation_graphs, folder))


def fresh_epochs(names: Sequence[str], seed: int, count: int, folder: str | None) -> EpochGraphs:
    """Epochs of so many new graphs."""

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        stream = (machine_corpora.TRAINING, seed, epoch)
        return machine_corpora.fresh_graphs(names, count, stream, folder)

    return epoch_graphs


def classic_job_shops(
    families: Sequence[str], most: int
) -> tuple[dict[str, list[ComputationGraph]], dict[str, Bounds]]:
    """The literature's job shops by setting, at most so many of a family; what is known of all."""
    known = job_shop.classic_bounds()
    bounds = {name: Bounds(b["lower_bound"], b["upper_bound"]) for name, b in known.items()}
    graphs = {f"classic {name}": job_shop.classic_job_shops(name)[:most] for name in families}
    return graphs, bounds


def real_graphs(
    settings: RealGraphs, validation_graphs: int
) -> tuple[dict[str, list[ComputationGraph]], GraphCorpus]:
    """Real test graphs by stratum, and what a policy for real graphs is trained on."""
    found, below = graphs.real_graphs(settings.dataset), settings.train_ops + 1
    training = graphs.between(found["train"], 2, below, settings.train_graphs)
    validation = graphs.between(found["valid"], 2, below, validation_graphs)
    tests = graphs.real_tests(found["test"], settings)
    return (
        {f"real {stratum}": _on_machines(some) for stratum, some in tests.items()},
        Corpus("real", _on_machines(training), _on_machines(validation)),
    )


def _on_machines(some: Sequence[ComputationGraph]) -> list[ComputationGraph]:
    return [zoo_machine_graph(graph) for graph in some]


def _published(name: str, split: str, settings: Graphs) -> list[ComputationGraph]:
    most = settings.test_graphs if split == "test" else settings.train_graphs
    return machine_corpora.published_graphs(name, split, most, settings.data_dir)


def validation_graphs(
    names: Sequence[str], count: int, folder: str | None
) -> list[ComputationGraph]:
    """The paper has none; ours are in neither of its splits."""
    return machine_corpora.fresh_graphs(names, count, (machine_corpora.VALIDATION,), folder)
