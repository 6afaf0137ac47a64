#!/usr/bin/env python3
"""The corpus `embedded` and its floor, written again from plumb/data/verse_model.h and base/rng.h alone.

  verse_reference.py        prints characters, SHA-256, and floors on the last tenth for blocks of 8 and 64

The values in verse_test.cpp and docs/corpora.md were compared with what this prints. Unlike plumb's filter it gives every
state its rhyme from the start, keeps the state in one dictionary and draws with plain loops. Takes about a minute.
"""

import bisect
import collections
import hashlib
import math

MASK = 2**64 - 1
SEED, LENGTH = 1, 250_000
CHARACTERS, OFFSET, TOPICS, BOOST, CLASSES, FOLLOWERS, SHARE, RHYMES, LENGTHS = 1180, 9.0, 12, 30.0, 64, 16, 0.9, 24, (5, 7)


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def philox(c, k):
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Stream:
    def __init__(self, seed, name):
        h = 0xCBF29CE484222325
        for b in name.encode():
            h = (h ^ b) * 0x100000001B3 & MASK
        self.key = mix(mix((seed + 0x9E3779B97F4A7C15) & MASK) ^ h)

    def word(self, step, sample, element, key=None):
        key = self.key if key is None else key
        w = philox([element // 2, sample, step, 0], [key & 0xFFFFFFFF, key >> 32])
        return w[1] << 32 | w[0] if element % 2 == 0 else w[3] << 32 | w[2]

    def uniform(self, step, sample, element):
        return (self.word(step, sample, element) >> 11) * 2.0**-53

    def below(self, n, step, sample, element):
        key = self.key
        while True:
            product = self.word(step, sample, element, key) * n
            if product & MASK >= 2**64 % n:
                return product >> 64
            key = mix((key + 0x9E3779B97F4A7C15) & MASK)


def shuffled(n, s):
    order = list(range(n))
    for i in range(n, 1, -1):
        j = s.below(i, 0, 0, i)
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def normalised(row):
    total = 0.0
    for w in row:
        total += w
    return [w / total for w in row]


def running(row):
    sums, so_far = [], 0.0
    for w in row:
        so_far += w
        sums.append(so_far)
    return sums


def pick(up_to, u):
    i = bisect.bisect_right(up_to, u)
    return i if i < len(up_to) else bisect.bisect_left(up_to, up_to[-1])


rank = shuffled(CHARACTERS, Stream(SEED, "verse.rank"))
home = [i % TOPICS for i in shuffled(CHARACTERS, Stream(SEED, "verse.topic"))]
word_class = [i % CLASSES for i in shuffled(CHARACTERS, Stream(SEED, "verse.word_class"))]
rhyme = [i % RHYMES for i in shuffled(CHARACTERS, Stream(SEED, "verse.rhyme"))]
zipf = normalised([1 / (r + 1 + OFFSET) for r in rank])
topic = [normalised([w * (BOOST if h == z else 1) for w, h in zip(zipf, home)]) for z in range(TOPICS)]
topic_sums = [running(row) for row in topic]
zipf_sums = running(zipf)
follower = []
draws = Stream(SEED, "verse.followers")
for k in range(CLASSES):
    row, i, draw = [0.0] * CHARACTERS, 0, 0
    while i < FOLLOWERS:
        c = pick(zipf_sums, draws.uniform(0, k, draw))
        draw += 1
        if row[c] == 0:
            row[c] = 1.0 / (i + 3)
            i += 1
    follower.append(normalised(row))
follower_sums = [running(row) for row in follower]
NEWLINE, COMMA, STOP = CHARACTERS, CHARACTERS + 1, CHARACTERS + 2


def slots_of(n):
    words = "12" * (n // 2)
    return words + "o\n" + words + "r,\n" + words + "e\n" + words + "r.\n"


def write():
    s, text, poem = Stream(SEED, "verse.text"), [], 0
    while len(text) < LENGTH:
        z = s.below(TOPICS, poem, 0, 0)
        for i, slot in enumerate(slots_of(LENGTHS[s.below(len(LENGTHS), poem, 0, 1)])):
            u = s.uniform(poem, i + 1, 0)
            if slot in "1oe":
                text.append(pick(topic_sums[z], u))
                if slot == "o":
                    r = rhyme[text[-1]]
            elif slot == "2":
                if s.uniform(poem, i + 1, 1) < SHARE:
                    text.append(pick(follower_sums[word_class[text[-1]]], u))
                else:
                    text.append(pick(topic_sums[z], u))
            elif slot == "r":
                words = [c for c in range(CHARACTERS) if rhyme[c] == r]
                sums = running([topic[z][c] for c in words])
                text.append(words[pick(sums, u * sums[-1])])
            else:
                text.append({"\n": NEWLINE, ",": COMMA, ".": STOP}[slot])
        poem += 1
    return text


def floor(text, block):
    mass = [[0.0] * RHYMES for _ in range(TOPICS)]
    class_mass = [[0.0] * CLASSES for _ in range(TOPICS)]
    for z in range(TOPICS):
        for c in range(CHARACTERS):
            mass[z][rhyme[c]] += topic[z][c]
            class_mass[z][word_class[c]] += topic[z][c]
    slots = [slots_of(n) for n in LENGTHS]
    places = sum(len(s) for s in slots)
    prior = {}
    for z in range(TOPICS):
        for f, s in enumerate(slots):
            for i in range(len(s)):
                if i <= s.index("o"):
                    prior[z, f, i, None] = 1 / places / TOPICS
                else:
                    for r in range(RHYMES):
                        prior[z, f, i, r] = mass[z][r] / places / TOPICS

    def step(states, x, previous):
        total, moved = 0.0, collections.defaultdict(float)
        for (z, f, i, r), w in states.items():
            slot = slots[f][i]
            if slot in "\n,.":
                p = float(x == {"\n": NEWLINE, ",": COMMA, ".": STOP}[slot])
            elif x >= CHARACTERS:
                p = 0.0
            elif slot in "1oe":
                p = topic[z][x]
            elif slot == "r":
                p = topic[z][x] / mass[z][r] if rhyme[x] == r else 0.0
            elif previous is None:
                p = SHARE * sum(m * follower[k][x] for k, m in enumerate(class_mass[z])) + (1 - SHARE) * topic[z][x]
            else:
                p = SHARE * follower[word_class[previous]][x] + (1 - SHARE) * topic[z][x]
            if w * p == 0:
                continue
            total += w * p
            if i + 1 < len(slots[f]):
                moved[z, f, i + 1, rhyme[x] if slot == "o" else r] += w * p
            else:
                for z2 in range(TOPICS):
                    for f2 in range(len(slots)):
                        moved[z2, f2, 0, None] += w * p / TOPICS / len(slots)
        return total, {s: w / total for s, w in moved.items()}

    nats = 0.0
    for i in range(1, len(text)):
        if (i - 1) % block == 0:
            _, states = step(prior, text[i - 1], None)
        p, states = step(states, text[i], text[i - 1])
        nats -= math.log(p)
    return nats / (len(text) - 1)


def main():
    symbols = write()
    codes = [0x4E00 + 17 * i for i in range(CHARACTERS)] + [0x0A, 0xFF0C, 0x3002]
    text = "".join(chr(codes[c]) for c in symbols)
    print(len(text), len(set(text)), hashlib.sha256(text.encode()).hexdigest())
    validation = symbols[len(symbols) * 9 // 10:]
    for block in (8, 64):
        part = validation[: 40 * 64 + 1]
        print(f"block {block}: the first {len(part) - 1} targets {floor(part, block):.12f}")
    print(f"block 64, all {len(validation) - 1} targets: {floor(validation, 64):.12f}")


if __name__ == "__main__":
    main()
