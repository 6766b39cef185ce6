"""The command line: options in, results out; the only place that prints or exits."""
