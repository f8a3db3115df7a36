import pytest

from regal_jax import cli


@pytest.fixture(autouse=True)
def no_compilation_cache(monkeypatch):
    monkeypatch.setattr(cli.compilation_cache, "enable", lambda: None)
