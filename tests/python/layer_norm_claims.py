"""The numbers of docs/layer_norm.md, computed anew: fragments of text that must stand on the page, for layer_norm_doc_test.py."""

import functools
import math
import pathlib
import re

import numpy as np

try:
    import torch
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
X, GAMMA, BETA, DY = (np.array(v) for v in ([1.0, 2, 3, 4], [1, 2, 0.5, 1.5], [0.1, 0, -0.1, 0.2], [0.5, -1, 2, 0.25]))
EPS = 1e-5
NEARLY = np.array([1, 1, 1, 1.001])


@functools.lru_cache(None)
def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def n(value, digits=6):
    return f"{0.0 if abs(value) < 1e-30 else value:.{digits}g}"


def row(values, digits=6):
    return " ".join(n(v, digits) for v in values)


def listed(values, digits=6):
    return "[" + ", ".join(n(v, digits) for v in values) + "]"


def e(value):
    """1e-05 as a person writes it."""
    return f"{value:.0e}".replace("e-0", "e-")


class Norm:
    """A row, its statistics and its derivative, by numpy."""

    def __init__(self, x, eps):
        self.x, self.eps = np.asarray(x, float), eps
        self.mean, self.var = np.mean(self.x), np.var(self.x)
        self.s = math.sqrt(self.var + eps)
        self.xhat = (self.x - self.mean) / self.s
        d = len(self.x)
        self.jacobian = (np.eye(d) - 1 / d - np.outer(self.xhat, self.xhat) / d) / self.s
        self.share = eps / (self.var + eps)

    def dx(self, g):
        return (g - np.mean(g) - self.xhat * np.mean(g * self.xhat)) / self.s


def in_order(values):
    return functools.reduce(float.__add__, values, 0.0)


def loss(x, gamma=GAMMA.tolist(), beta=BETA.tolist(), dy=DY.tolist()):
    """sum(dy y) in Python's own doubles, left to right: the same bits on every machine."""
    d = len(x)
    mean = in_order(x) / d
    s = math.sqrt(in_order((v - mean) * (v - mean) for v in x) / d + EPS)
    return in_order(dy[i] * ((x[i] - mean) / s * gamma[i] + beta[i]) for i in range(d))


def largest_error(of, at, gradient, h):
    """The largest |central difference - gradient| over the elements."""
    worst = 0.0
    for j, v in enumerate(at):
        up, down = [list(at), list(at)]
        up[j], down[j] = v + h, v - h
        worst = max(worst, abs((of(up) - of(down)) / (2 * h) - gradient[j]))
    return worst


def cauchy(f, order, radius=0.05, points=64):
    """The Taylor coefficient of an analytic f at 0, by a sum on a circle: exact but for rounding."""
    z = radius * np.exp(2j * np.pi * np.arange(points) / points)
    return np.real(sum(f(v) / v ** order for v in z) / points)


