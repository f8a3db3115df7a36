"""Which accelerators' compilers are installed, for tests that need one."""

import pytest

from regal_jax.compiler.accelerators.accelerator import accelerator
from regal_jax.errors import CompilerError


def compiler_for(name: str):
    """The accelerator; the test is left out where its compiler isn't installed."""
    try:
        return accelerator(name)
    except CompilerError as error:
        pytest.skip(str(error))
