"""`python -m embedx` is the command `embedx`."""

from embedx.cli import main

main()
