"""A module as arrays: views of one block of memory, which stays as long as one of them."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from hloenv import _lib

if TYPE_CHECKING:
  from hloenv.module import HloModule


def _table() -> dict[str, dict[str, tuple[int, np.dtype]]]:
  """By group and name: the array's number and type."""
  out: dict[str, dict[str, tuple[int, np.dtype]]] = {}
  k = 0
  while (row := _lib.lib().hilo_core_feature(k)) is not None:
    group, name, dtype, _ = row.decode().split()
    out.setdefault(group, {})[name] = k, np.dtype(dtype)
    k += 1
  return out


_ARRAYS = _table()


class _Block:
  """The memory of all arrays of a graph, freed when nobody needs it: the arrays hold on to this."""

  def __init__(self, handle: int):
    lib = _lib.lib()
    self.handle = handle
    self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (lib.hilo_core_features_bytes(handle),),
                                "data": (lib.hilo_core_features_block(handle), False)}

  def __del__(self) -> None:
    _lib.lib().hilo_core_features_free(self.handle)

  def __reduce__(self) -> Any:
    raise TypeError("a graph cannot be copied or pickled; its arrays can")


class _Memory:
  """Arrays in it."""

  def __reduce__(self) -> Any:
    raise TypeError("a graph cannot be copied or pickled; its arrays can")

  def __init__(self, handle: int):
    self.handle = handle
    self.bytes = np.asarray(_Block(handle))

  def array(self, group: str, name: str) -> np.ndarray:
    lib = _lib.lib()
    k, dtype = _ARRAYS[group][name]
    at = lib.hilo_core_feature_offset(self.handle, k)
    return self.bytes[at:at + lib.hilo_core_feature_length(self.handle, k) * dtype.itemsize].view(dtype)


class _Arrays:
  """Members are arrays of a group, made when they are first asked for."""

  _group = ""

  def __init__(self, block: Any):
    self._block = block

  def __getattr__(self, name: str) -> np.ndarray:
    if name.startswith("_") or name not in _ARRAYS[self._group]:
      raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
    value = self._block.array(self._group, name)
    self.__dict__[name] = value
    return value

  def __dir__(self) -> list[str]:
    return sorted([*super().__dir__(), *_ARRAYS[self._group]])


class NodeFeats(_Arrays):
  """Of nodes: uids, names, gids, fused_comp_ids, num_users, num_operands, opcodes, opcode_attrs, num_opcode_attrs,
  is_alternative, is_in_fusion, in_tensor_sizes, out_tensor_sizes, has_max_in_tensor, has_max_out_tensor,
  normalized_num_group_inst."""

  _group = "node"

  @property
  def names(self) -> list[str]:
    found = self.__dict__.get("_names")
    if found is None:
      text = self._block.array("node", "name_bytes").tobytes().decode()
      ends = self._block.array("node", "name_offsets").tolist()
      if len(text) != ends[-1]:  # some are not ASCII
        raw = self._block.array("node", "name_bytes").tobytes()
        found = [raw[a:b].decode() for a, b in zip(ends, ends[1:])]
      else:
        found = [text[a:b] for a, b in zip(ends, ends[1:])]
      self.__dict__["_names"] = found
    return found


class EdgeFeats(_Arrays):
  """Of edges: uids, srcs, dsts, dims, layouts, lehmercodes, types, dtypes."""

  def get_tensor_size(self, index: int) -> int:
    """How many elements go along an edge."""
    if not 0 <= index < len(self.uids):
      raise IndexError(f"there are {len(self.uids)} edges, but {index} is asked for")
    return abs(int(np.prod(self.dims[index * 8:index * 8 + 8])))


class _InEdges(EdgeFeats):
  _group = "in_edge"


class _OutEdges(EdgeFeats):
  _group = "out_edge"


class HloGraph(_Arrays):
  """The graph of a module: out_edge_offsets, out_edge_indices, in_edge_offsets, in_edge_indices, alternative_indices,
  opcode_attr_counts, and the features of nodes and edges. It stays as it is when the module changes."""

  _group = "graph"

  def __init__(self, module: HloModule, debug: bool = False, inline_fused_comp: bool = False,
               do_hash_verification: bool = False):
    with module._lock:
      handle = _lib.run("features", module._handle, bool(inline_fused_comp))
    block = _Memory(handle)
    super().__init__(block)
    self.node_features = NodeFeats(block)
    self.in_edge_features = _InEdges(block)
    self.out_edge_features = _OutEdges(block)
    self._module_hash: int | None = None
    if debug and self._has_cycle():
      raise ValueError("there is a cycle in the graph")

  @property
  def opcode_attr_counts(self) -> np.ndarray:
    n = 2 * 118
    return np.frombuffer(ctypes.string_at(_lib.lib().hilo_core_opcode_attrs(), 4 * n), np.int32)

  def _has_cycle(self) -> bool:
    """Edges into fused computations and back may make one, which the lists of instructions cannot."""
    left = self.node_features.num_operands.astype(np.int64)
    ready = np.flatnonzero(left == 0).tolist()
    offsets, users = self.out_edge_offsets, self.out_edge_indices
    n = 0
    while ready:
      node = ready.pop()
      n += 1
      for user in users[int(offsets[node]):int(offsets[node + 1])].tolist():
        left[user] -= 1
        if left[user] == 0:
          ready.append(user)
    return n != len(left)

  def hash(self) -> int:
    """A hash of the structure: the same for equal graphs, in every process. (HloEnv's mixes in an address.)"""
    import hashlib
    digest = hashlib.blake2b(digest_size=8)
    for array in (self.node_features.opcodes, self.node_features.gids, self.node_features.opcode_attrs,
                  self.in_edge_offsets, self.in_edge_indices, self.in_edge_features.dims,
                  self.in_edge_features.layouts, self.in_edge_features.dtypes):
      digest.update(array.data)
    return int.from_bytes(digest.digest(), "little")

  def get_graph_load_errors(self) -> int:
    return 0
