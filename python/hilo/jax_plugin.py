"""The PJRT plugin: JAX calls initialize() before it looks for its backends, and then has one more, "hilo".

JAX finds it by the entry point `hilo` of the group `jax_plugins`. With JAX_PLATFORMS=hilo a program runs on it unchanged;
HILO_PJRT_LIBRARY names another library than the package's.
"""
from __future__ import annotations

import ctypes
import dataclasses
import importlib.util
import logging
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from hilo import _callbacks, _files

NAME = "hilo"

logger = logging.getLogger(__name__)
_kept: list[Any] = []  # what C code points to


def library_path() -> str:
  """The plugin that is loaded."""
  return _files.find("HILO_PJRT_LIBRARY", "libpjrt_hilo.so", "libhilo_pjrt.so")


class _Options(Mapping):  # type: ignore[type-arg]
  """What the client is created with, looked up when it is: tests set the number of devices after the import. JAX 0.4 takes
  a mapping only, no function."""

  def _now(self) -> dict[str, int]:
    from jax._src import xla_bridge as xb
    wish = getattr(xb, "num_cpu_devices", None)
    n = -1 if wish is None else wish.value
    return {"num_devices": n} if n > 0 else {}

  def __getitem__(self, key: str) -> int:
    return self._now()[key]

  def __iter__(self) -> Iterator[str]:
    return iter(self._now())

  def __len__(self) -> int:
    return len(self._now())


def initialize() -> None:
  """Registers the plugin with JAX; once more does nothing."""
  from jax._src import xla_bridge as xb
  if NAME in xb._backend_factories:
    return
  path = library_path()
  xb._nonexperimental_plugins.add(NAME)
  xb.register_plugin(NAME, priority=500, library_path=path, options=_Options())
  _answer_for_cpu(xb)
  _make_keys_for_caches_only()
  library = ctypes.CDLL(path)
  _declare(library)
  _name_stablehlo(library)
  _kept.append(library)
  _callbacks.install(library)
  _take_custom_calls(library)
  _take_lapack_of_scipy()


# --- StableHLO --------------------------------------------------------------------------------------


def _name_stablehlo(library: ctypes.CDLL) -> None:
  """Programs come with the newest ops that this jaxlib has; else it writes them as its release of twelve weeks before would."""
  try:
    from jaxlib.mlir.dialects import stablehlo
    version = stablehlo.get_current_version()
    major, minor, patch = (int(n) for n in version.split("."))
  except (ImportError, AttributeError, ValueError):
    return
  library.hilo_pjrt_name_stablehlo(major, minor, patch)


# --- LAPACK -----------------------------------------------------------------------------------------


def _take_lapack_of_scipy() -> None:
  """JAX on XLA:CPU computes with the LAPACK that SciPy brings. So does Hilo: the same results, signs of vectors and order of
  eigenvalues too, and nothing to install. HILO_LAPACK names another. SciPy itself is not imported for it."""
  spec = importlib.util.find_spec("scipy")
  if os.environ.get("HILO_LAPACK") or spec is None or not spec.origin:
    return
  package = pathlib.Path(spec.origin).parent
  found = sorted(f for folder in (package.parent / "scipy.libs", package / ".dylibs") for f in folder.glob("*openblas*")
                 if "64_" not in f.name)
  if found:
    os.environ["HILO_LAPACK"] = str(found[0])


# --- jax.devices("cpu") -----------------------------------------------------------------------------


def _answer_for_cpu(xb: Any) -> None:
  """Where hilo is the only platform, it is "cpu" as well: JAX itself asks for devices of that name, for the arguments of
  callbacks, say. Told when the client is made, as JAX 0.10 has a hook for it and others have none."""
  registration = xb._backend_factories[NAME]
  make = registration.factory

  def factory() -> Any:
    client = make()
    from jax._src import config
    if client is not None and (config.jax_platforms.value or "") == NAME:
      xb._backends.setdefault("cpu", client)
    return client

  xb._backend_factories[NAME] = dataclasses.replace(registration, factory=factory)


# --- Keys of JAX's cache on disk --------------------------------------------------------------------


