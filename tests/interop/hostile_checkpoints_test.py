"""Files made to hurt whoever opens them: `plumb inspect` refuses each in one sentence, runs nothing, and stays small and quick."""

import io
import json
import os
import pathlib
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tiny_checkpoints as tiny  # noqa: E402

PLUMB = os.environ.get("PLUMB_CLI", str(ROOT / "build" / os.environ.get("PLUMB_PRESET", "dev") / "plumb"))
SANITIZED = os.environ.get("PLUMB_PRESET", "dev") in ("asan", "tsan")  # their shadow memory is terabytes of address space
GIB = 1 << 30
SECONDS = 20


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape=(2,), offsets=(0, 8), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


class Hostile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.marker = self.folder / "executed"

    def refused(self, what, sentence):
        """Exit status 2, one sentence with these words, within 20 s and a gigabyte of address space; nothing executed."""
        start = time.monotonic()
        limit = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
        done = subprocess.run([PLUMB, "inspect", str(what), "--json"], cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=120,
                              preexec_fn=limit)
        name = f"{what}: {done.stdout[:200]}{done.stderr[:500]}"
        self.assertEqual(done.returncode, 2, name)
        self.assertEqual(done.stdout, "", name)
        self.assertEqual(len(done.stderr.splitlines()), 1, name)
        self.assertLess(len(done.stderr), 1000, name)
        self.assertIn(sentence, done.stderr, name)
        self.assertFalse(self.marker.exists(), "something in the file was executed")
        if not SANITIZED:
            self.assertLess(time.monotonic() - start, SECONDS, name)

    def file(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    # -- safetensors
    def test_safetensors(self):
        eight = bytes(8)
        for name, data, sentence in (
                ("empty", b"", "too few for a safetensors file"),
                ("huge-length", safetensors(b"{}", length=(1 << 64) - 1), "claims a header of 18446744073709551615 bytes"),
                ("length-past-the-end", safetensors(b"{}", length=99_000_000), "claims a header of 99000000 bytes"),
                ("no-json", safetensors(b"\x00\x01 what", eight), "is not JSON"),
                ("an-array", safetensors([1, 2]), "must be an object"),
                ("overlap", safetensors({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)), "starts at byte 4 and not at 8"),
                ("same-bytes-twice", safetensors({"a": entry(), "b": entry()}, eight), "starts at byte 0 and not at 8"),
                ("gap", safetensors({"a": entry(offsets=(4, 12))}, bytes(12)), "starts at byte 4 and not at 0"),
                ("negative-size", safetensors({"a": entry(shape=(-1, -2))}, eight), "do not fit shape [-1, -2]"),
                ("negative-offset", safetensors({"a": entry(offsets=(-8, 0))}, eight), "lies at bytes -8 to 0"),
                ("past-the-end", safetensors({"a": entry(shape=(200,), offsets=(0, 800))}, eight), "lies at bytes 0 to 800 of 8"),
                ("backwards", safetensors({"a": entry(offsets=(8, 0))}, eight), "lies at bytes 8 to 0"),
                ("unknown-dtype", safetensors({"a": entry(dtype="Q7")}, eight), "has dtype Q7"),
                ("overflow", safetensors({"a": entry(shape=(1 << 62, 4))}, eight), "do not fit shape [4611686018427387904, 4]"),
                ("twice", safetensors(b'{"a":' + json.dumps(entry()).encode() + b',"a":' + json.dumps(entry(offsets=(8, 16))).encode() + b"}", bytes(16)),
                 "has the key \"a\" twice"),
                ("cut-off", tiny.safetensors_bytes(tiny.tensors_of(tiny.CASES[0]))[:-1], "the file is cut off or damaged"),
                ("trailing", safetensors({"a": entry()}, bytes(9)), "has 9 bytes of data, but its tensors have 8"),
                ("text-for-a-size", safetensors({"a": {**entry(), "shape": ["2"]}}, eight), "must be an integer"),
                ("deep", safetensors(b"[" * 100_000 + b"]" * 100_000), "nested deeper"),
                ("bad-utf8", safetensors(b'{"\xff\xfe": 1}', eight), "is not JSON")):
            with self.subTest(name):
                self.refused(self.file(f"{name}.safetensors", data), sentence)

    def test_a_header_of_millions_of_values(self):
        self.refused(self.file("many.safetensors", safetensors(b'{"a":[' + b"0," * 45_000_000 + b"0]}")), "has more than 2000000 values")

    def test_a_sparse_file_whose_header_is_zeros(self):
        path = self.file("sparse.safetensors", struct.pack("<Q", 90_000_000))
        os.truncate(path, 10 << 30)
        self.refused(path, "is not JSON")

    def test_no_regular_files(self):
        os.mkfifo(self.folder / "pipe.safetensors")
        self.refused(self.folder / "pipe.safetensors", "is no regular file")
        (self.folder / "zero.safetensors").symlink_to("/dev/zero")
        self.refused(self.folder / "zero.safetensors", "is no regular file")
        (self.folder / "loop.safetensors").symlink_to(self.folder / "loop.safetensors")
        self.refused(self.folder / "loop.safetensors", "")
        self.refused(self.folder / "absent", "there is no")
        (self.folder / "nothing").mkdir()
        self.refused(self.folder / "nothing", "holds no checkpoint")

    # -- configs
    def test_configs(self):
        self.refused(self.file("config.json", b'{"a": "' + b"x" * 100_000_000 + b'"}'), "bytes, of which at most")
        self.refused(self.file("config.json", b"[" * 100_000), "nested deeper than")
        self.refused(self.file("config.json", b"[1]"), "no JSON object")
        self.refused(self.file("config.json", b'{"a":' * 100_000), "nested deeper than")
        self.refused(self.file("config.json", b"not json"), "is not JSON")
        tiny.write_case(self.folder / "m", tiny.CASES[0])
        (self.folder / "m" / "config.json").write_bytes(b"{" * 5)
        self.refused(self.folder / "m", "is not JSON")

    def test_absurd_numbers_in_a_config_do_no_harm(self):
        case = tiny.CASES[0]
        for value in (0, -1, 1 << 62, 1e300, "many", None, [], True):
            config = {**case.config, "n_embd": value, "n_head": value, "n_layer": value, "n_positions": value, "vocab_size": value, "layer_norm_epsilon": value}
            folder = tiny.write_case(self.folder / "absurd", tiny.Case("absurd", config, case.tensors, None))
            done = subprocess.run([PLUMB, "inspect", str(folder), "--json"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, (value, done.stderr))
            self.assertEqual(json.loads(done.stdout)["placement"], "pre")

    # -- indices of shards
    def index(self, weight_map, name="model.safetensors.index.json"):
        return self.file(name, json.dumps({"weight_map": weight_map}).encode())

    def test_indices(self):
        self.file("a.safetensors", safetensors({"a": entry()}, bytes(8)))
        self.refused(self.index({"a": "model.safetensors.index.json"}), "no file of tensors")
        self.refused(self.index({"a": "other.index.json"}), "no file of tensors")
        self.refused(self.index({"a": "missing.safetensors"}), "which is not there")
        for escape in ("../a.safetensors", "/etc/passwd", "x/../a.safetensors", "..", ".", "C:\\a"):
            self.refused(self.index({"a": escape}), "not a plain file name")
        self.refused(self.index({"b": "a.safetensors"}), "which does not have it")
        self.refused(self.index({"a": 3}), "must be a string")
        self.refused(self.index({}), "lists no tensors")
        self.refused(self.index([]), "must be an object")
        self.file("b.safetensors", safetensors({"a": entry(), "b": entry(offsets=(8, 16))}, bytes(16)))
        self.refused(self.index({"a": "a.safetensors", "b": "b.safetensors"}), "two tensors called 'a'")
        (self.folder / "loop.safetensors").symlink_to("loop2.safetensors")
        (self.folder / "loop2.safetensors").symlink_to("loop.safetensors")
        self.refused(self.index({"a": "loop.safetensors"}), "")
        (self.folder / "self.safetensors").symlink_to("model.safetensors.index.json")  # an index dressed as a shard
        self.refused(self.index({"a": "self.safetensors"}), "claims a header of")

    def test_shards_whose_tensors_add_up(self):
        """200,000 tensors of no bytes in each shard: many shards do not fill the memory, nor does what the index leaves out fill the screen."""
        header = b"{" + b",".join(b'"x%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(200_000)) + b"}"
        self.file("0.safetensors", safetensors(header))
        done = subprocess.run([PLUMB, "inspect", str(self.index({"x0": "0.safetensors"}))], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0.safetensors holds 199999 tensors that the index does not place there: x1, x10, x100, x1000, x10000 and 199994 more.",
                      done.stdout)
        self.assertLess(len(done.stdout), 5000)
        for i in (1, 2):
            (self.folder / f"{i}.safetensors").symlink_to("0.safetensors")
        self.refused(self.index({f"x{i}": f"{i}.safetensors" for i in range(3)}), "has more than 500000 tensors")

    # -- pickles
    def archive(self, opcodes, name="x.pt", storages=None, compress=False):
        return tiny.write_archive(self.folder / name, opcodes, storages or {"0": bytes(16)}, compress)

    def test_code_in_a_pickle_is_named_and_not_run(self):
        command = f"touch {self.marker}"

        class Reduce:
            def __init__(self, function, *arguments):
                self.what = function, arguments

            def __reduce__(self):
                return self.what

        touch = f"open({str(self.marker)!r}, 'w')"
        # The names are those that Python writes: protocol 2 has Python 2's.
        for function, argument, names in ((os.system, command, {2: "posix.system", 4: "posix.system"}), (eval, touch, {2: "__builtin__.eval", 4: "builtins.eval"}),
                                          (exec, touch, {2: "__builtin__.exec", 4: "builtins.exec"}),
                                          (subprocess.getoutput, command, {2: "commands.getoutput", 4: "subprocess.getoutput"}),
                                          (__import__, "os", {2: "__builtin__.__import__", 4: "builtins.__import__"})):
            for protocol, name in names.items():
                body = pickle.dumps({"model": Reduce(function, argument)}, protocol)[:-1]
                self.refused(self.archive(body[2:] if protocol == 2 else body), f"wants to run {name},")

    def test_names_near_the_allowed_ones(self):
        for module, name in (("torch", "load"), ("torch._utils", "_import_dotted_name"), ("torch.storage", "_load_from_bytes"), ("collections", "namedtuple"),
                             ("torch", "FloatStorageX"), ("torch", "os.system"), ("numpy.core.multiarray", "_reconstruct"), ("torch.hub", "load"),
                             ("torch._utils", "_rebuild_wrapper_subclass"), ("torch._tensor", "_rebuild_from_type"), ("torch.nn.parameter", "UninitializedParameter"),
                             ("torch", "float_power"), ("torch", "complex"), ("torch", "int_repr"), ("_codecs", "decode"), ("torch.serialization", "_get_layouts")):
            self.refused(self.archive(f"c{module}\n{name}\n)R".encode()), f"wants to run {module}.{name}")
        self.refused(self.archive(b"c" + b"m" * 5000 + b"\nf\n"), "damaged")

    def test_pickles_that_are_damaged_or_bombs(self):
        one = tiny.tensor_opcodes("0", (2, 2))
        for name, body, sentence in (
                ("empty", b"", "damaged"),
                ("cut-off", tiny.text("x")[:3], "should follow"),
                ("unknown-opcode", b"\xff", "opcode 0xff"),
                ("new-obj", b"ccollections\nOrderedDict\n)\x81", "opcode 0x81"),
                ("inst", b"(ios\nsystem\n", "opcode 0x69"),
                ("obj", b"(ccollections\nOrderedDict\no", "opcode 0x6f"),
                ("extension", b"\x82\x01", "opcode 0x82"),
                ("long4", b"\x8b" + struct.pack("<i", 0x7fffffff), "bytes should follow"),
                ("long4-real", b"\x8b" + struct.pack("<i", 1_000_000) + bytes(1_000_000), "has an integer of 1000000 bytes"),
                ("text-of-4-GB", b"X" + struct.pack("<I", 0xffffffff), "bytes should follow"),
                ("text-of-2^63", b"\x8d" + struct.pack("<Q", 1 << 63), "bytes should follow"),
                ("no-mark", b"t", "a mark is missing"),
                ("under-mark", b"N(0", "a value is missing"),
                ("no-memo", b"h\x07", "not kept"),
                ("call-of-a-dict", b"})R", "a call of no global"),
                ("call-of-a-type", b"ctorch\nFloatStorage\n)R", "a call of torch.FloatStorage"),
                ("subclass", b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nFloatStorage\n)}tR", "a type that is not plain"),
                ("subclass-of-a-dict", b"ctorch._tensor\n_rebuild_from_type_v2\n(ccollections\nOrderedDict\nctorch\nTensor\n)}tR", "a type that is not plain"),
                ("subclass-of-itself", b"ctorch._tensor\n_rebuild_from_type_v2\n(h\x00ctorch\nTensor\n)}tR".replace(b"(h", b"q\x00(h"), "a type that is not plain"),
                ("subclass-without-arguments", b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n)}tR", "with 0 arguments"),
                ("long-subclass", b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n(" + b"N" * 1000 + b"t}tR", "1000 arguments"),
                ("state-of-a-list", b"]}b", "a container of another kind"),
                ("depth", b"]" * 100_000 + b"a" * 99_999, "nested deeper than 1000 levels"),
                ("depth-of-tuples", b"N" + b"\x85" * 100_000, "nested deeper than 1000 levels"),
                ("doubling", b"N" + b"q\x00h\x00\x86" * 500_000, "nested deeper than 1000 levels"),
                ("memo-bomb", b"N" + b"".join(b"r" + struct.pack("<I", i) for i in range(3_000_000)), "more than 2000000 instructions"),
                ("objects", b"]" * 5_000_000, "more than 2000000 instructions"),
                ("long-call", b"ccollections\nOrderedDict\n(" + b"N" * 1000 + b"tR", "a call with 1000 arguments"),
                ("a-list", b"]", "holds no dict of tensors"),
                ("tensor-alone", one, "holds no dict of tensors")):
            with self.subTest(name):
                self.refused(self.archive(body), sentence)

    def test_tensors_that_lie_about_their_storage(self):
        def saved(opcodes):
            return b"}" + tiny.text("w") + opcodes + b"s"

        for name, opcodes, sentence in (
                ("too-large", tiny.tensor_opcodes("0", (1000, 1000)), "does not fit its storage of 16 bytes"),
                ("offset", tiny.tensor_opcodes("0", (2, 2), offset=1), "does not fit its storage"),
                ("negative-offset", tiny.tensor_opcodes("0", (2, 2), offset=-1), "does not fit its storage"),
                ("negative-size", tiny.tensor_opcodes("0", (-2, -2)).replace(tiny.integer(-4), tiny.integer(4)), "does not fit its storage"),
                ("overflow", tiny.tensor_opcodes("0", (2, 2)).replace(tiny.numbers((2, 2)), tiny.numbers(((1 << 31) - 1,) * 3)).replace(tiny.numbers((2, 1)), tiny.numbers((1, 1, 1))),
                 "does not fit its storage"),
                ("negative-stride", tiny.tensor_opcodes("0", (2, 2), strides=(-1, 1)), "does not fit its storage"),
                ("far-stride", tiny.tensor_opcodes("0", (2, 2), strides=(3, 1)), "does not fit its storage"),
                ("endless-stride", tiny.tensor_opcodes("0", (2, 2), strides=((1 << 31) - 1, (1 << 31) - 1)), "does not fit its storage"),
                ("one-stride", tiny.tensor_opcodes("0", (2, 2), strides=(1,)), "do not fit its strides"),
                ("many-dimensions", tiny.tensor_opcodes("0", (1,) * 17), "has 17 dimensions"),
                ("typed-too-large", tiny.tensor_opcodes("0", (2, 2), dtype="uint64"), "does not fit its storage"),
                ("sparse-without-a-tuple", b"ctorch._utils\n_rebuild_sparse_tensor\n(NNtR", "not described as torch.save does it"),
                ("no-such-storage", tiny.tensor_opcodes("../../data", (2, 2)), "a storage that the file does not have"),
                ("no-type", tiny.tensor_opcodes("0", (2, 2), storage="UntypedStorage"), "whose element type is not known")):
            with self.subTest(name):
                self.refused(self.archive(saved(opcodes)), sentence)

    def test_pickles_without_an_archive(self):
        class Touch:
            def __reduce__(s):
                return os.system, (f"touch {self.marker}",)

        self.refused(self.file("old.bin", pickle.dumps(Touch(), 2)), "PyTorch before 1.6")
        self.refused(self.file("old0.bin", pickle.dumps(Touch(), 0)), "safetensors file")

    # -- zip files
    def test_zip_files(self):
        state = b"}" + tiny.text("w") + tiny.tensor_opcodes("0", (2, 2)) + b"s"
        good = self.archive(state).read_bytes()
        directory = good.index(b"PK\x01\x02")
        end = good.rindex(b"PK\x05\x06")

        def patched(at, data):
            return good[:at] + data + good[at + len(data):]

        for name, data, sentence in (
                ("no-directory", good[:directory], "its table of contents is missing"),
                ("cut-directory", good[:directory + 20] + good[end:], "table of contents"),
                ("directory-past-the-end", patched(end + 16, struct.pack("<I", 0x7fffffff)), "lies outside of it"),
                ("directory-onto-itself", patched(end + 12, struct.pack("<II", 22, end)), "table of contents"),
                ("huge-entry", patched(directory + 20, struct.pack("<II", 0x7ffffff0, 0x7ffffff0)), "does not fit in"),
                ("many-entries", patched(end + 8, struct.pack("<HH", 65535, 65535)), "65535 entries do not fit"),
                ("encrypted", patched(directory + 8, b"\x01\x00"), "is encrypted"),
                ("entry-past-the-end", patched(directory + 42, struct.pack("<I", 0x7ffffff0)), "does not fit in"),
                ("zip64-outside", good[:end] + b"PK\x06\x07" + struct.pack("<IQI", 0, 1 << 60, 1) + good[end:], "zip64 part lies outside"),
                ("zip64-onto-itself", good[:end] + b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1) + good[end:], "zip64 part"),
                ("several-disks", patched(end + 4, b"\x02\x00"), "one part of several")):
            with self.subTest(name):
                self.refused(self.file("z.pt", data), sentence)

    def test_zip_bombs(self):
        self.refused(self.archive(b"]" * 200_000_000, compress=True), "is compressed")
        # One piece of data that every entry of the table claims as its own.
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("archive/data.pkl", b"\x80\x02}.")
            z.writestr("archive/data/0", bytes(1000))
        data = out.getvalue()
        table = data.index(b"PK\x01\x02")
        second = data.index(b"PK\x01\x02", table + 1)
        end = data.rindex(b"PK\x05\x06")
        entries = [data[table:second]] + [data[second:end].replace(b"data/0", b"data/" + bytes([65 + i])) for i in range(20)]
        directory = b"".join(entries)
        quine = data[:table] + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), table, 0)
        self.refused(self.file("overlap.pt", quine), "lies on top of")
        with zipfile.ZipFile(self.folder / "none.pt", "w") as z:
            z.writestr("readme", b"hello")
        self.refused(self.folder / "none.pt", "without data.pkl")
        # A stored pickle of 100 MB.
        self.refused(self.archive(b"N0" * 50_000_000), "has a pickle of")

    def test_sixty_thousand_entries(self):
        state = b"}" + tiny.text("w") + tiny.tensor_opcodes("none", (2, 2)) + b"s"
        self.refused(self.archive(state, storages={str(i): b"" for i in range(60_000)}), "a storage that the file does not have")


class Extremes(unittest.TestCase):
    """What is odd and harmless is read."""

    def test_sizes_that_cost_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "m.safetensors")
            path.write_bytes(safetensors({"model.layers.0.self_attn.q_proj.weight": entry((0, 1 << 60), (0, 0)), "lm_head.weight": entry((1 << 60, 0), (0, 0)),
                                          "model.layers.99999.mlp.up_proj.weight": entry((2, 2), (0, 16)), "model.norm.weight": entry((0,), (16, 16)),
                                          "model.layers.0.self_attn.k_proj.weight": entry((), (16, 20))}, bytes(20)))
            limit = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
            done = subprocess.run([PLUMB, "inspect", str(path), "--json"], capture_output=True, text=True, timeout=60, preexec_fn=limit)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["n_layer"], 100_000)


if __name__ == "__main__":
    unittest.main()
