"""Runs the Python of the second half of docs/env.md, block by block, and compares what it prints with the block that follows; --update writes that."""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "env.md"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)


def run(code, names):
  out = io.StringIO()
  with contextlib.redirect_stdout(out), warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # of Gymnasium: that boxes have no bounds
    exec(compile(code, "docs/env.md", "exec"), names)  # pylint: disable=exec-used
  return out.getvalue()


def main():
  missing = [m for m in ("gymnasium", "matplotlib") if importlib.util.find_spec(m) is None]
  if missing:
    print(f"skipped: this Python has no {', '.join(missing)} (make venv)")
    return 77
  first, text = PAGE.read_text(encoding="utf-8").split("## `import hilo.env`", 1)
  names, home, bad, seen = {}, os.getcwd(), 0, 0
  with tempfile.TemporaryDirectory() as folder:
    shutil.copytree(ROOT / "tests" / "fixtures" / "mlp_train", folder, dirs_exist_ok=True)
    os.chdir(folder)
    try:
      def block(found):
        nonlocal bad, seen
        code, expected = found.groups()
        seen += 1
        got = run(code, names)
        if got != (expected or ""):
          bad += 1
          print(f"{code}\nprints\n{got}\nexpected\n{expected}")
        return f"```python\n{code}```\n" + (f"\n```\n{got}```\n" if got else "")
      text = BLOCK.sub(block, text)
    finally:
      os.chdir(home)
  if "--update" in sys.argv:
    PAGE.write_text(first + "## `import hilo.env`" + text, encoding="utf-8")
    return 0
  print(f"{seen} blocks, {bad} wrong")
  return bad > 0 or seen < 5


if __name__ == "__main__":
  sys.exit(main())
