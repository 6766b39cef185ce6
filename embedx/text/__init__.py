"""Text: from files, streams and dumps to an encoded corpus and its vocabulary."""
