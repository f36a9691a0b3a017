"""Measurements, printed by `make bench` and recorded in docs/results/benchmarks.md. Ratios are taken within one run."""
