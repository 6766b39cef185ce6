"""Search of rows: approximate maximum inner product search in a table while it is trained, and
exact nearest neighbours among sparse rows, which are fixed (`nearest_rows`). Of the former:

The columns are split into blocks, as in product quantization, and each block has an inverted file
of its own, with uncompressed vectors (IVF-Flat in faiss' terms).

stored    In each block: the centroids of a coarse quantizer (`kmeans`); for each centroid an
          inverted list of row ids with copies of the rows (`index`), packed for SIMD (`panels`);
          sums over each list, to estimate its scores (`cluster_scores`).
query     In each block: rank the clusters by their estimated scores, probe the lists in that order
          until enough rows are scored, and keep the rows near the best score (`query`). The
          candidates are the union over the blocks. The caller computes their exact scores
          (rescoring), or the blocks exchange messages (`message_passing`). `top_k` returns the best
          k rows.
update    A worker marks the rows it has changed as stale. `updater` then copies them again in
          place, updates the sums of their lists, moves rows with a new nearest centroid to that
          list, and rebuilds the whole index after many such moves.
readers   Queries take no lock; one writer at a time updates a block. During an update a query may
          find a row twice, in its old list or not at all, and a score may come from a vector that
          is being overwritten: scores are estimates. Reads stay within the arrays, and every id is
          that of a row. After a rebuild, running queries still use the old index.
"""
