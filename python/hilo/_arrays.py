"""Between arrays of NumPy and memory of Hilo's: every element dense, row-major, in a byte or more."""
from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

_PLAIN = {"pred": "bool", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
          "bf16": "bfloat16"}
_SIGNED_BELOW_A_BYTE = ("int1", "int2", "int4")  # ml_dtypes leaves their sign out of the upper bits, where Hilo has it
_dtypes: dict[str, np.dtype] = {}


def _numpy_name(text: str) -> str | None:
  """HLO's `s32`, `u4`, `f8e4m3fn` as NumPy or ml_dtypes spell it."""
  if text in _PLAIN:
    return _PLAIN[text]
  integer = re.fullmatch(r"([su])(\d+)", text)
  if integer:
    return ("int" if integer[1] == "s" else "uint") + integer[2]
  small = re.fullmatch(r"f(\d)(e\d.*)", text)
  return f"float{small[1]}_{small[2]}" if small else None


def dtype_of(text: str) -> np.dtype:
  """NumPy's dtype of an element type of HLO. TypeError where there is none (for some: without the package ml_dtypes)."""
  found = _dtypes.get(text)
  if found is not None:
    return found
  name = _numpy_name(text)
  if name is None:
    raise TypeError(f"NumPy has no arrays of {text}")
  try:
    found = np.dtype(name)
  except TypeError:
    found = _extended(text, name)
  _dtypes[text] = found
  return found


def _extended(text: str, name: str) -> np.dtype:
  try:
    import ml_dtypes
  except ImportError as e:
    raise TypeError(f"arrays of {text} need the package ml_dtypes") from e
  if not hasattr(ml_dtypes, name):
    raise TypeError(f"arrays of {text} need a newer ml_dtypes, which has {name}")
  return np.dtype(getattr(ml_dtypes, name))


def _bytes_of(address: int, dtype: np.dtype, dims: tuple[int, ...]) -> tuple[Any, int]:
  size = dtype.itemsize
  for dim in dims:
    size *= dim
  return (ctypes.c_char * size).from_address(address) if size else bytearray(), size


def view(address: int, dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
  """The array that lies at an address, as long as it does."""
  return np.ndarray(dims, dtype, _bytes_of(address, dtype, dims)[0])


def copy(address: int, dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
  """The same as an array of its own, as ml_dtypes has it."""
  array = view(address, dtype, dims)
  return array.astype(np.int8).astype(dtype) if dtype.name in _SIGNED_BELOW_A_BYTE else array.copy()


def to_array(value: Any, dtype: np.dtype, dims: tuple[int, ...], what: str) -> np.ndarray:
  """A value as an array of a type and sizes: of another type only what has none of its own, Python's numbers and lists."""
  typed = hasattr(value, "dtype")
  try:
    array = np.asarray(value) if typed else np.asarray(value, dtype=dtype)
  except (TypeError, ValueError, OverflowError) as e:
    raise TypeError(f"{what} is no array of {dtype}: {e}") from e
  if array.dtype != dtype:
    raise TypeError(f"{what} has elements of {array.dtype}; expected {dtype}")
  if array.shape != dims:
    raise TypeError(f"{what} has the sizes {list(array.shape)}; expected {list(dims)}")
  if array.dtype.name in _SIGNED_BELOW_A_BYTE:
    array = array.astype(np.int8).view(array.dtype)
  return np.require(array, requirements=["C", "A"])
