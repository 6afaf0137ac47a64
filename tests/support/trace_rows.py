"""What the tests of traces share: rows of a file, and docs/trace.schema.json by Debian's jsonschema."""

import json
import pathlib
import re
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/trace.schema.json").read_text(encoding="utf-8"))
TABLE = re.compile(r"^\| `(\w+)` \| (number|per layer) \| (\S+) \| (.*) \|$", re.MULTILINE)
METRICS = TABLE.findall((ROOT / "docs/trace.md").read_text(encoding="utf-8"))

# Runs under the interpreter that the Debian package is for, whichever runs this file. Standard input: {schema, rows}; output:
# for each row the first error, or null.
VALIDATE = """
import json, sys
import jsonschema
job = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(job["schema"])
validator = jsonschema.Draft202012Validator(job["schema"])
first = (next(validator.iter_errors(row), None) for row in job["rows"])
json.dump([error and error.message for error in first], sys.stdout)
"""


def errors_of(rows):
    run = subprocess.run(["/usr/bin/python3", "-c", VALIDATE], input=json.dumps({"schema": SCHEMA, "rows": rows}),
                         capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return json.loads(run.stdout)


def no_constant(word):
    raise ValueError(f"{word} is not JSON")


def lines_of(path):
    text = pathlib.Path(path).read_bytes()
    assert text.endswith(b"\n")
    return text[:-1].split(b"\n")


def rows_of(lines):
    return [json.loads(line, parse_constant=no_constant) for line in lines]


def facts_of(rows):
    """{name: value}; the last row of a name counts."""
    return {row["name"]: row["value"] for row in rows if row["row"] == "fact"}


def steps_of(rows):
    """{step: its rows joined}, layers too."""
    steps = {}
    for row in rows:
        if row["row"] == "step":
            joined = steps.setdefault(row["step"], {"layers": {}})
            joined["layers"].update(row.get("layers", {}))
            joined.update({k: v for k, v in row.items() if k not in ("row", "step", "layers", "crc")})
    return steps


def check_file(test, path):
    """Every row valid, every checksum zlib's, the header first and alone, every number's name in docs/trace.md. Returns the rows."""
    lines = lines_of(path)
    rows = rows_of(lines)
    for row, error in zip(rows, errors_of(rows), strict=True):
        test.assertIsNone(error, row)
    for line in lines:
        body, crc = re.fullmatch(rb'(.*),"crc":"([0-9a-f]{8})"\}', line).groups()
        test.assertEqual(f"{zlib.crc32(body):08x}".encode(), crc, line)
    test.assertEqual([row["row"] for row in rows].count("header"), 1)
    test.assertEqual(rows[0]["row"], "header")
    per_layer = {name: kind == "per layer" for name, kind, _, _ in METRICS}
    for row in rows:
        if row["row"] == "step":
            for name in row.keys() - {"row", "step", "layers", "crc"}:
                test.assertIs(per_layer.get(name), False, name)
            for name in row.get("layers", {}):
                test.assertIs(per_layer.get(name), True, name)
    return rows
