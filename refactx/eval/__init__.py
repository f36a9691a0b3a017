"""Measuring answers: questions, runs, metrics, a judge, reports and the generation-time experiment."""
