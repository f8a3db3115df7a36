"""Sphinx configuration of the documentation: `sphinx-build -W -n docs docs/_build/html`."""

import sys
from pathlib import Path

import regal_jax

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project, author, release = "regal_jax", "The regal_jax authors", regal_jax.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated_pages"]
exclude_patterns = ["_build", "_ext", "_generated"]

# Markdown: headings are link targets, so that a link to one that isn't there is an error.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

# Notebooks run when they change (docs/_build/.jupyter_cache); an exception in one is an error.
nb_execution_mode = "cache"
nb_execution_timeout = 600  # a cell; seconds, but for kernels that are compiled for the first time
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_execution_in_temp = True
nb_output_stderr = "remove"

# The reference: public names as `__all__` has them, types where they are declared.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False
python_use_unqualified_type_names = True

# What nitpicking can't resolve: types in signatures, which are other libraries' or aliases.
nitpick_ignore_regex = [("py:(class|data|obj|exc)", ".*")]

html_theme = "sphinx_book_theme"
html_title = "regal_jax"
html_static_path = ["_static"]
html_css_files = ["site.css"]
