"""The training kernels: examples or blocks of text in, updated parameters out."""
