"""What compiled code is written in: the decorators, vector instructions, mathematics, random numbers, matrix products."""
