"""Rows of a trace, schema plumb-trace/1 as docs/trace.md has it: JSON lines, each with its checksum, one write a row."""
import json
import math
import os
import zlib

from .errors import TraceError

SCHEMA = "plumb-trace/1"


def encodable(value):
    """`value` with non-finite numbers as the trace's strings; a JSON library's null would erase the finding."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): encodable(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(v) for v in value]
    return value


def line_of(row):
    """The bytes of a row, newline included; `crc` is over what stands before it."""
    body = json.dumps(encodable(row), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def kept_bytes(text, path, step):
    """How many bytes of a trace a run keeps that goes on at `step`: all before the first step row that it writes again. A torn
    last line goes. A validation loss of `step` itself stays: it was measured before the interruption."""
    keep = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        body, mark, crc = line.rpartition(b',"crc":"')
        try:
            row = json.loads(line)
            if mark and crc != b'%08x"}\n' % zlib.crc32(body):
                raise ValueError("its checksum is wrong")
            if not isinstance(row, dict) or (number == 1) != (row.get("row") == "header"):
                raise ValueError("the header is the first row and no other")
            if number == 1 and row.get("schema") != SCHEMA:
                raise ValueError(f"its schema is {row.get('schema')!r}, not {SCHEMA}")
        except ValueError as error:
            raise TraceError(f"{path}:{number} is no row of a trace ({error}); give another `out`, or start anew with "
                             "overwrite=True") from None
        if row["row"] == "step" and (row["step"] > step or row["step"] == step and "val_loss" not in row):
            break
        keep += len(line)
    return keep


class Writer:
    """Adds rows to the end of a file. Each is one write, so that a killed process tears at most its last row."""

    def __init__(self, path, producer, config, step=0, overwrite=False):
        if not isinstance(path, (str, os.PathLike)):
            raise TraceError(f"out is a path, not {type(path).__name__}; name a file")
        self.path = os.fspath(path)
        self.new = True
        try:
            header = line_of({"row": "header", "schema": SCHEMA, "producer": producer, "config": config})
        except (TypeError, ValueError, RecursionError) as error:
            raise TraceError(f"config cannot be written as JSON ({error}); give numbers, strings, lists and dicts") from None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        try:
            if os.path.exists(self.path) and os.path.getsize(self.path) and not overwrite:
                if step == 0:
                    raise TraceError(f"{self.path} exists; give another `out`, remove it, pass overwrite=True, or step=N to go on "
                                     "with an interrupted run")
                with open(self.path, "rb") as file:
                    keep = kept_bytes(file.read(), self.path, step)
                self.new = keep == 0
                self.fd = os.open(self.path, flags, 0o666)
                os.ftruncate(self.fd, keep)
            else:
                self.fd = os.open(self.path, flags | os.O_TRUNC, 0o666)
        except OSError as error:
            raise TraceError(f"cannot write the trace {self.path}: {error.strerror}; give a path that can be written") from None
        if self.new:
            self.write_line(header)

    def fact(self, name, value):
        self.write({"row": "fact", "name": name, "value": value})

    def step(self, step, values, layers=None):
        """values: {name: number}; layers: {name: [a number a block]}."""
        row = {"row": "step", "step": step, **values}
        if layers:
            row["layers"] = layers
        self.write(row)

    def write(self, row):
        self.write_line(line_of(row))

    def write_line(self, line):
        left = memoryview(line)
        while left:
            left = left[os.write(self.fd, left):]

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
