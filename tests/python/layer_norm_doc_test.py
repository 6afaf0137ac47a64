# run_tests: /usr/bin/python3
"""docs/layer_norm.md: every number computed anew, every formula evaluated, every excerpt and name found in the tree.

The numbers are those of fragments that are made here and must stand on the page once each (blanks and line breaks count alike);
a number that lies in no such fragment is a failure too. To see what the page lacks: layer_norm_doc_test.py --missing
"""

import functools
import math
import pathlib
import re
import sys
import unittest

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).parent)]

from layer_norm_claims import BETA, DY, EPS, GAMMA, ROOT, X, Norm, cauchy, claims, source, torch

PAGE = source("docs/layer_norm.md")

# Digits that say nothing that could be computed: headings, 1/s by name, references to an equation and to sections.
EXEMPT = re.compile(r"## \d\.|\b1/s\b|\beq\. 2\.4\b|\bsections? \d( and \d)?\b")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
EXCERPT = re.compile(r"```cpp\n.*?```", re.S)


# --- formulas: the page's lines "    name = expression", where what stands side by side is multiplied


DEFINITIONS = {"A", "B", "P", "Q", "p", "q"}  # L(t) - L(0), c_1 and c_3 are made of them
TOKEN = re.compile(r"(?:mean|sum|sqrt)\(|[A-Za-z_]\w*|\d+|[-+/^()]")


def python_of(expression):
    """The expression for eval. mean(…), sum(…) and sqrt(…) are functions; `mean` by itself is the row's mean."""
    if TOKEN.sub("", expression).strip():
        raise ValueError("not a formula")
    out = []
    for token in TOKEN.findall(expression):
        if out and re.search(r"[\w)]$", out[-1]) and re.match(r"[\w(]", token):
            out.append("*")
        out.append({"^": "**"}.get(token, re.sub(r"\w\($", lambda m: m[0][0] + "_of(", token)))
    return " ".join(out)


@functools.lru_cache(None)
def truths():
    """What a formula's left side is, on a row without symmetries, from nothing but y = gamma (x - mean x) / sqrt(var x + eps) + beta."""
    rng, d, eps, t = np.random.default_rng(3), 5, 0.3, 0.1
    x, gamma, beta, dy = (rng.normal(size=d) for _ in range(4))

    def xhat(v):
        return (v - np.sum(v) / d) / np.sqrt(np.sum((v - np.sum(v) / d) ** 2) / d + eps)

    def moved(of, order=1):
        return np.array([cauchy(lambda z, j=j: of(x + z * np.eye(d)[j]), order) for j in range(d)])

    def through(v):
        return np.sum(dy * gamma * xhat(v))

    mean, var, s = np.mean(x), np.var(x), math.sqrt(np.var(x) + eps)
    jacobian = moved(xhat).T
    dx = moved(through)
    given = {"x": x, "gamma": gamma, "beta": beta, "dy": dy, "d": d, "eps": eps, "t": t, "x_j": x, "xhat_i": xhat(x)[:, None],
             "xhat_j": xhat(x), "g": gamma * dy, "g_j": gamma * dy, "delta_ij": np.eye(d), "mean_of": np.mean, "sum_of": np.sum, "sqrt_of": np.sqrt}
    want = {"mean": mean, "var": var, "s": s, "xhat": xhat(x), "y": gamma * xhat(x) + beta, "mean(xhat)": 0, "mean(xhat^2)": np.mean(xhat(x) ** 2),
            "dmean/dx_j": moved(lambda v: np.sum(v) / d), "dvar/dx_j": moved(lambda v: np.sum((v - np.sum(v) / d) ** 2) / d),
            "ds/dx_j": moved(lambda v: np.sqrt(np.sum((v - np.sum(v) / d) ** 2) / d + eps)), "dxhat_i/dx_j": jacobian,
            "lambda": xhat(x) @ jacobian @ xhat(x) / (xhat(x) @ xhat(x)), "g": gamma * dy, "dx": dx, "dgamma": dy * xhat(x), "dbeta": dy,
            "sum(dx)": dx.sum(), "sum(dx x)": dx @ x, "L(t) - L(0)": np.array([through(x + t * np.eye(d)[j]) for j in range(d)]) - through(x),
            "c_1": dx, "c_3": moved(through, 3)}
    return given, want


def formulas(text):
    for line in EXCERPT.sub("", text).splitlines():
        if line.startswith("    ") and " = " in line:
            left, right = line.strip().split(" = ", 1)
            yield left, re.sub(r"  +\D*$", "", right)  # and a remark without digits


@functools.lru_cache(None)
def wrong_formulas(lines):
    given, want = truths()
    names, wrong = dict(given), []
    for left, right in lines:
        try:
            value = eval(python_of(right), {"__builtins__": {}}, names)
        except Exception as error:
            wrong.append(f"{left} = {right}: {error}")
            continue
        if left not in want and left not in DEFINITIONS:
            wrong.append(f"{left} = {right}: nothing to compare it with")
        elif left in want and not np.allclose(value, want[left], rtol=1e-9, atol=1e-11):
            wrong.append(f"{left} = {right}: {value}, not {want[left]}")
        if re.fullmatch(r"\w+", left):
            names[left] = value
    wrong += [f"no formula for {left}" for left in want if left not in dict(lines)]
    return tuple(wrong)


# --- the page as a whole


def flat(text):
    """The page without its formulas and excerpts, every run of blanks one."""
    text = "\n".join(line for line in EXCERPT.sub("", text).splitlines() if not line.startswith("    ") or " = " not in line)
    return " ".join(text.split())


