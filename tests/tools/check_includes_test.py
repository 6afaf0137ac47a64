"""tools/check_includes.py must catch each kind of violation, name its place, and find none in this tree."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_includes  # noqa: E402


class CheckIncludes(unittest.TestCase):
    def violations(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_includes.check(folder)

    def assert_one(self, files, name, line, word):
        found = self.violations(files)
        self.assertEqual([(f, n) for f, n, _ in found], [(name, line)], found)
        self.assertIn(word, found[0][2])

    def test_what_the_table_allows_passes(self):
        self.assertEqual(self.violations({
            "plumb/norm/rms.cpp": '#include "plumb/norm/norm.h"\n#include "plumb/kernel/rows.h"\n#include <vector>\n',
            "plumb/model/decoder.cpp": '#include "plumb/norm/norm.h"\n#include "plumb/attention/attention.h"\n',
            "plumb/base/text.h": '#include "plumb/version.h"\n',
            "plumb/cli/train.cpp": '#include "plumb/train/loop.h"\n',
            "tests/norm/rms_test.cpp": '#include "plumb/cli/flags.h"\n#include <nlohmann/json.hpp>\n',
        }), [])

    def test_a_family_may_not_include_another(self):
        self.assert_one({"plumb/norm/rms.cpp": '#include <vector>\n\n#include "plumb/residual/residual.h"\n'},
                        "plumb/norm/rms.cpp", 3, "norm/ may not include residual/")

    def test_a_probe_may_not_include_train_nor_the_doctor_a_model(self):
        self.assert_one({"plumb/probe/a.cpp": '#include "plumb/train/loop.h"\n'}, "plumb/probe/a.cpp", 1, "train")
        self.assert_one({"plumb/doctor/a.cpp": '#include "plumb/model/decoder.h"\n'}, "plumb/doctor/a.cpp", 1, "model")

    def test_a_folder_outside_the_table_is_an_error(self):
        self.assert_one({"plumb/util/a.h": "\n"}, "plumb/util/a.h", 1, "not in the table")

    def test_relative_includes_are_refused(self):
        self.assert_one({"plumb/norm/rms.cpp": '#include "norm.h"\n'}, "plumb/norm/rms.cpp", 1, "plumb/norm/norm.h")

    def test_ranges_is_refused_in_tests_too(self):
        self.assert_one({"tests/a_test.cpp": "#include <ranges>\n"}, "tests/a_test.cpp", 1, "clang 14")

    def test_onednn_stays_in_kernel(self):
        self.assert_one({"plumb/plan/a.cpp": "#include <oneapi/dnnl/dnnl.hpp>\n"}, "plumb/plan/a.cpp", 1, "kernel/")

    def test_a_costly_header_is_included_once(self):
        self.assert_one({"plumb/base/json.cpp": "#include <nlohmann/json.hpp>\n",
                         "plumb/base/trace.cpp": "#include <nlohmann/json.hpp>\n"}, "plumb/base/trace.cpp", 1, "json.cpp")

    def test_long_files_are_refused(self):
        self.assertEqual(self.violations({"plumb/base/a.cpp": "\n" * 500}), [])
        self.assert_one({"plumb/base/a.cpp": "\n" * 501}, "plumb/base/a.cpp", 501, "501 lines")
        self.assert_one({"tools/a.py": "\n" * 501}, "tools/a.py", 501, "501 lines")
        self.assert_one({"plumb/cli/main.cpp": "\n" * 60}, "plumb/cli/main.cpp", 60, "60 lines")

    def test_the_command_prints_place_and_rule_and_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "plumb/tensor/view.h")
            path.parent.mkdir(parents=True)
            path.write_text('#include "plumb/plan/plan.h"\n')
            command = [sys.executable, str(ROOT / "tools/check_includes.py"), folder]
            result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"^plumb/tensor/view\.h:1: tensor/ may not include plan/")

    def test_this_tree_keeps_the_rules(self):
        self.assertEqual(check_includes.check(ROOT), [])


if __name__ == "__main__":
    unittest.main()
