"""One environment, or many, of the C library: what hilo.env is made of, without Gymnasium."""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np

from hilo import _core
from hilo.module import Module, Source

STATE = 16  # HILO_ENV_STATE of core.h
(REWARD, TERMINATED, TRUNCATED, REPEATED, APPLIED, CHOICES, SITES, SECONDS, KERNELS, BYTES, FLOPS, INSTRUCTIONS, METRIC,
 MOVES, DONE, FIRST_METRIC) = range(STATE)
Arrays = dict[str, np.ndarray]


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


class Game:
  """An environment. Options: `env` (its name), `target`, `actions` ("one", "all", "sites", "passes"), `metric`, `reward` ("delta",
  "relative", "absolute"), `observation`, `max_steps`, `seed`, passes in the place of the environment's: `first`, `pre`, `choose`,
  `post`, `menu`, and `rules`, a text (docs/env.md)."""

  def __init__(self, module: Union[Module, Source], **options: Any):
    self.module = as_module(module)
    self._program = os.fspath(module) if isinstance(module, (str, os.PathLike)) and "\n" not in os.fspath(module) else ""
    self._caller = _Caller()
    self._handle = None
    self._handle = self._caller.run("env_new", self.module._handle, options)
    self._start(owner=None)

  def _start(self, owner: Any) -> None:
    self._owner = owner  # who frees the handle, or what it rests on
    self.state = np.zeros(STATE)
    self._state_at = self.state.ctypes.data
    self._names: list[tuple[str, np.dtype, int]] | None = None
    self._lib = self._caller.lib
    self._step_of, self._call = self._lib.hilo_core_env_step, self._caller.handle
    self._lib.hilo_core_env_state(self._handle, self._state_at)

  @classmethod
  def _around(cls, handle: int, module: Module, program: str, owner: Any) -> Game:
    game = cls.__new__(cls)
    game.module, game._program = module, program
    game._caller, game._handle = _Caller(), handle
    game._start(owner)
    return game

  def close(self) -> None:
    if self._handle is not None:
      self._lib.hilo_core_env_free(self._handle)
      self._handle = None
      self._caller.close()

  def __del__(self) -> None:
    if getattr(self, "_handle", None) is not None and _core is not None:
      self.close()

  @property
  def options(self) -> dict[str, Any]:
    self._caller.run("env_options", self._handle)
    return self._caller.json()

  # --- Steps ---

  def reset(self, seed: int = 0) -> None:
    if not self._lib.hilo_core_env_reset(self._call, self._handle, seed):
      self._caller.fail()
    self._lib.hilo_core_env_state(self._handle, self._state_at)

  def step(self, action: np.ndarray) -> np.ndarray:
    """An action as int32: the state, which the next step overwrites."""
    if not self._step_of(self._call, self._handle, action.ctypes.data, action.size, self._state_at):
      self._caller.fail()
    return self.state

  def apply(self, choices: Iterable[int]) -> np.ndarray:
    """Makes the choices of these numbers, whatever actions are like."""
    chosen = np.fromiter(choices, np.int32)
    if not self._lib.hilo_core_env_apply(self._call, self._handle, chosen.ctypes.data, chosen.size, self._state_at):
      self._caller.fail()
    return self.state

  _COSTS = ("seconds", "kernels", "bytes", "flops", "instructions", "metric")

  def try_choices(self, choices: Iterable[int]) -> dict[str, float]:
    """The costs that they would lead to; the state stays."""
    chosen, out = np.fromiter(choices, np.int32), np.zeros(len(self._COSTS))
    if not self._lib.hilo_core_env_try(self._call, self._handle, chosen.ctypes.data, chosen.size, out.ctypes.data):
      self._caller.fail()
    return dict(zip(self._COSTS, out.tolist()))

  def try_passes(self) -> dict[str, float]:
    """The costs to which the passes would come by themselves."""
    out = np.zeros(len(self._COSTS))
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
    return self._lib.hilo_core_env_hash(self._handle) & (1 << 64) - 1

  def choices(self) -> list[Choice]:
    self._caller.run("env_choices", self._handle)
    return [Choice(c["choice"], c["site"], c["option"], c["pass"], c["rule"], c["computation"], c["instruction"],
                   c["with"], float("nan") if c["gain"] is None else c["gain"], c["before"], c["after"])
            for c in self._caller.json()]

  def choice_arrays(self) -> Arrays:
    """{"site", "option", "gain"} of each choice, {"sizes"} of each site: how many choices it has."""
    n, sites = self.n_choices, self.n_sites
    out = {"site": np.empty(n, np.int32), "option": np.empty(n, np.int32), "gain": np.empty(n), "sizes": np.empty(sites, np.int32)}
    self._lib.hilo_core_env_choice_arrays(self._handle, *(a.ctypes.data for a in out.values()))
    return out

  def choice_nodes(self) -> tuple[np.ndarray, np.ndarray]:
    """Of each choice the nodes of the last observation that it is about: the instruction, and the other party or -1."""
    inst, other = np.empty(self.n_choices, np.int32), np.empty(self.n_choices, np.int32)
    self._lib.hilo_core_env_choice_nodes(self._handle, inst.ctypes.data, other.ctypes.data)
    return inst, other

  # --- Going back, copies ---

  def snapshot(self) -> int:
    n = self._lib.hilo_core_env_snapshot(self._call, self._handle)
    if n < 0:
      self._caller.fail()
    return n

  def restore(self, snapshot: int) -> None:
    if not self._lib.hilo_core_env_restore(self._call, self._handle, snapshot):
      self._caller.fail()
    self._lib.hilo_core_env_state(self._handle, self._state_at)

  def drop(self, snapshot: int) -> None:
    if not self._lib.hilo_core_env_drop(self._call, self._handle, snapshot):
      self._caller.fail()

  def fork(self) -> Game:
    return Game._around(self._caller.run("env_fork", self._handle), self.module, self._program, self)

  # --- Observations ---

  def arrays(self, copy: bool = True) -> Arrays:
    """The state as arrays of the form `observation`. Without `copy` they are views that the next observation overwrites."""
    n = self._lib.hilo_core_env_observe(self._call, self._handle)
    if n < 0:
      self._caller.fail()
    return self._arrays_seen(copy)

  def _arrays_seen(self, copy: bool) -> Arrays:
    if self._names is None:
      self._caller.run("env_array_names", self._handle)
      self._names = [(a["name"], np.dtype("u1" if a["dtype"] == "S1" else a["dtype"]), a["width"]) for a in self._caller.json()]
    at = np.empty((len(self._names), 2), np.int64)
    self._lib.hilo_core_env_arrays(self._handle, at.ctypes.data)
    out = {}
    for (name, dtype, width), (address, rows) in zip(self._names, at.tolist()):
      shape = (rows,) if width == 1 else (rows, width)
      size = rows * width * dtype.itemsize
      if size == 0:
        out[name] = np.empty(shape, dtype)
        continue
      view = np.ndarray(shape, dtype, (ctypes.c_char * size).from_address(address))
      out[name] = view.copy() if copy else view
    return out

  # --- Players, results ---

  def play(self, policy: str, **options: int) -> dict[str, float]:
    """Lets a player play from here: {"tries", "first", "last"}. Options: `tries`, `width`, `depth`, `seed`."""
    self._caller.run("env_play", self._handle, policy.encode(), options)
    out = self._caller.json()
    self._lib.hilo_core_env_state(self._handle, self._state_at)
    return out

  def result(self, last: str = "") -> Module:
    """The module as it is, with passes run on it."""
    return Module._of(self._caller.run("env_module", self._handle, last.encode()))

  def trajectory(self) -> dict[str, Any]:
    """The game so far, as files hold it that `hilo replay` plays again."""
    self._caller.run("env_trajectory", self._handle, self.module._handle, self._program.encode())
    return self._caller.json()

  def record(self, path: Union[str, os.PathLike[str]]) -> None:
    self._caller.run("env_trajectory", self._handle, self.module._handle, os.path.abspath(self._program).encode() if self._program else b"")
    with open(path, "wb") as f:
      f.write(self._caller.output())


