"""Measurements. A module or package here with ``run(smoke: bool) -> dict`` is a benchmark: `python -m benchmarks`."""
