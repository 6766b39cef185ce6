"""One model as a page to look at: settings, curves, scores, and what its words are near to, or where its answers go wrong."""
