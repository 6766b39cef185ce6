"""Partial sorting, in place."""

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
