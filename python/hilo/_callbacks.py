"""Calls from compiled programs back into Python: jax.pure_callback, io_callback, debug.print.

The plugin calls one C function with the callable and with what describes operands and results (src/pjrt/ffi.h); it is made
here by ctypes, which takes Python's lock on whatever thread it is called.
"""
from __future__ import annotations

import ctypes
import functools
import traceback
from typing import Any

import numpy as np


class _Array(ctypes.Structure):
  _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
              ("dims", ctypes.POINTER(ctypes.c_longlong))]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int, ctypes.POINTER(_Array), ctypes.c_int,
                             ctypes.POINTER(_Array), ctypes.c_void_p, ctypes.c_size_t)


@functools.lru_cache(maxsize=None)
def _dtype(number: int) -> np.dtype:
  """Of a number of xla.PrimitiveType."""
  from hilo import _arrays, _core
  text = _core.lib().hilo_core_dtype(number)
  if text is None:
    raise TypeError(f"element type {number} is not known")
  return _arrays.dtype_of(text.decode())


def _operand(array: _Array) -> np.ndarray | None:
  """A copy, for the callable may keep it, that cannot be written to; None for a token."""
  if not array.data:
    return None
  dtype, dims = _dtype(array.dtype), tuple(array.dims[:array.rank])
  n = dtype.itemsize
  for dim in dims:
    n *= dim
  return np.ndarray(dims, dtype, ctypes.string_at(array.data, n))


def _store(value: Any, k: int, to: _Array) -> None:
  if not to.data:
    if value is not None:
      raise _Wrong(f"Token output from Python callback should be None, got {value!r}")
    return
  from hilo import _arrays
  dtype, dims = _dtype(to.dtype), tuple(to.dims[:to.rank])
  array = np.asarray(value)
  if array.shape != dims:
    raise _Wrong(f"Mismatched result shape for {k}-th return value from CPU callback; expected array with dimensions "
                 f"{','.join(map(str, dims))}, got {','.join(map(str, array.shape))}")
  if array.dtype != dtype:
    raise _Wrong(f"Mismatched result type for {k}-th return value from CPU callback; expected array of {dtype}, got "
                 f"{array.dtype}")
  np.copyto(_arrays.view(to.data, dtype, dims), array)


class _Wrong(Exception):
  """A result that is not what the program expects."""


def _call(function: Any, n_operands: int, operands: Any, n_results: int, results: Any) -> None:
  value = function(*[_operand(operands[k]) for k in range(n_operands)])
  if not isinstance(value, tuple):
    raise _Wrong(f"CPU callback expected a tuple result, got {value!r}")
  if len(value) != n_results:
    raise _Wrong(f"CPU callback expected a tuple with {n_results} results, got {len(value)}")
  for k in range(n_results):
    _store(value[k], k, results[k])


def _tell(text: str, error: int, size: int) -> None:
  """Into the caller's room, ended by NUL: where it is too long, the start and, as it names the exception, the end."""
  said = text.encode("utf-8", "replace")
  if len(said) >= size:
    said = said[:size // 4] + b"\n...\n" + said[-(size - size // 4 - 6):]
  ctypes.memmove(error, said + b"\0", min(len(said) + 1, size))


def _without_ours(trace: Any) -> Any:
  """A traceback from where it leaves this file."""
  while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
    trace = trace.tb_next
  return trace


def _trampoline(function: Any, n_operands: int, operands: Any, n_results: int, results: Any, error: int,
                size: int) -> int:
  try:
    _call(function, n_operands, operands, n_results, results)
    return 0
  except _Wrong as e:
    _tell(str(e), error, size)
  except BaseException as e:  # of SystemExit and KeyboardInterrupt, too: the thread is the program's, not Python's
    inside = _without_ours(e.__traceback__)
    said = "".join(traceback.format_exception(type(e), e, inside)).rstrip()
    _tell("CpuCallback error calling callback: " + said, error, size)
  return 1


_callback = _CALLBACK(_trampoline)


def install(library: ctypes.CDLL) -> None:
  """Hands it to the plugin, for as long as the process lives."""
  library.hilo_pjrt_set_callback.argtypes = [_CALLBACK]
  library.hilo_pjrt_set_callback.restype = None
  library.hilo_pjrt_set_callback(_callback)
