"""One environment, or many, of the C library: what hilo.env is made of, without Gymnasium."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np

from hilo import _core
from hilo.module import Module, Source

STATE = 16  # HILO_ENV_STATE of core.h
(REWARD, TERMINATED, TRUNCATED, REPEATED, APPLIED, CHOICES, SITES, SECONDS, KERNELS, BYTES, FLOPS, INSTRUCTIONS, METRIC,
 MOVES, DONE, FIRST_METRIC) = range(STATE)
Arrays = dict[str, np.ndarray]

_INT32 = np.dtype(np.int32)
_TEXTS = ("env", "target", "actions", "first", "pre", "choose", "post", "menu", "rules", "metric", "reward", "observation")
_SEED = (-2**63, 2**63 - 1)


@dataclasses.dataclass(frozen=True)
class Choice:
  """A rewrite that could be made: `gain` is the time in seconds that it is thought to save, nan where nobody knows."""
  choice: int
  site: int
  option: int
  rewrite_pass: str
  rule: str
  computation: str
  instruction: str
  other: str
  gain: float
  before: str
  after: str


def as_module(source: Union[Module, Source]) -> Module:
  return source if isinstance(source, Module) else Module(source)


def numbers(given: Any) -> np.ndarray:
  """What the library takes as it stands in memory: whole numbers, int32, one after the other."""
  if type(given) is np.ndarray and given.dtype == _INT32 and given.flags.c_contiguous:
    return given
  array = np.asarray(given if isinstance(given, (np.ndarray, Sequence)) or not isinstance(given, Iterable) else list(given))
  if array.size == 0:
    return np.zeros(0, _INT32)
  if array.dtype.kind not in "iub":
    raise TypeError(f"an action is of whole numbers, not of {array.dtype}")
  out = np.ascontiguousarray(array, _INT32)
  if not np.array_equal(out, array):
    raise ValueError("numbers of an action are of 32 bits")
  return out


def tables() -> dict[str, Any]:
  """{"envs", "policies", "metrics", "observations": [{"name", "meaning"}], "tpu_columns": [name]}."""
  with _core.Call() as call:
    call.run("env_tables")
    return json.loads(call.output())


class _Caller:
  """A call that lives as long as its owner: a step makes none of its own."""

  def __init__(self) -> None:
    self._call = _core.Call()
    self._call.__enter__()
    self.lib = _core.lib()
    self.handle = self._call._handle

  def close(self) -> None:
    if self._call is not None:
      self._call.__exit__()
      self._call = None

  def fail(self) -> None:
    self._call._tell(True)

  def run(self, name: str, *arguments: Any) -> Any:
    return self._call.run(name, *arguments)

  def json(self) -> Any:
    return json.loads(self._call.output())

  def output(self) -> bytes:
    return self._call.output()


# All addresses: views are slices of one array of each type, since a buffer for each of dozens takes longer than a step of a small
# program. Arrays of the library are aligned as their types are.
_MEMORY_FROM = 4096
_Memory = ctypes.c_char * (2**62)


class _Held:
  """Memory of the library's, which is freed when nobody holds it any more: views of it do, too."""

  def __init__(self, free: Any, handle: int):
    self._free, self.handle = free, handle

  def __del__(self) -> None:
    if _core is not None:
      self._free(self.handle)


def _check_options(options: dict[str, Any]) -> None:
  for name, value in options.items():
    if name == "seed":
      _core.whole(0 if value is None else value, "seed", *_SEED)
    elif name == "max_steps":
      _core.whole(0 if value is None else value, "max_steps")
    elif name not in _TEXTS:
      raise TypeError(f"there is no option {name!r}: {', '.join(_TEXTS)}, max_steps, seed")
    elif value is not None and not isinstance(value, str):
      raise TypeError(f"{name} is a text, not {value!r}")


