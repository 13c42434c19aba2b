"""python -m hilo reproduce FILE: runs what hilo.jax.reproduce wrote. Any other command is one of the program `hilo`."""
from __future__ import annotations

import os
import shutil
import sys


def main(argv: list[str]) -> int:
  if argv[:1] == ["reproduce"]:
    if len(argv) != 2 or argv[1].startswith("-"):
      print("usage: python -m hilo reproduce FILE\n\nRuns a reproducer that hilo.jax.reproduce wrote.", file=sys.stderr)
      return 0 if argv[1:] in (["--help"], ["-h"]) else 2
    from hilo import reproducer
    try:
      return reproducer.run(argv[1])
    except (OSError, KeyError, ValueError) as e:
      print(f"{argv[1]}: no reproducer: {e}", file=sys.stderr)
      return 3
  beside = os.path.join(os.path.dirname(sys.executable), "hilo")
  program = beside if os.access(beside, os.X_OK) else shutil.which("hilo")
  if program is None:
    print("hilo: the program is not installed", file=sys.stderr)
    return 2
  os.execv(program, [program, *argv])


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
