"""Common parts of the tests of engines and of the scheduler."""
