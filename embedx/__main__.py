"""`python -m embedx` is the command `embedx`."""

from embedx.cli.app import main

main()
