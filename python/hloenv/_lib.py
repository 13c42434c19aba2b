"""Calls of the library for modules under control: one call, held open by each thread."""
from __future__ import annotations

import threading
from typing import Any

from hilo import _core
from hilo.errors import Error

__all__ = ["Error", "call", "int64s", "lib", "run"]

_local = threading.local()


def call() -> _core.Call:
  """This thread's call."""
  found = getattr(_local, "call", None)
  if found is None:
    found = _local.call = _core.Call().__enter__()
  return found


def lib() -> Any:
  return _core.lib()


def run(name: str, *arguments: Any) -> Any:
  """Calls hilo_core_NAME; what it returns, or raises hilo.Error with what went wrong. Warnings are left out: pipelines are the
  user's own here."""
  here = call()
  result = getattr(here._lib, "hilo_core_" + name)(here._handle, *arguments)
  if result is None or result is False or (result is not True and result == -1):
    fail()
  return result


def fail() -> None:
  """Raises what the last call has said."""
  here = call()
  try:
    here._tell(True)
  finally:
    here._lib.hilo_core_call_clear(here._handle)


def int64s(array: Any) -> Any:
  """The address of a NumPy array of int64, for as long as it is there."""
  return array.ctypes.data