class Game:
  """An environment. Options: `env` (its name), `target`, `actions` ("one", "all", "sites", "passes"), `metric`, `reward` ("delta",
  "relative", "absolute"), `observation`, `max_steps`, `seed`, passes in the place of the environment's: `first`, `pre`, `choose`,
  `post`, `menu`, and `rules`, a text (docs/env.md).

  Several threads may use one: each call waits for the one before. A copy (copy.copy, copy.deepcopy) is a fork; what pickle puts
  away is the module, the options and the game so far, without snapshots."""

  def __init__(self, module: Union[Module, Source], **options: Any):
    self._handle = None
    _check_options(options)
    self.module = as_module(module)
    self._program = os.fspath(module) if isinstance(module, (str, os.PathLike)) and "\n" not in os.fspath(module) else ""
    self._caller = _Caller()
    self._made = dict(options)
    self._handle = self._caller.run("env_new", self.module._handle, options)
    self._start(_Held(self._caller.lib.hilo_core_env_free, self._handle))

  def _start(self, held: _Held) -> None:
    self._held: _Held | None = held
    self._memory: Any = None
    self._lock = threading.RLock()
    self._away = False  # of a batch: a step of it is under way
    self.state = np.zeros(STATE)
    self._state_at = self.state.ctypes.data
    self._names: list[tuple[str, np.dtype, int]] | None = None
    self._lib = self._caller.lib
    self._step_of, self._call = self._lib.hilo_core_env_step, self._caller.handle
    self._lib.hilo_core_env_state(self._handle, self._state_at)

  @classmethod
  def _around(cls, handle: int, of: Game, held: _Held | None = None) -> Game:
    game = cls.__new__(cls)
    game.module, game._program, game._made = of.module, of._program, of._made
    game._caller, game._handle = _Caller(), handle
    game._start(held or _Held(game._caller.lib.hilo_core_env_free, handle))
    return game

  def _ready(self) -> None:
    if self._handle is None:
      raise ValueError("the environment is closed")
    if self._away:
      raise _core.Error("a step of the environment is under way, which has not been received yet", [])

  def close(self) -> None:
    if self._handle is None:
      return
    with self._lock:
      if self._handle is not None:
        self._handle = self._held = self._memory = self._names = None
        self._caller.close()

  def __del__(self) -> None:
    if getattr(self, "_handle", None) is not None and _core is not None and hasattr(self, "_held"):
      self.close()

  def __copy__(self) -> Game:
    return self.fork()

  def __deepcopy__(self, memo: Any) -> Game:
    return self.fork()

  def __reduce__(self) -> Any:
    return _again, (self.module, self._program, self._made, self.trajectory()["moves"], self.hash)

  @property
  def options(self) -> dict[str, Any]:
    with self._lock:
      self._ready()
      self._caller.run("env_options", self._handle)
      return self._caller.json()

  # --- Steps ---

  def reset(self, seed: int = 0) -> None:
    seed = _core.whole(seed, "seed", *_SEED)
    with self._lock:
      self._ready()
      if not self._lib.hilo_core_env_reset(self._call, self._handle, seed):
        self._caller.fail()
      self._lib.hilo_core_env_state(self._handle, self._state_at)

  def step(self, action: Any) -> np.ndarray:
    """An action: the state, which the next step overwrites."""
    action = numbers(action)
    with self._lock:
      self._ready()
      if not self._step_of(self._call, self._handle, action.ctypes.data, action.size, self._state_at):
        self._caller.fail()
    return self.state

  def apply(self, choices: Iterable[int]) -> np.ndarray:
    """Makes the choices of these numbers, whatever actions are like."""
    chosen = numbers(choices)
    with self._lock:
      self._ready()
      if not self._lib.hilo_core_env_apply(self._call, self._handle, chosen.ctypes.data, chosen.size, self._state_at):
        self._caller.fail()
    return self.state

  _COSTS = ("seconds", "kernels", "bytes", "flops", "instructions", "metric")

  def try_choices(self, choices: Iterable[int]) -> dict[str, float]:
    """The costs that they would lead to; the state stays."""
    chosen, out = numbers(choices), np.zeros(len(self._COSTS))
    with self._lock:
      self._ready()
      if not self._lib.hilo_core_env_try(self._call, self._handle, chosen.ctypes.data, chosen.size, out.ctypes.data):
        self._caller.fail()
    return dict(zip(self._COSTS, out.tolist()))

  def try_passes(self) -> dict[str, float]:
    """The costs to which the passes would come by themselves."""
    out = np.zeros(len(self._COSTS))
    with self._lock:
      self._ready()
      if not self._lib.hilo_core_env_try_own(self._call, self._handle, out.ctypes.data):
        self._caller.fail()
    return dict(zip(self._COSTS, out.tolist()))

  @property
  def n_choices(self) -> int:
    return int(self.state[CHOICES])

  @property
  def n_sites(self) -> int:
    return int(self.state[SITES])

  @property
  def costs(self) -> dict[str, float]:
    return dict(zip(self._COSTS, self.state[SECONDS:METRIC + 1].tolist()))

  @property
  def hash(self) -> int:
    with self._lock:
      self._ready()
      return self._lib.hilo_core_env_hash(self._handle) & (1 << 64) - 1

  def choices(self) -> list[Choice]:
    with self._lock:
      self._ready()
      self._caller.run("env_choices", self._handle)
      found = self._caller.json()
    return [Choice(c["choice"], c["site"], c["option"], c["pass"], c["rule"], c["computation"], c["instruction"],
                   c["with"], float("nan") if c["gain"] is None else c["gain"], c["before"], c["after"])
            for c in found]

  def choice_arrays(self) -> Arrays:
    """{"site", "option", "gain"} of each choice, {"sizes"} of each site: how many choices it has."""
    with self._lock:
      self._ready()
      n, sites = self.n_choices, self.n_sites
      out = {"site": np.empty(n, np.int32), "option": np.empty(n, np.int32), "gain": np.empty(n), "sizes": np.empty(sites, np.int32)}
      self._lib.hilo_core_env_choice_arrays(self._handle, *(a.ctypes.data for a in out.values()))
    return out

  def choice_nodes(self) -> tuple[np.ndarray, np.ndarray]:
    """Of each choice the nodes of the last observation that it is about: the instruction, and the other party or -1."""
    with self._lock:
      self._ready()
      inst, other = np.empty(self.n_choices, np.int32), np.empty(self.n_choices, np.int32)
      self._lib.hilo_core_env_choice_nodes(self._handle, inst.ctypes.data, other.ctypes.data)
    return inst, other

  # --- Going back, copies ---

  def snapshot(self) -> int:
    with self._lock:
      self._ready()
      n = self._lib.hilo_core_env_snapshot(self._call, self._handle)
      if n < 0:
        self._caller.fail()
    return n

  def restore(self, snapshot: int) -> None:
    snapshot = _core.whole(snapshot, "a snapshot")
    with self._lock:
      self._ready()
      if not self._lib.hilo_core_env_restore(self._call, self._handle, snapshot):
        self._caller.fail()
      self._lib.hilo_core_env_state(self._handle, self._state_at)

  def drop(self, snapshot: int) -> None:
    snapshot = _core.whole(snapshot, "a snapshot")
    with self._lock:
      self._ready()
      if not self._lib.hilo_core_env_drop(self._call, self._handle, snapshot):
        self._caller.fail()

  def fork(self) -> Game:
    with self._lock:
      self._ready()
      return Game._around(self._caller.run("env_fork", self._handle), self)

  # --- Observations ---

  def arrays(self, copy: bool = True) -> Arrays:
    """The state as arrays of the form `observation`. Without `copy` they are views that the next observation overwrites."""
    with self._lock:
      self._ready()
      n = self._lib.hilo_core_env_observe(self._call, self._handle)
      if n < 0:
        self._caller.fail()
      return self._arrays_seen(copy)

  def _arrays_seen(self, copy: bool) -> Arrays:
    if self._names is None:
      self._caller.run("env_array_names", self._handle)
      self._names = [(a["name"], np.dtype("u1" if a["dtype"] == "S1" else a["dtype"]), a["width"]) for a in self._caller.json()]
      self._places = np.empty((len(self._names), 2), np.int64)
      self._places_at = self._places.ctypes.data
      memory = _Memory.from_address(_MEMORY_FROM)
      memory.held = self._held  # as long as views are
      self._memory = [(name, np.ndarray((2**62 // dtype.itemsize,), dtype, memory), dtype.itemsize, width)
                      for name, dtype, width in self._names]
    self._lib.hilo_core_env_arrays(self._handle, self._places_at)
    out = {}
    for (name, all_of_type, size, width), (address, rows) in zip(self._memory, self._places.tolist()):
      at = (address - _MEMORY_FROM) // size
      view = all_of_type[at:at + rows * width] if rows else all_of_type[:0]
      out[name] = view if width == 1 else view.reshape(rows, width)
    return {name: view.copy() for name, view in out.items()} if copy else out

  # --- Players, results ---

  def play(self, policy: str, **options: int) -> dict[str, float]:
    """Lets a player play from here: {"tries", "first", "last"}. Options: `tries`, `width`, `depth`, `seed`."""
    options = _core.wholes(options, tries=0, width=0, depth=0, seed=_SEED[0])
    with self._lock:
      self._ready()
      try:
        self._caller.run("env_play", self._handle, _core.text(policy), options)
        return self._caller.json()
      finally:
        self._lib.hilo_core_env_state(self._handle, self._state_at)

  def result(self, last: str = "") -> Module:
    """The module as it is, with passes run on it."""
    with self._lock:
      self._ready()
      return Module._of(self._caller.run("env_module", self._handle, _core.text(last)))

  def _trajectory(self, program: bytes) -> bytes:
    with self._lock:
      self._ready()
      self._caller.run("env_trajectory", self._handle, self.module._handle, program)
      return self._caller.output()

  def trajectory(self) -> dict[str, Any]:
    """The game so far, as files hold it that `hilo replay` plays again."""
    return json.loads(self._trajectory(os.fsencode(self._program)))

  def record(self, path: Union[str, os.PathLike[str]]) -> None:
    text = self._trajectory(os.fsencode(os.path.abspath(self._program)) if self._program else b"")
    with open(path, "wb") as f:
      f.write(text)


def _again(module: Module, program: str, options: dict[str, Any], moves: list[dict[str, Any]], state: int) -> Game:
  """The game that was pickled, played again."""
  game = Game(module, **options)
  game._program = program
  for move in moves:
    with game._lock:
      name, arguments = "env_apply", numbers(move["choices"])
      if move.get("stop") or move.get("own"):
        name = "env_stop" if move.get("stop") else "env_apply_own"
        ok = getattr(game._lib, "hilo_core_" + name)(game._call, game._handle, game._state_at)
      else:
        ok = game._lib.hilo_core_env_apply(game._call, game._handle, arguments.ctypes.data, arguments.size, game._state_at)
      if not ok:
        game._caller.fail()
  if game.hash != state:
    raise ValueError("the game that was pickled comes to another state here")
  return game


class Games:
  """Many environments of one module, played at once by threads of the library.

  Threads of Python may use one, and send while another receives."""

  def __init__(self, game: Game, n: int, *, threads: int = 0, seed: int = 0):
    self._handle = None
    n = _core.whole(n, "the number of environments", 1)
    options = {"threads": _core.whole(threads, "threads"), "seed": _core.whole(seed, "seed", *_SEED)}
    self._caller = _Caller()
    self._lib, self._call = self._caller.lib, self._caller.handle
    self._sends, self._receives = threading.RLock(), threading.RLock()
    self._process = os.getpid()
    with game._lock:
      game._ready()
      self._handle = self._caller.run("batch_new", game._handle, n, options)
    self._held: _Held | None = _Held(self._lib.hilo_core_batch_free, self._handle)
    self.games = [Game._around(self._lib.hilo_core_batch_env(self._handle, k), game, self._held) for k in range(n)]
    self.states = np.zeros((n, STATE))
    for k, one in enumerate(self.games):
      self.states[k] = one.state
    self._n = n

  def _ready(self) -> None:
    if self._handle is None:
      raise ValueError("the environments are closed")
    if os.getpid() != self._process:
      raise RuntimeError("the environments' threads are of the process that made them: make others after fork()")

  def close(self) -> None:
    if self._handle is None:
      return
    with self._sends, self._receives:
      if self._handle is not None:
        for game in self.games:
          with game._lock:
            game._handle = game._held = game._memory = game._names = None
            game._caller.close()
        self._handle = self._held = None
        self._caller.close()

  def __del__(self) -> None:
    if getattr(self, "_handle", None) is not None and _core is not None and hasattr(self, "_n"):
      self.close()

  def __reduce__(self) -> Any:
    raise TypeError("environments that threads play cannot be pickled or copied")

  def step(self, actions: Any) -> np.ndarray:
    """A step of each, actions being rows of whole numbers: the states, of which the next step makes others."""
    rows = numbers(actions)
    if rows.ndim == 0 or len(rows) != self._n:
      raise ValueError(f"expected an action for each of {self._n} environments, not {rows.shape}")
    rows = rows.reshape(self._n, -1)
    with self._sends, self._receives:
      self._ready()
      ok = self._lib.hilo_core_batch_step(self._call, self._handle, rows.ctypes.data, rows.shape[1], self.states.ctypes.data)
      for k, game in enumerate(self.games):
        game.state[:] = self.states[k]
      if not ok:
        self._caller.fail()
    return self.states

  def _send(self, k: int, action: np.ndarray, n: int) -> None:
    k = _core.whole(k, "the number of an environment")
    with self._sends:
      self._ready()
      game = self.games[k] if k < self._n else None
      with game._lock if game else self._sends:
        if not self._lib.hilo_core_batch_send(self._call, self._handle, k, action.ctypes.data, n):
          self._caller.fail()
        self.games[k]._away = True

  def send(self, k: int, action: Any) -> None:
    action = numbers(action)
    self._send(k, action, action.size)

  def reset(self, k: int, seed: int) -> None:
    """Asks for another game of one."""
    bits = _core.whole(seed, "seed", *_SEED) & (1 << 64) - 1
    self._send(k, np.array([bits & 0xffffffff, bits >> 32], np.uint32).view(np.int32), -2)

  def waiting(self) -> list[int]:
    """Those that were asked and have not been received."""
    return [k for k, game in enumerate(self.games) if game._away]

  def receive(self, most: int) -> list[int]:
    """Which are ready, as soon as so many are (or all that were asked). Their states are in `states`. Where a step went wrong, the
    error is raised when all have been received; the next step of that one begins another game."""
    most = min(_core.whole(most, "how many to receive"), self._n)
    envs = np.empty(max(most, 1), np.int32)
    with self._receives:
      self._ready()
      which = envs[:self._lib.hilo_core_batch_receive(self._handle, most, envs.ctypes.data)].tolist()
      errors = []
      for k in which:
        error = self._lib.hilo_core_batch_error(self._handle, k)
        if error:
          errors.append(f"environment {k}: {error.decode()}")
        else:
          self._lib.hilo_core_batch_state(self._handle, k, self.states[k].ctypes.data)
          self.games[k].state[:] = self.states[k]
        self.games[k]._away = False
    if errors:
      raise _core.Error("\n".join(errors), [])
    return which


def observe(module: Union[Module, Source], form: str = "tpugraphs-v1") -> Arrays:
  """A module as the arrays of a form, without an environment."""
  m = as_module(module)
  caller = _Caller()
  handle = None
  try:
    handle = caller.run("observe", m._handle, _core.text(form))
    seen = Game.__new__(Game)
    seen._caller, seen._handle, seen._held, seen._lib, seen._names = caller, handle, None, caller.lib, None
    arrays = seen._arrays_seen(True)
    seen._handle = None
    return arrays
  finally:
    caller.lib.hilo_core_env_free(handle)
    caller.close()


def generate(seed: int, *, instructions: int = 40, parameters: int = 3, size: int = 64, loops: bool = False) -> Module:
  """A random module that is valid and runs; the same seed gives the same one everywhere."""
  options = _core.wholes({"seed": seed, "instructions": instructions, "parameters": parameters, "size": size},
                         seed=_SEED[0], instructions=0, parameters=0, size=0)
  with _core.Call() as call:
    return Module._of(call.run("generate", {**options, "loops": bool(loops)}))


def replay(path: Union[str, os.PathLike[str]], module: Union[Module, Source, None] = None) -> dict[str, Any]:
  """Plays a recorded game again: {"same", "moves", "of", "differs", "what", "measured"}."""
  m = None if module is None else as_module(module)
  with _core.Call() as call:
    call.run("env_replay", _core.text(path), None if m is None else m._handle)
    return json.loads(call.output())


def validate(before: Union[Module, Source], after: Union[Module, Source], *, inputs: int = 3, seed: int = 0) -> dict[str, Any]:
  """Whether all results of both are the same on several inputs, by the interpreter: {"equal", "inputs", "silent", "input",
  "leaf", "expected", "actual"}. Of `silent` results no input gave a finite value: that they are equal says nothing."""
  a, b = as_module(before), as_module(after)  # which must live as long as the call
  options = {"inputs": _core.whole(inputs, "inputs", 1), "seed": _core.whole(seed, "seed", *_SEED)}
  with _core.Call() as call:
    call.run("validate", a._handle, b._handle, options)
    return json.loads(call.output())


def measure(module: Union[Module, Source], **options: int) -> dict[str, float]:
  """Seconds of a run on this processor, measured in a process of its own: {"median", "low", "high" (95% of the median), "mean",
  "best", "compile", "runs"}. Options: `warm_up`, `runs`, `threads`, `seconds`, `seed`."""
  m = as_module(module)
  options = _core.wholes(options, warm_up=0, runs=0, threads=0, seconds=0, seed=_SEED[0])
  with _core.Call() as call:
    call.run("measure", m._handle, options)
    return json.loads(call.output())
