"""Where the graphs of the model zoo come from: one file a family of packages."""
