"""``python -m regal_jax`` is the ``regal-jax`` command."""

import sys

from regal_jax.cli import main

if __name__ == "__main__":
    sys.exit(main())
