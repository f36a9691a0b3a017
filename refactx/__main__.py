"""`python -m refactx`."""

from refactx.cli.main import main

main()
