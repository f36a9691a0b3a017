"""`python -m refactx`."""

from refactx.cli import main

main()
