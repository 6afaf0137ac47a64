#!/usr/bin/env python3
"""Checks which folder includes which, and the sizes of files.

  check_includes.py [ROOT]

Prints `file:line: rule` for each violation and exits 1 when there is one. The rules are the tables below and nothing else.
"""

import pathlib
import re
import sys

FAMILIES = {"norm", "weight", "residual", "position", "attention", "ffn", "init", "optim"}
BELOW_FAMILIES = {"base", "tensor", "kernel", "plan", "spec"}
BELOW_MODEL = BELOW_FAMILIES | {"config"} | FAMILIES
BELOW_STUDY = BELOW_MODEL | {
    "data", "trace", "model", "fault", "train", "probe", "doctor", "report", "interop", "surgery", "registry"}

# plumb/FOLDER may include itself and these; a folder that is absent here may not exist.
ALLOWED = {
    "base": set(),
    "tensor": {"base"},
    "config": {"base"},
    "trace": {"base"},
    "kernel": {"base", "tensor"},
    "plan": {"base", "tensor", "kernel"},
    "spec": {"base", "config"},
    **{family: BELOW_FAMILIES for family in FAMILIES},
    "data": {"base", "config"},
    "fault": BELOW_MODEL,
    "model": BELOW_MODEL | {"fault"},
    "train": BELOW_MODEL | {"fault", "model", "data", "trace"},
    "probe": BELOW_MODEL | {"model", "trace"},
    "doctor": {"trace", "config", "base"},
    "report": {"doctor", "trace", "config", "base"},
    "registry": {"trace", "config", "base"},
    "interop": BELOW_MODEL | {"model", "trace"},
    "surgery": BELOW_MODEL | {"model", "trace"},
    "study": BELOW_STUDY,
    "instrument": BELOW_STUDY | {"study"},
    "serve": BELOW_STUDY | {"study"},
    "cli": BELOW_STUDY | {"study", "instrument", "serve"},
}

# Headers that stand directly in plumb/ and may be included from everywhere.
EVERYWHERE = {"plumb/version.h"}

# Headers of others that only one folder may see, because we hide them behind a header of our own.
HIDDEN = {"oneapi/": "kernel", "dnnl": "kernel", "CLI/": "cli", "toml++/": "config", "nlohmann/": "base",
          "openssl/": "base", "Eigen/": "interop"}

# Headers that cost seconds to compile: at most this many files under plumb/ include each.
COSTLY = {"CLI/": 1, "toml++/": 1, "nlohmann/": 1, "boost/math": 1, "Eigen/": 1}

# Standard headers that we do not use, and why.
BANNED = {"ranges": "clang 14, which the fuzzers and clang-tidy use, cannot compile it"}

MAX_LINES = 500
SIZE_LIMITS = {"plumb/cli/main.cpp": 59}
SIZE_CHECKED = {".cpp", ".h", ".py"}
SKIPPED_FOLDERS = {"build", "runs", ".git", "node_modules", "__pycache__", ".venv"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files_of(root):
    for path in sorted(root.rglob("*")):
        if path.suffix in SIZE_CHECKED and not SKIPPED_FOLDERS & set(path.relative_to(root).parts) and path.is_file():
            yield path


def include_rule(folder, quote, header):
    """The rule that `header` breaks when a file of plumb/`folder` includes it, or None."""
    if quote == "<" and header in BANNED:
        return f"<{header}> is not used here: {BANNED[header]}"
    if folder is None:
        return None
    for prefix, owner in HIDDEN.items():
        if header.startswith(prefix) and folder != owner:
            return f"{header} is hidden behind a header of {owner}/: {folder}/ may not include it"
    if not header.startswith("plumb/"):
        if quote == '"' and "/" not in header:
            return f'"{header}" is relative: write the path from the root, "plumb/{folder}/{header}"'
        return None
    if header in EVERYWHERE:
        return None
    parts = header.split("/")
    if len(parts) < 3:
        return f"{header} stands directly in plumb/ and is not in EVERYWHERE"
    if parts[1] == folder or parts[1] in ALLOWED[folder]:
        return None
    allowed = ", ".join(sorted(ALLOWED[folder])) or "nothing"
    return f"{folder}/ may not include {parts[1]}/ ({header}); it may include {allowed}"


def check(root):
    """Returns the violations under `root` as (file, line, rule), sorted."""
    root = pathlib.Path(root)
    found, costly = [], {prefix: [] for prefix in COSTLY}
    for path in files_of(root):
        relative = path.relative_to(root)
        name = relative.as_posix()
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        limit = SIZE_LIMITS.get(name, MAX_LINES)
        if len(lines) > limit:
            found.append((name, limit + 1, f"{len(lines)} lines, at most {limit} are allowed"))
        if path.suffix == ".py":
            continue
        folder = relative.parts[1] if relative.parts[0] == "plumb" and len(relative.parts) > 2 else None
        if folder is not None and folder not in ALLOWED:
            found.append((name, 1, f"plumb/{folder} is not in the table of tools/check_includes.py"))
            folder = None
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            rule = include_rule(folder, *match.groups())
            if rule:
                found.append((name, number, rule))
            for prefix in COSTLY:
                if folder is not None and match.group(2).startswith(prefix) and name not in dict(costly[prefix]):
                    costly[prefix].append((name, number))
    for prefix, uses in costly.items():
        for name, number in uses[COSTLY[prefix]:]:
            found.append((name, number, f"{prefix} costs seconds to compile and {uses[0][0]} includes it already: "
                                        "use that file's header"))
    return sorted(found)


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    violations = check(root)
    for name, line, rule in violations:
        print(f"{name}:{line}: {rule}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
