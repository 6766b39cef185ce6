"""Partial sorting, in place, and the best few of many."""

from embedx.kernels.compiled import kernel_part


@kernel_part
def select(order, key, low, middle, high):
    """Rearrange order[low:high] so that none before `middle` comes behind one after it: Hoare's quickselect.

    A number x comes before those with a larger key[x]; of two alike, the smaller number comes first.
    """
    first, last = low, high - 1
    while first < last:
        pivot = order[(first + last) // 2]
        i, j = first, last
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


@kernel_part
def insert(score, item, scores, items, r, n):
    """Put an item where it belongs among the n best of row r, in falling order of their scores; return how many these are now.

    Of more than a row has columns for, the last is dropped; of two alike, the earlier one comes first.
    """
    last = scores.shape[1] - 1
    if n <= last or score > scores[r, last]:
        at = min(n, last)
        while at > 0 and scores[r, at - 1] < score:
            scores[r, at], items[r, at] = scores[r, at - 1], items[r, at - 1]
            at -= 1
        scores[r, at], items[r, at] = score, item
        n = min(n + 1, last + 1)
    return n
