"""Partial sorting in place, the top k of a row, and binary search."""

import numpy as np
from numpy import int64

from embedx.kernels.compiled import kernel, kernel_part

NONE = np.float32(-np.inf)  # the score that NaN counts as


@kernel_part
def select(order, key, low, middle, high):
    """Partition order[low:high] at `middle` by Hoare's quickselect: those before it have the
    smallest keys.

    The key of a number x is key[x]; of equal keys, the smaller number comes first.
    """
    first = low
    last = high - 1
    while first < last:
        pivot = order[(first + last) // 2]
        i = first
        j = last
        while i <= j:
            while _comes_before(key, order[i], pivot):
                i += 1
            while _comes_before(key, pivot, order[j]):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            last = j
        elif middle >= i:
            first = i
        else:
            break


@kernel_part
def _comes_before(key, x, y):
    return key[x] < key[y] or (key[x] == key[y] and x < y)


@kernel
def keep_largest(offsets, columns, values, n_kept, order, key, sizes):
    """Move the values of largest absolute value to the beginning of each row, in the order of their
    columns. Of equal ones, that of the smaller column is kept.

    offsets, columns, values   rows, in any order within a row
    n_kept                     number of values kept per row, or all of a shorter row
    order                      int32 buffer, as long as the longest row
    key                        float32 buffer, by column
    sizes                      int64 (n_rows,), overwritten by the number of values kept
    """
    for r in range(len(sizes)):
        begin = offsets[r]
        n = offsets[r + 1] - begin
        for k in range(n):
            order[k] = columns[begin + k]
            key[columns[begin + k]] = -abs(values[begin + k])
        sizes[r] = min(n, n_kept)
        select(order, key, 0, sizes[r], n)
        _sort(order, sizes[r])
        for k in range(n):
            key[columns[begin + k]] = values[begin + k]
        for k in range(sizes[r]):
            columns[begin + k] = order[k]
            values[begin + k] = key[order[k]]


@kernel_part
def _sort(numbers, n):
    """Sort the first n numbers by insertion; n is small."""
    for k in range(1, n):
        number = numbers[k]
        at = k
        while at > 0 and numbers[at - 1] > number:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = number


@kernel_part
def place_of(number, numbers, begin, end):
    """The index of a number in numbers[begin:end], which ascend; -1 if it is not there."""
    first = begin
    beyond = end
    while first < beyond:
        middle = (first + beyond) // 2
        if numbers[middle] < number:
            first = middle + 1
        else:
            beyond = middle
    if first < end and numbers[first] == number:
        return first
    return int64(-1)


@kernel_part
def insert(score, item, scores, items, r, n):
    """Insert an item into the n best of row r, by falling score; return their new number.

    If the row is full, the last is dropped. Of equal scores, the earlier item comes first.
    """
    last = scores.shape[1] - 1
    if n <= last or score > scores[r, last]:
        at = min(n, last)
        while at > 0 and scores[r, at - 1] < score:
            scores[r, at] = scores[r, at - 1]
            items[r, at] = items[r, at - 1]
            at -= 1
        scores[r, at] = score
        items[r, at] = item
        n = min(n + 1, last + 1)
    return n


@kernel
def best_of_rows(scores, begin, end, items, best):
    """Write the highest scores of the rows begin:end to `best`, best first, and their columns to
    `items`.

    Of equal scores the earlier one comes first; NaN counts as -inf.
    """
    for r in range(begin, end):
        n = 0
        for k in range(scores.shape[1]):
            score = scores[r, k]
            n = insert(score if score == score else NONE, k, best, items, r, n)
