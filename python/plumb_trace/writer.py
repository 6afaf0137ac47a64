"""Rows of a trace, schema plumb-trace/1 as docs/trace.md has it: JSON lines, each with its checksum, one write a row."""
import json
import math
import os
import stat
import zlib

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

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


def require_json(value, what):
    """Raises a TraceError for what a row cannot hold."""
    try:
        return line_of({"value": value})
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"{what} cannot be written as JSON ({error}); give numbers, strings, lists and dicts") from None


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
            if not isinstance(row.get("row"), str) or row["row"] == "step" and not isinstance(row.get("step"), int):
                raise ValueError("it has no kind, or a step without a number")
        except ValueError as error:
            raise TraceError(f"{path}:{number} is no row of a trace ({error}); give another `out`, or start anew with "
                             "overwrite=True") from None
        if row["row"] == "step" and (row["step"] > step or row["step"] == step and "val_loss" not in row):
            break
        keep += len(line)
    return keep


def require_trace(path):
    """Raises where `path` holds what is no trace, which nobody wants replaced."""
    begin = b'{"row":"header","schema":"plumb-trace/'
    with open(path, "rb") as file:
        text = file.read(len(begin))
    if text and not begin.startswith(text):
        raise TraceError(f"{path} is no trace but holds something else; give another `out`, or remove the file")


class Writer:
    """Adds rows to the end of a file. Each is one write, so that a killed process tears at most its last row."""

    def __init__(self, path, producer, config, step=0, overwrite=False):
        if not isinstance(path, (str, os.PathLike)):
            raise TraceError(f"out is a path, not {type(path).__name__}; name a file")
        self.path, self.fd, self.torn_at = os.fspath(path), -1, None  # torn_at: where a row begins that is not wholly written
        require_json(config, "config")
        try:
            if self.open(step, overwrite) == 0:
                self.write({"row": "header", "schema": SCHEMA, "producer": producer, "config": config})
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL
            self.close()
            raise TraceError(f"cannot write the trace {self.path!r}: {getattr(error, 'strerror', None) or error}; give a path that can be "
                             "written") from None
        except TraceError:
            self.close()
            raise

    def open(self, step, overwrite):
        """How many bytes of an existing trace are kept."""
        if os.path.exists(self.path) and not stat.S_ISREG(os.stat(self.path).st_mode):
            raise TraceError(f"{self.path} is no regular file; give `out` the path of one")
        if os.path.exists(self.path) and os.path.getsize(self.path) and not overwrite and step == 0:
            raise TraceError(f"{self.path} exists; give another `out`, remove it, pass overwrite=True, or step=N to go on with an interrupted run")
        self.fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        self.lock()
        require_trace(self.path)
        keep = 0
        if not overwrite:
            with open(self.path, "rb") as file:
                keep = kept_bytes(file.read(), self.path, step)
        os.ftruncate(self.fd, keep)
        return keep

    def lock(self):
        """Two writers of one file would make a trace of neither."""
        if fcntl is not None:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TraceError(f"{self.path} is being written by another trace, here or in another process; close that one, or give another "
                                 "`out`") from None
            except OSError:  # a file system without locks
                pass

    def fact(self, name, value):
        self.write({"row": "fact", "name": name, "value": value})

    def step(self, step, values, layers=None):
        """values: {name: number}; layers: {name: [a number a block]}."""
        row = {"row": "step", "step": step, **values}
        if layers:
            row["layers"] = layers
        self.write(row)

    def write(self, row):
        """Writes all of a row or, where the disk is full, none of it: half a row with others behind it makes a trace unreadable."""
        left = memoryview(line_of(row))
        if self.torn_at is None:
            self.torn_at = os.fstat(self.fd).st_size
        else:
            os.ftruncate(self.fd, self.torn_at)
        try:
            while left:
                left = left[os.write(self.fd, left):]
        except OSError:
            os.ftruncate(self.fd, self.torn_at)
            raise
        self.torn_at = None

    def close(self):
        if self.fd >= 0:
            if fcntl is not None:
                try:
                    fcntl.flock(self.fd, fcntl.LOCK_UN)  # also for processes that inherited it
                except OSError:
                    pass
            os.close(self.fd)
            self.fd = -1
