"""Helpers of the tests of the server: servers of the tiny model on free ports, and a model that waits to be let on."""