def problems(text):
    """What is wrong with the page's numbers, a sentence each."""
    yield from wrong_formulas(tuple(formulas(text)))
    page = flat(text)
    covered = bytearray(len(page))
    for claim in claims():
        at = page.find(claim)
        if at < 0 or page.find(claim, at + 1) >= 0:
            yield f"{'not' if at < 0 else 'more than once'} on the page: {claim}"
        else:
            covered[at:at + len(claim)] = b"\1" * len(claim)
    for match in EXEMPT.finditer(page):
        covered[match.start():match.end()] = b"\1" * (match.end() - match.start())
    for match in NUMBER.finditer(page):
        if not all(covered[match.start():match.end()]):
            yield f"computed nowhere: …{page[max(0, match.start() - 40):match.end() + 10]}…"


class LayerNormPage(unittest.TestCase):
    def test_every_number_and_every_formula(self):
        self.assertEqual(list(problems(PAGE)), [])

    def test_a_wrong_digit_is_found(self):
        """Each number of the page in turn, its first and last digit changed; what is exempt apart."""
        exempt = [m.span() for m in EXEMPT.finditer(PAGE)] + [m.span() for m in EXCERPT.finditer(PAGE)]
        tried = 0
        for match in NUMBER.finditer(PAGE):
            if any(a < match.end() and match.start() < b for a, b in exempt):
                continue
            digits = [i for i in range(match.start(), match.end()) if PAGE[i].isdigit()]
            for i in {digits[0], digits[-1]}:
                changed = PAGE[:i] + str((int(PAGE[i]) + 1) % 10) + PAGE[i + 1:]
                with self.subTest(number=match[0], line=PAGE.count("\n", 0, i) + 1):
                    self.assertIsNotNone(next(problems(changed), None))
                tried += 1
        self.assertGreater(tried, 400)

    def test_the_components_own_example(self):
        """What plumb's component gives (docs/components/norm.md is made by running it) is what the page's formulas give."""
        section = source("docs/components/norm.md").split("\n## layer\n")[1].split("\n## ")[0]
        rows = {m[1]: [list(map(float, half.split())) for half in m[2].split("|")] for m in re.finditer(r"^(\w+)\s+([-\d. |e]+)$", section, re.M)}
        for x, y, dy, dx in zip(rows["x"], rows["y"], rows["dy"], rows["dx"]):
            r = Norm(x, EPS)
            np.testing.assert_allclose(y, r.xhat, rtol=5e-4)
            np.testing.assert_allclose(dx, r.dx(np.array(dy)), rtol=5e-4, atol=1e-12)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_autograd(self):
        x, gamma, beta = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (X, GAMMA, BETA))
        y = torch.nn.functional.layer_norm(x, (4,), gamma, beta, EPS)
        y.backward(torch.tensor(DY))
        w = Norm(X, EPS)
        for got, want in ((y, GAMMA * w.xhat + BETA), (x.grad, w.dx(GAMMA * DY)), (gamma.grad, DY * w.xhat), (beta.grad, DY)):
            np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-13)
        jacobian = torch.autograd.functional.jacobian(lambda v: torch.nn.functional.layer_norm(v, (4,), eps=EPS), torch.tensor(X))
        np.testing.assert_allclose(jacobian.numpy(), w.jacobian, atol=1e-12)
        constant = torch.ones(4, dtype=torch.float64, requires_grad=True)
        ((constant - constant.mean()) / (constant.var(unbiased=False).sqrt() + EPS)).sum().backward()
        self.assertTrue(torch.isnan(constant.grad).all(), "eps outside of the root")
        self.assertEqual([float(torch.tensor(X).var()), float(torch.tensor(X).var(unbiased=False))], [np.var(X, ddof=1), np.var(X)])
        torch.nn.LayerNorm(4)(torch.ones(1, 4, 4))
        with self.assertRaises(RuntimeError):
            torch.nn.LayerNorm(3)(torch.ones(1, 3, 4))

    def test_excerpts_stand_in_the_code(self):
        excerpts = re.findall(r"`([\w/.]+)`[^`]*\n```cpp\n(.*?)```", PAGE, re.S)
        self.assertEqual(len(excerpts), PAGE.count("```cpp"))
        for path, code in excerpts:
            with self.subTest(path=path):
                self.assertIn(" ".join(code.split()), " ".join(source(path).split()))

    def test_files_and_names_exist(self):
        for path in re.findall(r"`((?:plumb|tests|docs|bench)/[\w/.-]+)`", PAGE) + re.findall(r"\]\(([\w/.-]+\.md)\)", PAGE):
            with self.subTest(path=path):
                self.assertTrue((ROOT / path).is_file() or (ROOT / "docs" / path).is_file())
        places = [line.split("|")[1:3] for line in PAGE.splitlines() if re.match(r"\| `(?:plumb|tests)/", line)]
        self.assertGreater(len(places), 6)
        for path, names in places:
            for name in re.findall(r"`([\w:]+)`", names):
                with self.subTest(path=path, name=name):
                    self.assertRegex(source(path.strip(" `")), rf"\b{name}\b")
        tree = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "plumb").rglob("*") if p.suffix in (".h", ".cpp"))
        for name in re.findall(r"`([a-zA-Z]\w*(?:\.\w+)?)`", PAGE):
            with self.subTest(name=name):
                self.assertTrue(re.search(rf"\b{re.escape(name.split('.')[-1])}\b", tree + "".join(names for _, names in places)))

    def test_shape(self):
        self.assertEqual(re.findall(r"^## (\d)\. ", PAGE, re.M), list("1234567"))
        self.assertLess(max(map(len, PAGE.splitlines())), 161)
        self.assertLess(len(PAGE.splitlines()), 500)


if __name__ == "__main__":
    if "--missing" in sys.argv:
        print("\n".join(problems(PAGE)))
    else:
        unittest.main()
