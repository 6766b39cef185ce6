"""What other programs make of tests of word vectors, one item and one word at a time, from what these programs do."""

import math
from collections import Counter

import numpy as np
from scipy import stats

F32 = np.float32


def compute_accuracy(words, vectors, text, threshold=0):
    """The lines that word2vec.c's compute-accuracy prints."""
    n = min(len(words), threshold) if threshold else len(words)
    names = [word.encode().upper() for word in words[:n]]  # of bytes: a to z alone
    table = np.array(vectors[:n], F32)
    length = np.zeros(n, F32)
    for k in range(table.shape[1]):
        length += table[:, k] * table[:, k]
    with np.errstate(invalid="ignore"):
        table = table / np.sqrt(length)[:, None]
    tokens = text.encode().split()
    lines, section, place, all_of = [], 0, 0, Counter()
    while True:
        if place == len(tokens) or tokens[place] == b":":
            if section:
                n_asked = all_of[section, "asked"] or 1
                right = all_of[section, "right"]
                shares = [ratio(all_of[of, "right"], all_of[of, "asked"]) for of in ("total", "semantic", "syntactic")]
                lines.append(f"ACCURACY TOP1: {ratio(right, n_asked)} %  ({right} / {n_asked})")
                lines.append("Total accuracy: {} %   Semantic accuracy: {} %   Syntactic accuracy: {} % ".format(*shares))
            section += 1
            if place == len(tokens):
                break
            lines.append(tokens[place + 1].decode() + ":")
            place += 2
            continue
        four = [token.upper() for token in tokens[place : place + 4]]
        place += 4
        all_of["questions"] += 1
        if any(word not in names for word in four):
            continue
        a, b, c = (names.index(word) for word in four[:3])
        query = (table[b] - table[a]) + table[c]
        products = np.zeros(n, F32)
        for k in range(table.shape[1]):
            products += query[k] * table[:, k]
        best, answer = F32(0), b""
        for row in range(n):
            if row not in (a, b, c) and products[row] > best:
                best, answer = products[row], names[row]
        for of in (section, "total", "semantic" if section <= 5 else "syntactic"):
            all_of[of, "asked"] += 1
            all_of[of, "right"] += answer == four[3]
    seen, asked = all_of["total", "asked"], all_of["questions"]
    lines.append(f"Questions seen / total: {seen} {asked}   {ratio(seen, asked)} % ")
    return lines


def ratio(part, whole):
    return "-nan" if whole == 0 else f"{F32(part) / F32(whole) * F32(100):.2f}"


def hyperwords_pairs(words, vectors, pairs):
    """The correlation that hyperwords' ws_eval prints, of [(a, b, score)]."""

    def represent(word):
        return unit(vectors[words.index(word)]) if word in words else np.zeros(len(vectors[0]))

    values = [float(represent(a.lower()) @ represent(b.lower())) for a, b, _ in pairs]
    return stats.spearmanr(values, [score for *_, score in pairs])[0]


def hyperwords_analogies(words, vectors, questions):
    """The two accuracies that hyperwords' analogy_eval prints, by 3CosAdd and by 3CosMul."""
    order = sorted(range(len(words)), key=lambda row: words[row])  # its vocabularies are alphabetic
    names = [words[row] for row in order]
    table = np.array([unit(vectors[row]) for row in order])
    place = {name: k for k, name in enumerate(names)}
    right = [0, 0]
    for question in questions:
        a, b, c, expected = (word.lower() for word in question)
        sa, sb, sc = (((table * table[place.get(word, 0)]).sum(axis=1) + 1) / 2 for word in (a, b, c))
        for k, scores in enumerate((-sa + sb + sc, sb * sc / (sa + 0.01))):
            for word in (a, b, c):
                if word in place:
                    scores[place[word]] = 0
            right[k] += names[int(np.argmax(scores))] == expected
    return right[0] / len(questions), right[1] / len(questions)


def cosmul(words, vectors, a, b, c, epsilon=0.001):
    """The answer by 3CosMul (Levy & Goldberg 2014, eq. 4), spellings alike but for case being one word, the first."""
    first = {}
    for row, word in enumerate(words):
        first.setdefault(word.upper(), row)
    table = np.array([unit(vector) for vector in vectors])
    sa, sb, sc = ((table @ table[first[word.upper()]] + 1) / 2 for word in (a, b, c))
    scores = sb * sc / (sa + epsilon)
    asked = {a.upper(), b.upper(), c.upper()}
    left = [row for row, word in enumerate(words) if word.upper() not in asked and np.any(vectors[row])]
    return words[max(left, key=lambda row: scores[row])].upper()


def outlier_position(vectors):
    """How many words of a set are less outlying than its last, by how compact the set is without each (Camacho-Collados &
    Navigli 2016, eq. 1 and 2).
    """
    rows = [unit(vector) for vector in vectors]

    def compact_without(k):
        others = [row for j, row in enumerate(rows) if j != k]
        n = len(others)
        return sum(float(x @ y) for i, x in enumerate(others) for j, y in enumerate(others) if i != j) / (n * (n - 1))

    scores = [compact_without(k) for k in range(len(rows))]
    return sum(score < scores[-1] for score in scores[:-1])


def unit(vector):
    wide = np.asarray(vector, np.float64)
    return wide / math.sqrt(float(wide @ wide)) if np.any(wide) else wide
