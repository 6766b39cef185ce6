"""The command line: options in, results out. The library below it neither prints nor exits."""
