"""Calls of the library for modules under control: one call, held open by each thread."""
from __future__ import annotations

import functools
import threading
from typing import Any

from hilo import _core
from hilo.errors import Error

__all__ = ["Error", "alone", "call", "int64s", "lib", "run", "whole_numbers"]

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


def whole_numbers(given: Any, what: str) -> Any:
  """Whole numbers as an array of int64: what is no whole number, or none of 64 bits, is an error."""
  import numpy as np
  array = np.asarray(given)
  if array.size == 0:
    return np.zeros(array.shape, np.int64)
  if array.dtype.kind == "f" and (np.abs(array) < 2**53).all() and (array == np.rint(array)).all():
    array = array.astype(np.int64)
  if array.dtype.kind not in "iub":
    raise ValueError(f"{what} are whole numbers, not {array.dtype}")
  out = np.ascontiguousarray(array, np.int64)
  if array.dtype.kind == "u" and (out < 0).any():
    raise ValueError(f"{what} are numbers of 64 bits")
  return out


def alone(method: Any) -> Any:
  """A method of something with a `_lock`, or with a module that has one: one thread at a time."""

  @functools.wraps(method)
  def locked(self: Any, *arguments: Any, **named: Any) -> Any:
    lock = getattr(self, "_lock", None) or self._module._lock
    with lock:
      return method(self, *arguments, **named)

  return locked


def int64s(array: Any) -> Any:
  """The address of a NumPy array of int64, for as long as it is there."""
  return array.ctypes.data