def _make_keys_for_caches_only() -> None:
  """JAX makes each program's key for its cache on disk, also where no such cache is set: a sixth of the time that a small
  program takes to compile."""
  from jax._src import compilation_cache, config
  used = getattr(compilation_cache, "is_cache_used", None)
  folder, shared = (getattr(config, name, None) for name in ("compilation_cache_dir", "share_binary_between_hosts"))
  if used is None or folder is None or shared is None or not hasattr(compilation_cache, "_cache"):
    return

  def is_cache_used(backend: Any) -> bool:
    wants_key = folder.value or shared.value or compilation_cache._cache is not None
    return used(backend) if wants_key or NAME not in backend.platform_version else False

  compilation_cache.is_cache_used = is_cache_used


# --- Custom calls -----------------------------------------------------------------------------------


def _declare(library: ctypes.CDLL) -> None:
  pointer = ctypes.c_void_p
  library.hilo_pjrt_register_ffi.argtypes = [ctypes.c_char_p, pointer, pointer, pointer, pointer, ctypes.c_int,
                                             ctypes.c_uint]
  library.hilo_pjrt_register_type.argtypes = [ctypes.c_char_p, ctypes.c_longlong, pointer]


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _address(capsule: Any) -> int | None:
  """What a capsule holds, which stays."""
  if capsule is None:
    return None
  _kept.append(capsule)
  return _capsule_pointer(capsule, _capsule_name(capsule))


def _bytes(name: str | bytes) -> bytes:
  return name if isinstance(name, bytes) else name.encode()


def _register(library: ctypes.CDLL, name: Any, stages: Mapping[str, Any], api_version: int, traits: Any = 0) -> None:
  pointers = [_address(stages.get(stage)) for stage in ("instantiate", "prepare", "initialize", "execute")]
  if library.hilo_pjrt_register_ffi(_bytes(name), *pointers, api_version, _number(traits)) != 0:
    logger.warning("Hilo does not take the custom call %s", name)


def _take_custom_calls(library: ctypes.CDLL) -> None:
  """Every target that is or will be registered for "cpu" goes to Hilo, and on to XLA: JAX knows one handler for each
  platform, and a CPU client that is made later would find its place taken."""
  from jax._src.lib import xla_client
  xla = xla_client._xla

  def take(name: Any, target: Any, platform: str, api_version: int = 0, traits: Any = 0) -> None:
    stages = target if isinstance(target, dict) else {"execute": target}
    _register(library, name, stages, api_version, traits)
    xla.register_custom_call_target(name, target, platform, api_version, traits)

  if hasattr(xla_client, "register_custom_type_handler"):

    def take_type(name: Any, target: Any) -> None:
      given = target if isinstance(target, dict) else {"type_id": target}
      identity, functions = _address(given.get("type_id")), _address(given.get("type_info"))
      xla.register_custom_type(name, target)  # which gives it its number
      number = ctypes.c_longlong.from_address(identity).value if identity else 0
      if library.hilo_pjrt_register_type(_bytes(name), number, functions) != 0:
        logger.warning("Hilo does not take the FFI type %s", name)

    xla_client.register_custom_type_handler("cpu", take_type)
  # Behind the types: a handler that keeps something says of which.
  xla_client.register_custom_call_handler("cpu", take)
  _take_own_calls(library, xla)


def _take_own_calls(library: ctypes.CDLL, xla: Any) -> None:
  """jaxlib registers a few handlers with XLA and nobody else, as it is loaded: buffer callbacks'."""
  name = "xla_buffer_python_cpu_callback"
  targets = xla.custom_call_targets("Host") if hasattr(xla, "custom_call_targets") else {}
  if not isinstance(targets.get(name), dict):
    return
  meet = ctypes.cast(library.hilo_pjrt_meet_client, ctypes.c_void_p).value
  xla.register_custom_call_target("hilo_meet_client", _capsule_new(meet, b"xla._CUSTOM_CALL_TARGET", None), "Host", 1)
  _register(library, name, targets[name], api_version=1)


def _number(traits: Any) -> int:
  return int(getattr(traits, "value", traits))
