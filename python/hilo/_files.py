"""Where the libraries are: told by the environment, in the package, or in the folder that they are built in."""
from __future__ import annotations

import os
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent


def find(variable: str, *names: str) -> str:
  """The path of the first of the names there is; `variable` names one itself."""
  told = os.environ.get(variable)
  if told:
    return told
  source = PACKAGE.parent.parent
  build = os.environ.get("HILO_BUILD")
  folders = [PACKAGE, *([pathlib.Path(build)] if build else []), source / "build"]
  for folder in folders:
    for name in names:
      if (folder / name).exists():
        return str(folder / name)
  raise ImportError(f"{names[0]} is not in {', '.join(str(f) for f in folders)}: install the package (pip install .), build "
                    f"it (make), or say with {variable} where it is")