class Games:
  """Many environments of one module, played at once by threads of the library."""

  def __init__(self, game: Game, n: int, *, threads: int = 0, seed: int = 0):
    self._caller = _Caller()
    self._lib, self._call = self._caller.lib, self._caller.handle
    self._handle = None
    self._handle = self._caller.run("batch_new", game._handle, n, {"threads": threads, "seed": seed})
    self._game = game
    self.games = [Game._around(self._lib.hilo_core_batch_env(self._handle, k), game.module, game._program, self)
                  for k in range(n)]
    self.states = np.zeros((n, STATE))
    for k, one in enumerate(self.games):
      self.states[k] = one.state
    self._n = n

  def close(self) -> None:
    if self._handle is not None:
      self._lib.hilo_core_batch_free(self._handle)
      self._handle = None
      for game in self.games:
        game._handle = None
        game._caller.close()
      self._caller.close()

  def __del__(self) -> None:
    if getattr(self, "_handle", None) is not None and _core is not None:
      self.close()

  def step(self, actions: np.ndarray) -> np.ndarray:
    """A step of each, actions being rows of int32: the states, of which the next step makes others."""
    actions = np.ascontiguousarray(actions, np.int32).reshape(self._n, -1)
    if not self._lib.hilo_core_batch_step(self._call, self._handle, actions.ctypes.data, actions.shape[1],
                                          self.states.ctypes.data):
      self._caller.fail()
    for k, game in enumerate(self.games):
      game.state[:] = self.states[k]
    return self.states

  def send(self, k: int, action: Union[np.ndarray, Sequence[int]]) -> None:
    action = np.ascontiguousarray(action, np.int32)
    if not self._lib.hilo_core_batch_send(self._call, self._handle, k, action.ctypes.data, action.size):
      self._caller.fail()

  def reset(self, k: int, seed: int) -> None:
    """Asks for another game of one."""
    if not self._lib.hilo_core_batch_send(self._call, self._handle, k, np.array([seed & 0x7fffffff], np.int32).ctypes.data, -1):
      self._caller.fail()

  def receive(self, most: int) -> list[int]:
    """Which are ready, as soon as so many are (or all that were asked). Their states are in `states`."""
    envs = np.empty(max(most, 1), np.int32)
    n = self._lib.hilo_core_batch_receive(self._call, self._handle, most, envs.ctypes.data)
    for k in envs[:n].tolist():
      error = self._lib.hilo_core_batch_error(self._handle, k)
      if error:
        raise _core.Error(error.decode(), [])
      self._lib.hilo_core_batch_state(self._handle, k, self.states[k].ctypes.data)
      self.games[k].state[:] = self.states[k]
    return envs[:n].tolist()


