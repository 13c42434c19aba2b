"""The C library, by ctypes: its functions as python/core/core.h declares them, and calls of them.

ctypes rather than a compiled extension: nothing is compiled against Python, so that one library and one wheel serve every
version of it, those without a global lock too; the declarations are read from the C header itself, so that none is written
twice; and every call lets other threads run.
"""
from __future__ import annotations

import ctypes
import json
import operator
import os
import re
import threading
import warnings
from typing import Any

from hilo import _files
from hilo.errors import Diagnostic, Error, HiloWarning

_TYPES: dict[str, Any] = {"void": None, "bool": ctypes.c_bool, "int": ctypes.c_int, "int64_t": ctypes.c_int64,
                          "double": ctypes.c_double,
                          "const char *": ctypes.c_char_p}
_FUNCTION = re.compile(r"([\w \n]+?[\s*]+)(hilo_core_\w+)\(([^)]*)\);")

_lock = threading.Lock()
_lib: Any = None


def _type_of(text: str) -> Any:
  text = " ".join(text.split())
  return _TYPES[text] if text in _TYPES or "*" not in text else ctypes.c_void_p


def _declare(lib: ctypes.CDLL, header: str) -> None:
  for result, name, arguments in _FUNCTION.findall(re.sub(r"//[^\n]*", "", header)):
    function = getattr(lib, name)
    function.restype = _type_of(result)
    function.argtypes = [_type_of(re.sub(r"\w+$", "", a.strip())) for a in arguments.split(",") if a.strip() != "void"]


def _header() -> str:
  for path in (_files.PACKAGE / "core.h", _files.PACKAGE.parent / "core" / "core.h"):
    if path.exists():
      return path.read_text(encoding="utf-8")
  raise ImportError(f"core.h is neither in {_files.PACKAGE} nor beside it")


def lib() -> Any:
  """The library, loaded when it is first asked for."""
  global _lib
  if _lib is None:
    with _lock:
      if _lib is None:
        loaded = ctypes.CDLL(_files.find("HILO_CORE_LIBRARY", "libhilo_core.so"))
        _declare(loaded, _header())
        _lib = loaded
  return _lib


def version() -> str:
  return lib().hilo_core_version().decode()


def _address(name: str) -> int:
  return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


# How a call learns that Python has a signal waiting, say of Control-C: see hilo_core_call_new.
_LISTEN = (ctypes.c_int64 * 4)(*map(_address, ("PyGILState_Ensure", "PyErr_CheckSignals", "PyErr_Fetch", "PyGILState_Release")))
_RAISE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)  # with Python's lock


def _options(options: dict[str, Any]) -> bytes:
  return json.dumps({key: value for key, value in options.items() if value is not None}).encode()


def whole(value: Any, what: str, least: int = 0, most: int = 2**31 - 1) -> int:
  """A whole number between two, which C takes as it is."""
  try:
    number = operator.index(value)
  except TypeError:
    raise TypeError(f"{what} is a whole number, not {value!r}") from None
  if not least <= number <= most:
    raise ValueError(f"{what} is from {least} to {most}, not {number}")
  return number


def text(given: Any) -> bytes:
  """A text, or a path, as C takes it."""
  if not isinstance(given, (str, bytes, os.PathLike)):
    raise TypeError(f"expected a text, not {given!r}")
  out = os.fsencode(given)
  if b"\0" in out:
    raise ValueError(f"there is a NUL in {given!r}")
  return out


def wholes(options: dict[str, Any], **allowed: Any) -> dict[str, Any]:
  """Options that are whole numbers, each with its name and its least; others are an error."""
  for name in options:
    if name not in allowed:
      raise TypeError(f"there is no option {name!r}: {', '.join(allowed)}")
  return {name: whole(value, name, allowed[name], 2**63 - 1 if name in ("seed", "tries", "size") else 2**31 - 1)
          for name, value in options.items() if value is not None}


class Call:
  """One call of the library, which holds what it says; for a `with`."""

  def __enter__(self) -> Call:
    listens = threading.current_thread() is threading.main_thread()
    self._lib = lib()
    self._handle = self._lib.hilo_core_call_new(ctypes.addressof(_LISTEN) if listens else None)
    if not self._handle:
      raise MemoryError
    return self

  def __exit__(self, *_: Any) -> None:
    self._lib.hilo_core_call_free(self._handle)

  def run(self, name: str, *arguments: Any) -> Any:
    """Calls hilo_core_NAME, options being dictionaries; what it returns, or raises what went wrong."""
    given = [_options(a) if isinstance(a, dict) else a for a in arguments]
    result = getattr(self._lib, "hilo_core_" + name)(self._handle, *given)
    failed = result is None or result is False or (result is not True and result == -1)
    self._tell(failed)
    return result

  def ask(self, name: str, *arguments: Any) -> bool:
    """The same of a question, whose answer may be no."""
    answer = getattr(self._lib, "hilo_core_" + name)(self._handle, *arguments)
    self._tell(bool(self._lib.hilo_core_failed(self._handle)))
    return answer

  def output(self) -> bytes:
    """What the call wrote; before the next one."""
    return ctypes.string_at(self._lib.hilo_core_output(self._handle), self._lib.hilo_core_output_size(self._handle))

  def take(self, k: int) -> int:
    return self._lib.hilo_core_take(self._handle, k)

  def _tell(self, failed: bool) -> None:
    said = self._lib.hilo_core_diagnostics(self._handle)
    found = [Diagnostic(**d) for d in json.loads(said)] if said else []
    if failed:
      errors = [d for d in found if d.severity == "error"]
      if errors and errors[0].kind == "cancelled":
        raiser = ctypes.cast(self._lib.hilo_core_call_raise, ctypes.c_void_p).value
        _RAISE(raiser)(self._handle, _address("PyErr_Restore"))  # what the handler of the signal has raised
        raise KeyboardInterrupt
      raise Error("".join(d.rendered for d in found).rstrip() or "failed", found)
    for d in found:
      if d.severity == "warning":
        warnings.warn(d.rendered.rstrip(), HiloWarning, stacklevel=4)
