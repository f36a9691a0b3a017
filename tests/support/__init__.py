"""Helpers of the tests: generated dumps, tiny models, implementations by brute force."""
