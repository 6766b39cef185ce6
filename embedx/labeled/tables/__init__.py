"""Tables as labelled data: of each row of CSV, TSV, JSON Lines or Parquet the text, the numbers,
the labels and the id.

Text columns are joined by blanks. Numbers beside text are features as words are, one for each
interval between deciles of the training data, so that they weigh as much as words do. Numbers alone
are dense features, of mean 0 and standard deviation 1 in the training data. An empty cell, and one
of MISSING, has no interval, or the mean.
"""
