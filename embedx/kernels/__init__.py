"""What compiled code is written in: the decorator, vector instructions, mathematics, random numbers, matrix products."""