def bf16(v):
    bits = int(np.float32(v).view(np.uint32))
    return float(np.uint32((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32))


class Counted:
    """A number that counts what is done with it."""

    done = 0

    def step(self, _=None):
        Counted.done += 1
        return self

    __add__ = __sub__ = __mul__ = step


def operations(d):
    """(forward, backward) of a row, as the loops of norm_simd.cpp go; a MulAdd is two, divisions and roots of a row are left out."""
    c, row_of = Counted(), range(d)
    Counted.done = 0
    total = c
    for _ in row_of:
        total = total + c  # sum
    for _ in row_of:
        deviation = c - c
        total = total + deviation * deviation
    for _ in row_of:
        _ = (c - c) * c * c + c  # (x - mean) rstd gamma + beta
    forward, Counted.done = Counted.done, 0
    for _ in row_of:
        g, xhat = c * c, (c - c) * c
        _, _ = total + g, total + g * xhat
    for _ in row_of:
        xhat = (c - c) * c
        _, _ = c + c * xhat, c + c  # dgamma, dbeta
        _ = ((c * c - total) - xhat * total) * c
    return forward, Counted.done


def per_element():
    (f1, b1), (f2, b2) = operations(8), operations(16)
    return (f2 - f1) // 8, (b2 - b1) // 8


def jacobian_claims():
    w = Norm(X, EPS)
    assert "2016, arXiv 1607.06450" in source("plumb/norm/layer.cpp") and "2019, arXiv 1911.07013" in source("plumb/norm/center.cpp")
    yield "Ba, Kiros & Hinton 2016, arXiv 1607.06450"
    yield "Xu et al. 2019, arXiv 1911.07013"
    yield "gamma and beta have the shape (C), are the same for all positions and start at ones and zeros; eps = 1e-5 unless"
    assert "| `norm_eps` | a number | `1e-05` |" in source("docs/config.md")
    yield "it is the derivative of the norm at eps = 0."
    yield "is dvar/dx_j over 2 s, the derivative of a root"
    yield "what is left is xhat (1 - mean(xhat^2)) / s"
    yield "At eps = 0, s J is a projection"
    yield "At eps = 0 a step can only lengthen"
    assert np.allclose(np.linalg.matrix_power(Norm(X, 0).s * Norm(X, 0).jacobian, 2), Norm(X, 0).s * Norm(X, 0).jacobian)
    yield "At a constant row xhat is 0 and J is the centring"
    yield "What holds exactly, for a > 0, is that xhat of a x at eps is xhat of x at eps / a^2. For a times [1, 2, 3, 4]:"
    yield "| a | var | 1/s | eps / (var + eps) | xhat_4 | eps / s^3 |"
    yield "variance v beside 1, the gain is the inverse root of 1 + v at every depth, and"
    yield "The chapter's row [2, 4, 6, 8] has mean 5, var 5 and, at eps = 1e-5, xhat = " + listed(Norm([2, 4, 6, 8], EPS).xhat, 4)
    assert np.var([2, 4, 6, 8]) == np.mean([2, 4, 6, 8]) == 5
    near = Norm(NEARLY, EPS)
    sigma = math.sqrt(near.var)
    yield (f"row [1, 1, 1, 1.001] at eps = 1e-5, sqrt(var) is {n(sigma)} and s is {n(near.s)}: 1/sqrt(var) = {n(1 / sigma)} is "
           f"{n(near.s / sigma)} times the gain 1/s = {n(1 / near.s)}")
    for name, count, value in (("1, all features alike", "1", "0"), ("xhat", "1", "eps / s^3"), ("whatever is perpendicular to both", "d - 2", "1/s")):
        yield f"| {name} | {count} | {value} |"
    yield f"worked row of section 5 it is {n(w.share)} of 1/s"
    yield f"For [1, 1, 1, 1.001] at eps = 1e-5 it is {n(near.share)} of it"
    yield f"1/sqrt(eps): {n(1 / math.sqrt(EPS))} at eps = 1e-5"
    two = Norm([1, 2], EPS)
    assert np.allclose(two.jacobian, two.eps / two.s ** 3 * np.array([[0.5, -0.5], [-0.5, 0.5]]))
    yield f"[1, 2] at eps = 1e-5 has xhat = {listed(two.xhat)} and the eigenvalue {n(EPS / two.s ** 3)} beside 1/s = {n(1 / two.s)}"
    for a in (0.1, 1, 10):
        r = Norm(a * X, EPS)
        assert np.allclose(r.xhat, Norm(X, EPS / a ** 2).xhat)
        yield f"| {n(a)} | {n(r.var)} | {n(1 / r.s)} | {n(r.share)} | {n(r.xhat[3])} | {n(EPS / r.s ** 3)} |"
    g = GAMMA * DY
    dx, c = w.dx(g), X - w.mean
    length = np.linalg.norm
    assert abs((c - dx).sum()) < 1e-14
    yield f"sum(dx x) is {n(dx @ X)}; a step x - dx leaves the mean at {n(np.mean(X - dx))} and takes |x - mean| from {n(length(c))} to {n(length(c - dx))}"
    yield f"|dx| = {n(length(dx))} and |g| / s = {n(length(g) / w.s)}"
    yield f"v = 0.01 makes it {n(1 / math.sqrt(1.01))}"


def cost_claims():
    forward, backward = per_element()
    for name, elements, rows, flops in (("forward", 2, 2, forward), ("backward", 3, 2, backward), ("both", 5, 4, forward + backward)):
        counts = "".join(f" {4 * elements * d + 4 * rows:,} | {flops * d:,} |" for d in (128, 768))
        yield f"| {name} | {4 * elements} d + {4 * rows} | {flops} d |{counts}"
    yield "| | bytes | FLOPs | bytes, d = 128 | FLOPs, d = 128 | bytes, d = 768 | FLOPs, d = 768 |"
    yield f"{n((forward + backward) / 20, 2)} FLOPs a byte"
    yield f"Keeping xhat would write 4 d bytes more, {4 + 20} d in all, to save {2 * 2} d of backward's {backward} d FLOPs"
    group = int(re.search(r"kGroup = (\d+)", source("plumb/kernel/norm_simd.cpp"))[1])
    yield f"lane j mod {n(128 // 32)}, {n(256 // 32)} or {n(512 // 32)}"
    yield f"{group} rows of 768 floats are {group * 768 * 4 // 1024} KiB"


def worked_claims():
    w, g = Norm(X, EPS), GAMMA * DY
    y, dx = GAMMA * w.xhat + BETA, w.dx(g)
    yield f"eps = 1e-5 x {row(X)} gamma {row(GAMMA)} beta {row(BETA)} dy {row(DY)}"
    yield (f"mean {n(w.mean)} x - mean {row(X - w.mean)} var {n(w.var)} s {n(w.s)} 1/s {n(1 / w.s)} xhat {row(w.xhat)} y {row(y)}")
    yield (f"g {row(g)} mean(g) {n(np.mean(g))} g xhat {row(g * w.xhat)} mean(g xhat) {n(np.mean(g * w.xhat))} "
           f"g - mean(g) {row(g - np.mean(g))} xhat mean(g xhat) {row(w.xhat * np.mean(g * w.xhat))} "
           f"dx {row(dx)} dgamma {row(DY * w.xhat)} dbeta {row(DY)}")
    yield "J " + " ".join(row(line) for line in w.jacobian) + f" eigenvalues {row(sorted([0, EPS / w.s ** 3, 1 / w.s, 1 / w.s]))}"
    assert np.allclose(np.linalg.eigvalsh(w.jacobian), [0, EPS / w.s ** 3, 1 / w.s, 1 / w.s], atol=1e-12)
    assert np.allclose(w.jacobian @ g, dx, atol=1e-14)
    sigma = math.sqrt(np.var(NEARLY))
    yield "J times g gives the same dx"
    yield "| eps | s | first three of xhat | fourth | mean(xhat^2) | 1/s | eps / (var + eps) |"
    yield f"The default eps is {n(EPS / np.var(NEARLY))} times var"
    yield f"nearly constant, [1, 1, 1, 1.001]: mean {n(np.mean(NEARLY))}, var {n(np.var(NEARLY))}, sqrt(var) {n(sigma)}"
    yield "The chapter prints ±0.866, ±0.5 and ±0.05 at eps = 1e-5, 1e-3 and 0.1"
    for eps in (0, 1e-5, 1e-3, 0.1):
        r = Norm(NEARLY, eps)
        assert np.ptp(r.xhat[:3]) < 1e-14
        name = "0" if eps == 0 else "0.1" if eps == 0.1 else e(eps)
        yield f"| {name} | {n(r.s)} | {n(r.xhat[0])} | {n(r.xhat[3])} | {n(np.mean(r.xhat ** 2))} | {n(1 / r.s)} | {n(r.share)} |"


def check_claims():
    unit = 2.0 ** -53
    g = GAMMA * DY
    yield f"u = 2^-53 = {n(unit, 2)}"
    assert 1 + 2 * unit > 1 == 1 + unit
    yield "(L(h) - L(-h)) / 2h is c_1 + c_3 h² and terms"
    yield "for them there is no c_3 and any step is good"
    yield "| a | h | largest dx | error | c_3 h² | u L / h |"
    yield "steps 1e-4, 1e-5 and 2e-6, a bound of 1e-6"
    yield "scales 0.1, 1 and 10 with h = 1e-3 times the scale and a bound of 1e-6"
    numbers, kernels = source("tests/conformance/numbers.cpp"), source("tests/kernel/norm_kernels_test.cpp")
    assert "{1e-4, 1e-5, 2e-6}" in numbers and "off <= 1e-6 * size" in numbers and "1e-6 * size" in source("tests/kernel/guarded.h")
    assert "{0.1, 1.0, 10.0}" in kernels and "1e-3 * scale, loss" in kernels
    scaled = []
    for a in (0.1, 1.0, 10.0):
        x = [a * v for v in X.tolist()]
        r = Norm(x, EPS)
        dx = r.dx(g)
        at = (lambda z: sum((GAMMA * DY) * ((r.x + z * unit_j - np.mean(r.x + z * unit_j)) / np.sqrt(
            np.mean((r.x + z * unit_j - np.mean(r.x + z * unit_j)) ** 2) + EPS))))
        bend = 0
        for j in range(4):
            unit_j = np.eye(4)[j]
            bend = max(bend, abs(cauchy(at, 3, 0.05 * a)))
        for h in (1e-3, 1e-5, 1e-7):
            error = largest_error(loss, x, dx.tolist(), h)
            assert 0.5 < error / (bend * h * h + unit * abs(loss(x)) / h) < 2
            yield (f"| {n(a)} | {e(h)} | {n(abs(dx).max(), 4)} | {n(error, 3)} | {n(bend * h * h, 3)} | {n(unit * abs(loss(x)) / h, 2)} |")
        scaled.append((largest_error(loss, x, dx.tolist(), 1e-3 * a), abs(dx).max()))
        if a == 1:
            lowest = (unit * abs(loss(x)) / (2 * bend)) ** (1 / 3)
            yield f"is least at h = {n(lowest, 2)} a, where it is {n((bend * lowest ** 2 + unit * abs(loss(x)) / lowest), 2)} / a"
            yield f"c_3 is {n(bend, 3)} / a^3, where L = {n(loss(x))}"
            of_gamma = largest_error(lambda v: loss(x, gamma=v), GAMMA.tolist(), (DY * r.xhat).tolist(), 1e-3)
            of_beta = largest_error(lambda v: loss(x, beta=v), BETA.tolist(), DY.tolist(), 1e-3)
            yield f"at h = 1e-3 they are off by {n(of_gamma, 1)} and {n(of_beta, 1)}"
            mean_part, xhat_part = abs(np.mean(g)) / r.s, abs(r.xhat * np.mean(g * r.xhat)).max() / r.s
            yield f"without mean(g) dx is off by {n(mean_part, 3)}, without xhat mean(g xhat) by {n(xhat_part, 3)}"
            projected = np.eye(4) - 0.25 - np.outer(X - r.mean, X - r.mean) / (4 * r.var)
            off = abs(projected @ g / r.s - dx).max()
            yield f"as a projection, without the eps, it is off by {n(off, 3)}"
            assert 1e-6 * abs(dx).max() < off < 1e-3  # plumb's bound finds it
            near = Norm(NEARLY, EPS)
            off = np.abs(near.xhat * np.mean(g * near.xhat) * (1 + EPS / near.var) - near.xhat * np.mean(g * near.xhat)) / near.s
            yield f"for [1, 1, 1, 1.001] it is off by {n(off.max(), 3)} where dx is at most {n(abs(near.dx(g)).max(), 3)}"
    assert len({n(error / size, 2) for error, size in scaled}) == 1
    yield f"With h = 1e-3 a the errors are {', '.join(n(v, 3) for v, _ in scaled)}: {n(scaled[0][0] / scaled[0][1], 2)} of the largest |dx| each time"


def practice_claims():
    near, w = Norm(NEARLY, EPS), Norm(X, EPS)
    outside = (NEARLY - near.mean) / (math.sqrt(near.var) + EPS)
    yield f"x - mean over (sqrt(var) + eps): [1, 1, 1, 1.001] leaves as {listed(outside, 4)} instead of {listed(near.xhat, 4)}"
    yield f"gain at a constant row is {n(1 / EPS)} instead of {n(1 / math.sqrt(EPS))}"
    healthy = (X - w.mean) / (math.sqrt(w.var) + EPS)
    yield f"On the worked row the two differ by {n(1 - healthy[3] / w.xhat[3], 2)} of xhat"
    for d in (4, 128, 768):
        r = np.random.default_rng(0).normal(size=d)
        assert math.isclose(np.std(r) / np.std(r, ddof=1), math.sqrt((d - 1) / d))
    yield "its factor is " + ", ".join(f"{n(math.sqrt((d - 1) / d))} at d = {d}" for d in (4, 128, 768))
    square = np.var(X) / (np.var(X, ddof=1) + EPS)
    yield f"the worked row leaves with a mean square of {n(square)} instead of {n(np.mean(w.xhat ** 2))}"
    axis = [np.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, last]]) for last in (12, 15)]
    over = [(v - v.mean(0)) / np.sqrt(v.var(0) + EPS) for v in axis]
    yield ("positions instead of features: [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12] leave as "
           f"{n(over[0][0, 0])}, {n(over[0][1, 0])} and {n(over[0][2, 0])} in every feature")
    assert np.ptp(over[0], axis=1).max() < 1e-12
    yield f"with 15 for the last 12, the first position's last feature goes from {n(over[0][0, 3])} to {n(over[1][0, 3])}"
    far = np.float32(10000) + X.astype(np.float32)
    total = square = np.float32(0)
    for v in far:
        total, square = np.float32(total + v), np.float32(square + v * v)
    mean = np.float32(total / np.float32(4))
    once = np.float32(np.float32(square / np.float32(4)) - np.float32(mean * mean))
    deviations = far - mean
    assert np.mean(deviations * deviations) == 1.25
    yield f"[10001, 10002, 10003, 10004] has a variance of {n(float(once))} in float, and the two passes find {n(np.var(far.astype(float)))}"
    half, brain = np.float16(1.001), bf16(1.001)
    wide = Norm([1, 1, 1, float(half)], EPS)
    yield f"1.001 is {n(brain)} in bf16 and {n(float(half))} in fp16: the row [1, 1, 1, 1.001] leaves as zeros, or as {listed(wide.xhat, 4)}"
    yield (f"eps = 1e-5 is {n(bf16(1e-5))} in bf16, and lost in a sum with a variance of 2^-8 = {n(2.0 ** -8)} or more, "
           f"where it is worth {n(50 * EPS / 2 ** -8, 2)} % of y at most")
    for k in range(128):  # every bf16 number of two binades: on one side of 2^-8 eps is lost, on the other never
        assert bf16(2.0 ** -8 * (1 + k / 128) + bf16(1e-5)) == 2.0 ** -8 * (1 + k / 128)
        assert bf16(2.0 ** -9 * (1 + k / 128) + bf16(1e-5)) > 2.0 ** -9 * (1 + k / 128)
    with np.errstate(over="ignore"):
        assert np.float16(1e-8) == 0 and np.isinf(np.float16(256) * np.float16(256)) and np.isfinite(np.float16(255) * np.float16(255))
    assert torch is None or torch.tensor(1e-5).bfloat16().item() == bf16(1e-5)
    yield f"In fp16 1e-8 is 0, and a square overflows from {2 ** 8} on"
    ones = 0.0
    for _ in range(1024):
        ones = bf16(ones + 1)
    yield f"A running sum of ones in bf16 stops at {n(ones)}: the mean of {1024:,} ones is {n(ones / 1024)}"
    g = GAMMA * DY
    yield f"the worked row's dx is {listed(g / w.s)} instead of {listed(w.dx(g))}; its sum is {n((g / w.s).sum())} instead of 0"


@functools.lru_cache(None)
def claims():
    return tuple(" ".join(text.split()) for part in (jacobian_claims, cost_claims, worked_claims, check_claims, practice_claims) for text in part())
