"""The instruments from the command line: the list, one of them as JSON, and what is refused."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rig import ROOT, SMALL, Folder, plumb  # noqa: E402


class Measure(Folder):
    def setUp(self):
        super().setUp()
        self.config = self.folder / "small.toml"
        self.config.write_text("")

    def test_the_list_has_one_for_each_file(self):
        files = {p.stem for p in (ROOT / "plumb/instrument").glob("*.cpp")} - {"instrument"}
        listed = json.loads(plumb("measure", "--json").stdout)["instruments"]
        self.assertEqual({i["name"] for i in listed}, files)
        for i in listed:
            self.assertTrue(i["measures"] and i["how"], i["name"])
        text = plumb("measure").stdout
        for name in files:
            self.assertIn(name, text)

    def test_one_on_a_config(self):
        run = plumb("measure", str(self.config), "path_length", *SMALL, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual(answer["step"], 0)
        lengths = answer["path_length"]["lengths"]
        self.assertEqual([row["length"] for row in lengths], [0, 1, 2, 3, 4])  # two sub-layers in each of two blocks
        self.assertAlmostEqual(sum(row["share"] for row in lengths), 1)

    def test_an_unknown_one_is_refused(self):
        run = plumb("measure", str(self.config), "path_lenght", *SMALL)
        self.assertEqual(run.returncode, 2)
        self.assertIn("did you mean 'path_length'?", run.stderr)


if __name__ == "__main__":
    unittest.main()