def observe(module: Union[Module, Source], form: str = "tpugraphs-v1") -> Arrays:
  """A module as the arrays of a form, without an environment."""
  m = as_module(module)
  caller = _Caller()
  handle = caller.run("observe", m._handle, form.encode())
  try:
    seen = Game.__new__(Game)
    seen._caller, seen._handle, seen._lib, seen._names = caller, handle, caller.lib, None
    arrays = seen._arrays_seen(True)
    seen._handle = None
    return arrays
  finally:
    caller.lib.hilo_core_env_free(handle)
    caller.close()


def generate(seed: int, *, instructions: int = 40, parameters: int = 3, size: int = 64, loops: bool = False) -> Module:
  """A random module that is valid and runs; the same seed gives the same one everywhere."""
  with _core.Call() as call:
    return Module._of(call.run("generate", {"seed": seed, "instructions": instructions, "parameters": parameters,
                                            "size": size, "loops": loops}))


def replay(path: Union[str, os.PathLike[str]], module: Union[Module, Source, None] = None) -> dict[str, Any]:
  """Plays a recorded game again: {"same", "moves", "of", "differs", "what", "measured"}."""
  m = None if module is None else as_module(module)
  with _core.Call() as call:
    call.run("env_replay", os.fsencode(path), None if m is None else m._handle)
    return json.loads(call.output())


def validate(before: Union[Module, Source], after: Union[Module, Source], *, inputs: int = 3, seed: int = 0) -> dict[str, Any]:
  """Whether all results of both are the same on several inputs, by the interpreter: {"equal", "inputs", "input", "leaf",
  "expected", "actual"}."""
  a, b = as_module(before), as_module(after)  # which must live as long as the call
  with _core.Call() as call:
    call.run("validate", a._handle, b._handle, {"inputs": inputs, "seed": seed})
    return json.loads(call.output())


def measure(module: Union[Module, Source], **options: int) -> dict[str, float]:
  """Seconds of a run on this processor, measured in a process of its own: {"median", "low", "high" (95% of the median), "mean",
  "best", "compile", "runs"}. Options: `warm_up`, `runs`, `threads`, `seconds`, `seed`."""
  m = as_module(module)
  with _core.Call() as call:
    call.run("measure", m._handle, options)
    return json.loads(call.output())
