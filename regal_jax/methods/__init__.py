"""Every scheduling method behind ``optimize``: (problem, Budget) -> Result, registered by name."""
