"""Runs the Python of docs/python.md, block by block, and compares what it prints with the block that follows."""
# needs jax
import contextlib
import io
import os
import pathlib
import re
import shutil
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)


class Docs(unittest.TestCase):

  def test_page(self):
    blocks = BLOCK.findall((ROOT / "docs" / "python.md").read_text(encoding="utf-8"))
    self.assertGreaterEqual(len(blocks), 4)
    names, home = {}, os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
      shutil.copytree(ROOT / "tests" / "fixtures" / "mlp_train", folder, dirs_exist_ok=True)
      os.chdir(folder)
      try:
        for code, expected in blocks:
          out = io.StringIO()
          with contextlib.redirect_stdout(out):
            exec(compile(code, "docs/python.md", "exec"), names)  # pylint: disable=exec-used
          self.assertEqual(out.getvalue(), expected, code)
      finally:
        os.chdir(home)


if __name__ == "__main__":
  unittest.main()
