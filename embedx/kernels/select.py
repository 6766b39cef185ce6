"""Partial sorting, in place, the best few of many, and search among sorted numbers."""

import numpy as np
from numpy import int64

from embedx.kernels.compiled import kernel, kernel_part

NONE = np.float32(-np.inf)  # the score of what is not a number


@kernel_part
def select(order, key, low, middle, high):
    """Rearrange order[low:high] so that none before `middle` comes behind one after it: Hoare's
    quickselect.

    A number x comes before those with a larger key[x]; of two alike, the smaller number comes
    first.
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
    """Bring the numbers of each row that are largest, whatever their sign, to its beginning, in the
    order of their columns; of two alike that of the smaller column.

    offsets, columns, values   numbers by row, in any order within a row
    n_kept                     how many are kept, or all of a row that has fewer
    order                      int32, as long as the longest row
    key                        float32, by column
    sizes                      int64 (n_rows,): becomes how many each row keeps
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
    """Sort the first n numbers, which are few."""
    for k in range(1, n):
        number = numbers[k]
        at = k
        while at > 0 and numbers[at - 1] > number:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = number


@kernel_part
def place_of(number, numbers, begin, end):
    """The index of a number in numbers[begin:end], which ascend; -1 where it is not there."""
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
    """Put an item where it belongs among the n best of row r, in falling order of their scores;
    return how many these are now.

    Of more than a row has columns for, the last is dropped; of two alike, the earlier one comes
    first.
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
    """Write the highest scores of the rows begin:end to the columns of `best`, best first, and
    where they stand to `items`.

    Of two alike the earlier one comes first; what is not a number counts as -inf.
    """
    for r in range(begin, end):
        n = 0
        for k in range(scores.shape[1]):
            score = scores[r, k]
            n = insert(score if score == score else NONE, k, best, items, r, n)
