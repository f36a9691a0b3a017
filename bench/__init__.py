"""Measurements, printed by `make bench` and recorded in docs/benchmarks.md. Ratios are taken within one run."""
