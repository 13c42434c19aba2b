"""Hilo: a compiler and workbench for XLA's HLO.

    import hilo
    m = hilo.Module("module.hlo")        # a path, a text, bytes: whatever form holds a program
    print(m.stats()["flops"], m.run(x, y))
    new, report = m.opt(passes="algsimp,dce")

`hilo.Module` is a program, `hilo.Program` what runs it; `hilo.jax` helps with functions of JAX; `hilo.jax_plugin` makes
JAX run on Hilo (JAX finds it by itself). Nothing is loaded before it is used.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from hilo.errors import Diagnostic, Error, HiloWarning
  from hilo.module import Computation, Instruction, Module, Optimized, Program

  version: str

__all__ = ["Computation", "Diagnostic", "Error", "HiloWarning", "Instruction", "Module", "Optimized", "Program",
           "version"]

_HOMES = {"Computation": "module", "Diagnostic": "errors", "Error": "errors", "HiloWarning": "errors",
          "Instruction": "module", "Module": "module", "Optimized": "module", "Program": "module"}


def __getattr__(name: str) -> Any:
  if name in ("version", "__version__"):
    from hilo import _core
    return _core.version()
  home = _HOMES.get(name)
  if home is None:
    raise AttributeError(f"module 'hilo' has no attribute {name!r}")
  import importlib
  value = getattr(importlib.import_module(f"hilo.{home}"), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted([*globals(), *__all__])
