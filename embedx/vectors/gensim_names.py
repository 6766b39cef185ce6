"""What there is in place of gensim's names that have no equal here."""

# By the name of a method or an attribute of KeyedVectors.
OF_VECTORS = {
    "wv": "the model itself has its vectors and queries",
    "index2word": "index_to_key",
    "index2entity": "index_to_key",
    "vocab": "key_to_index",
    "syn0": "vectors",
    "get_index": "index(word)",
    "similar_by_key": "similar_by_word",
    "words_closer_than": "closer_than",
    "distances": "distance(word, other) for each other word",
    "get_mean_vector": "model.mean_vector(words)",
    "vectors_for_all": "model[words]",
    "get_normed_vectors": "get_vector(word, norm=True)",
    "unit_normalize_all": "get_vector(word, norm=True)",
    "init_sims": "get_vector(word, norm=True)",
    "save_word2vec_format": 'export("vectors.txt")',
    "evaluate_word_pairs": "embedx.evaluate(model, pairs=...)",
    "evaluate_word_analogies": "embedx.evaluate(model, analogies=...)",
    "intersect_word2vec_format": 'embedx.SkipGram(start="vectors.txt")',
}
# By the name of a method or an attribute of Word2Vec.
OF_TRAINING = {
    "wv": "model",
    "build_vocab": "fit or partial_fit",
    "train": "fit or partial_fit",
}


def missing(owner: object, name: str, instead: dict[str, str]) -> AttributeError:
    """The error for an attribute that there is not."""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in instead:
        message += f"; in place of gensim's: {instead[name]}"
    return AttributeError(message, name=name, obj=owner)
