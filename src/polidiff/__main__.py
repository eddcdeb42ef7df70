"""``python -m polidiff`` is the command line."""

from polidiff.cli.main import main

main()
