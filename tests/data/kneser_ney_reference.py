#!/usr/bin/env python3
"""Interpolated Kneser-Ney from its definition, with dictionaries and exact fractions.

  kneser_ney_reference.py   prints the values that kneser_ney_test.cpp and docs speak of

The definition is the one at the head of plumb/data/kneser_ney.h; no code is shared with it.
"""

import collections
import fractions
import math


def reference_tokens(count, vocab_size, x):
    tokens = []
    for _ in range(count):
        x = (1103515245 * x + 12345) % 2**31
        tokens.append(min((x >> 16) % vocab_size, (x >> 20) % vocab_size))
    return tokens


def discount(counts):
    once, twice = sum(c == 1 for c in counts), sum(c == 2 for c in counts)
    return fractions.Fraction(once, once + 2 * twice) if once and twice else fractions.Fraction(1, 2)


def kneser_ney(tokens, vocab_size, order):
    """p(word, history): the probability as a Fraction."""
    grams = {m: collections.Counter(tuple(tokens[i:i + m]) for i in range(len(tokens) - m + 1)) for m in (1, 2, 3)}
    level = {order: dict(grams[order])}
    for m in range(order - 1, 0, -1):
        before = collections.defaultdict(set)
        for gram in grams[m + 1]:
            before[gram[1:]].add(gram[0])
        level[m] = {gram: len(tokens_before) for gram, tokens_before in before.items()}
    d = {m: discount(level[m].values()) for m in level}

    def p(word, history):
        lower = p(word, history[1:]) if history else fractions.Fraction(1, vocab_size)
        m = len(history) + 1
        row = {gram[-1]: c for gram, c in level[m].items() if gram[:-1] == history}
        if not row:
            return lower
        total = fractions.Fraction(sum(row.values()))
        return max(row.get(word, 0) - d[m], 0) / total + d[m] * len(row) / total * lower

    return lambda word, history: p(word, tuple(history)[-(order - 1):])


def main():
    train, validation = reference_tokens(400, 12, 1), reference_tokens(60, 12, 99)
    two, three = kneser_ney(train, 12, 2), kneser_ney(train, 12, 3)
    for word, history in ((0, [1]), (7, [9]), (5, [0])):
        print(f"bigram p({word} | {history}) = {float(two(word, history))!r}")
    for word, history in ((0, [1, 2]), (3, [0, 0]), (11, [11, 10]), (2, [2])):
        print(f"trigram p({word} | {history}) = {float(three(word, history))!r}")
    bigram = [-math.log(two(validation[i], validation[i - 1:i])) for i in range(1, 60)]
    trigram = bigram[:1] + [-math.log(three(validation[i], validation[i - 2:i])) for i in range(2, 60)]
    print(f"baselines: bigram {sum(bigram) / 59:.15f}, trigram {sum(trigram) / 59:.15f}")


if __name__ == "__main__":
    main()
