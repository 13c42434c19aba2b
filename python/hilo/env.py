"""Rewriting as an environment of Gymnasium.

    import gymnasium, hilo.env
    env = gymnasium.make("hilo/GpuFusion-v1", module="m.hlo")
    obs, info = env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))

`Env` is one environment, `VectorEnv` many that threads of the library play; `Game`, below both, needs no Gymnasium
(`hilo.games`).
"""
from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from typing import Any, Union

import numpy as np

try:
  import gymnasium
  from gymnasium import spaces
except ImportError as e:
  raise ImportError("hilo.env needs Gymnasium: pip install gymnasium") from e

from hilo import _core, _game
from hilo._game import Choice, Game, Games, measure, replay, tables, validate
from hilo.module import Module, Source

__all__ = ["Arrays", "Choice", "Env", "Game", "Games", "VectorEnv", "measure", "replay", "tables", "to_dgl", "to_jraph",
           "to_pyg", "to_torch", "validate"]

ArrayDict = dict[str, np.ndarray]


class Arrays(spaces.Space):
  """Named arrays, of which the number of rows is not known beforehand: what the forms of observations are."""

  def __init__(self, names: dict[str, tuple[str, int]], seed: int | None = None):
    self.names = dict(names)
    super().__init__(None, None, seed)

  def contains(self, x: Any) -> bool:
    return isinstance(x, dict) and x.keys() == self.names.keys() and all(
        isinstance(a, np.ndarray) and a.dtype == np.dtype(dtype) and a.shape[1:] == ((width,) if width > 1 else ())
        for a, (dtype, width) in zip(x.values(), self.names.values()))

  def sample(self, mask: Any = None, probability: Any = None) -> ArrayDict:
    return {name: np.zeros((0, width) if width > 1 else (0,), dtype) for name, (dtype, width) in self.names.items()}

  @property
  def is_np_flattenable(self) -> bool:
    return False

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Arrays) and self.names == other.names

  def __repr__(self) -> str:
    return f"Arrays({len(self.names)} arrays)"


class _Sides:
  """What one environment and many share: spaces, masks, the small observation."""

  def __init__(self, game: Game, observation: str, max_choices: int, max_sites: int, max_options: int):
    self.actions = game.options["actions"]
    self.observation = observation
    self.max_choices, self.max_sites, self.max_options = max_choices, max_sites, max_options
    if self.actions == "passes":
      self.max_choices = game.n_choices
    self.action_space = self._action_space()
    self.observation_space = self._observation_space(game)

  def _action_space(self) -> spaces.Space:
    if self.actions in ("one", "passes"):
      return spaces.Discrete(self.max_choices + 1)
    if self.actions == "all":
      return spaces.MultiBinary(self.max_choices)
    return spaces.MultiDiscrete([self.max_options + 1] * self.max_sites)

  def _observation_space(self, game: Game) -> spaces.Space:
    if self.observation != "summary":
      game.arrays()
      return Arrays({name: (dtype.str.lstrip("<|="), width) for name, dtype, width in game._names or []})
    inf = np.inf
    return spaces.Dict({
        "costs": spaces.Box(0, inf, (6,), np.float32),
        "gain": spaces.Box(-inf, inf, (self.max_choices,), np.float32),
        "known": spaces.Box(0, 1, (self.max_choices,), np.int8),
        "site": spaces.Box(-1, 2**31 - 1, (self.max_choices,), np.int32),
    })

  def observe(self, game: Game, copy: bool) -> ArrayDict:
    return self._summary(game) if self.observation == "summary" else game.arrays(copy)

  # Gains in parts of what the state costs, so that programs of all sizes look alike.
  def _summary(self, game: Game) -> ArrayDict:
    n = min(game.n_choices, self.max_choices)
    gain, known = np.zeros(self.max_choices, np.float32), np.zeros(self.max_choices, np.int8)
    site = np.full(self.max_choices, -1, np.int32)
    if n:
      arrays = game.choice_arrays()
      known[:n] = ~np.isnan(arrays["gain"][:n])
      gain[:n] = np.nan_to_num(arrays["gain"][:n]) / max(game.state[_game.SECONDS], 1e-30)
      site[:n] = arrays["site"][:n]
    costs = np.log1p(game.state[_game.SECONDS:_game.METRIC + 1]).astype(np.float32)
    return {"costs": costs, "gain": gain, "known": known, "site": site}

  def mask(self, game: Game) -> Any:
    """Which actions there are now, as the space's `sample` takes it. The last of one choice is to stop."""
    n = min(game.n_choices, self.max_choices)
    if self.actions in ("one", "passes"):
      mask = np.zeros(self.max_choices + 1, np.int8)
      mask[:n] = mask[-1] = 1
      return mask
    if self.actions == "all":
      mask = np.zeros(self.max_choices, np.int8)
      mask[:n] = 2  # 0 or 1; the others are 0
      return mask
    sizes = game.choice_arrays()["sizes"][:self.max_sites]
    mask = np.zeros((self.max_sites, self.max_options + 1), np.int8)
    mask[:, 0] = 1
    for k, size in enumerate(sizes.tolist()):
      mask[k, :size + 1] = 1
    return tuple(mask)

  def action(self, game: Game, action: Any) -> np.ndarray | None:
    """As the library takes it; what of the space there is no choice for chooses nothing (None: nothing at all). What is not of
    the space is an error."""
    if self.actions in ("one", "passes"):
      k = _core.whole(action.item() if isinstance(action, np.ndarray) and action.size == 1 else action, "an action", 0,
                      self.max_choices)
      if k == self.max_choices:
        return np.array([game.n_choices], np.int32)
      return np.array([k], np.int32) if k < game.n_choices else None
    given = _game.numbers(action)
    size, most = (self.max_choices, 1) if self.actions == "all" else (self.max_sites, self.max_options)
    if given.shape != (size,):
      raise ValueError(f"an action has {size} numbers, not {given.shape}")
    if given.min() < 0 or given.max() > most:
      raise ValueError(f"numbers of an action are from 0 to {most}")
    wanted = game.n_choices if self.actions == "all" else game.n_sites
    out = np.zeros(wanted, np.int32)
    n = min(wanted, size)
    out[:n] = given[:n]
    if self.actions == "sites" and n:
      sizes = game.choice_arrays()["sizes"][:n]
      out[:n][out[:n] > sizes] = 0
    return out


def _info(game: Game, sides: _Sides) -> dict[str, Any]:
  s = game.state
  return {"action_mask": sides.mask(game), "n_choices": int(s[_game.CHOICES]), "applied": int(s[_game.APPLIED]),
          "repeated": bool(s[_game.REPEATED]), "metric": float(s[_game.METRIC])}


class Env(gymnasium.Env):
  """An environment of a module (a hilo.Module, or what hilo.Module takes).

  `env` is its name (tables()["envs"]), `observation` "summary" or a form (tables()["observations"]); `max_choices`, `max_sites`
  and `max_options` are the sizes of the spaces: what a state has beyond cannot be chosen. With `copy=False` arrays of a
  form are views that the next step overwrites. Other options: `target`, `actions`, `metric`, `reward`, `max_steps`, and
  passes `first`, `pre`, `choose`, `post`, `menu`, and `rules`, a text (hilo.games.Game).
  """
  metadata = {"render_modes": ["ansi"]}

  def __init__(self, module: Union[Module, Source], env: str = "simplify", *, observation: str = "summary",
               max_choices: int = 256, max_sites: int = 128, max_options: int = 8, copy: bool = True,
               render_mode: str | None = None, **options: Any):
    form = None if observation == "summary" else observation
    self.game = Game(module, env=env, observation=form, **options)
    self._sides = _Sides(self.game, observation, max_choices, max_sites, max_options)
    self.action_space, self.observation_space = self._sides.action_space, self._sides.observation_space
    self._copy, self.render_mode = copy, render_mode

  def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ArrayDict, dict[str, Any]]:
    super().reset(seed=seed)
    self.game.reset(int(self.np_random.integers(2**62)) if seed is None else seed)
    return self._sides.observe(self.game, self._copy), _info(self.game, self._sides)

  def step(self, action: Any) -> tuple[ArrayDict, float, bool, bool, dict[str, Any]]:
    given = self._sides.action(self.game, action)
    s = self.game.apply(()) if given is None else self.game.step(given)
    reward, terminated, truncated = float(s[_game.REWARD]), bool(s[_game.TERMINATED]), bool(s[_game.TRUNCATED])
    return self._sides.observe(self.game, self._copy), reward, terminated, truncated, _info(self.game, self._sides)

  def action_masks(self) -> Any:
    """The mask of now; of one choice as booleans."""
    mask = self._sides.mask(self.game)
    return mask.astype(bool) if isinstance(mask, np.ndarray) else mask

  def render(self) -> str | None:
    return self.game.result().to_string("short") if self.render_mode == "ansi" else None

  def close(self) -> None:
    self.game.close()

  # --- Beyond Gymnasium ---

  def snapshot(self) -> int:
    """A number by which `restore` comes back to this state, any number of times. Snapshots nest: going back to one drops those
    taken later."""
    return self.game.snapshot()

  def restore(self, snapshot: int) -> None:
    self.game.restore(snapshot)

  def fork(self) -> Env:
    """Another environment in the same state."""
    fork = Env.__new__(Env)
    fork.game = self.game.fork()
    fork._sides, fork._copy, fork.render_mode = self._sides, self._copy, self.render_mode
    fork.action_space, fork.observation_space = copy.deepcopy((self.action_space, self.observation_space))
    fork._np_random, fork._np_random_seed = copy.deepcopy(self._np_random), self._np_random_seed
    return fork

  def __copy__(self) -> Env:
    return self.fork()

  def __deepcopy__(self, memo: Any) -> Env:
    return self.fork()

  def choices(self) -> list[Choice]:
    return self.game.choices()

  def play(self, policy: str, **options: int) -> dict[str, float]:
    return self.game.play(policy, **options)

  def module(self, last: str = "") -> Module:
    return self.game.result(last)

  def record(self, path: Union[str, os.PathLike[str]]) -> None:
    self.game.record(path)

  def validate(self, inputs: int = 3, seed: int = 0) -> dict[str, Any]:
    """Whether the module gives the results that it gave at first."""
    return validate(self.game.module, self.game.result(), inputs=inputs, seed=seed)


class VectorEnv(gymnasium.vector.VectorEnv):
  """`num_envs` environments of a module, played by threads of the library, in which Python's lock is not held. A game that has
  ended is followed by another in the next step, whose action is not looked at. `send` and `receive` do not wait for all.
  """
  metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP, "render_modes": []}

  def __init__(self, module: Union[Module, Source], env: str = "simplify", num_envs: int = 1, *, threads: int = 0,
               observation: str = "summary", max_choices: int = 256, max_sites: int = 128, max_options: int = 8,
               seed: int = 0, **options: Any):
    num_envs = _core.whole(num_envs, "num_envs", 1)
    form = None if observation == "summary" else observation
    self._first = Game(module, env=env, observation=form, **options)
    self._sides = _Sides(self._first, observation, max_choices, max_sites, max_options)
    self.num_envs = num_envs
    self.single_action_space, self.single_observation_space = self._sides.action_space, self._sides.observation_space
    self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
    self.observation_space = (gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
                              if observation == "summary" else spaces.Tuple([self.single_observation_space] * num_envs))
    self.games = Games(self._first, num_envs, threads=threads, seed=seed)

  def _observe(self) -> Any:
    one = [self._see(game) for game in self.games.games]
    if self._sides.observation != "summary":
      return tuple(one)
    return {key: np.stack([o[key] for o in one]) for key in one[0]}

  def _see(self, game: Game) -> ArrayDict:  # the library's threads have observed
    return self._sides.observe(game, True) if self._sides.observation == "summary" else game._arrays_seen(True)

  def _infos(self) -> dict[str, Any]:
    s = self.games.states
    masks = [self._sides.mask(game) for game in self.games.games]
    return {"action_mask": np.stack(masks) if isinstance(masks[0], np.ndarray) else masks,
            "n_choices": s[:, _game.CHOICES].astype(np.int64), "applied": s[:, _game.APPLIED].astype(np.int64),
            "metric": s[:, _game.METRIC].copy()}

  def reset(self, *, seed: Union[int, list[int | None], None] = None,
            options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    if seed is None or hasattr(seed, "__index__"):
      super().reset(seed=seed)
      first = int(self.np_random.integers(2**30)) if seed is None else _core.whole(seed, "seed", 0, 2**62)
      seeds = [first + k for k in range(self.num_envs)]
    else:
      seeds = [int(self.np_random.integers(2**30)) if s is None else _core.whole(s, "seed", 0, 2**62) for s in seed]
    if len(seeds) != self.num_envs:
      raise ValueError(f"expected {self.num_envs} seeds, not {len(seeds)}")
    try:  # what is under way, and of no interest any more
      self.games.receive(self.num_envs)
    except _core.Error:
      pass
    for k, one in enumerate(seeds):
      self.games.reset(k, one)
    self.games.receive(self.num_envs)
    return self._observe(), self._infos()

  def _row(self, k: int, action: Any) -> np.ndarray:
    given = self._sides.action(self.games.games[k], action)
    return np.zeros(0, np.int32) if given is None else given  # what there is no choice for chooses nothing

  def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    if len(actions) != self.num_envs:
      raise ValueError(f"expected {self.num_envs} actions, not {len(actions)}")
    self.send(actions, range(self.num_envs))
    self.games.receive(self.num_envs)
    s = self.games.states
    return (self._observe(), s[:, _game.REWARD].copy(), s[:, _game.TERMINATED] != 0, s[:, _game.TRUNCATED] != 0,
            self._infos())

  def send(self, actions: Any, envs: Iterable[int]) -> None:
    """Asks some environments for a step: all of them, or, where something is wrong, none."""
    which = [_core.whole(k, "the number of an environment", 0, self.num_envs - 1) for k in envs]
    actions = list(actions)
    if len(actions) != len(which) or len(set(which)) != len(which):
      raise ValueError(f"expected an action for each of some environments, not {len(actions)} for {which}")
    self.games._ready()
    for k in which:
      self.games.games[k]._ready()
    rows = [self._row(k, action) for k, action in zip(which, actions)]
    for k, row in zip(which, rows):
      self.games.send(k, row)

  def receive(self, most: int) -> tuple[list[int], list[ArrayDict], np.ndarray, np.ndarray, np.ndarray]:
    """Waits until so many of those asked are ready: which, observations, rewards, terminated, truncated."""
    which = self.games.receive(most)
    s = self.games.states[which]
    return (which, [self._see(self.games.games[k]) for k in which], s[:, _game.REWARD], s[:, _game.TERMINATED] != 0,
            s[:, _game.TRUNCATED] != 0)

  def close_extras(self, **kwargs: Any) -> None:
    self.games.close()
    self._first.close()


# --- Other libraries' graphs ---


def _graph(arrays: ArrayDict) -> tuple[np.ndarray, np.ndarray]:
  """Rows of numbers of each node, and edges as two rows: from, to."""
  if "node_feat" in arrays:
    nodes = np.concatenate([arrays["node_opcode"][:, None].astype(np.float32), arrays["node_feat"]], axis=1)
    return nodes, np.ascontiguousarray(arrays["edge_index"][:, ::-1].T)
  if "edge_src" in arrays:
    nodes = [a.reshape(len(a), -1).astype(np.float32) for name, a in arrays.items() if name.startswith("node_")]
    return np.concatenate(nodes, axis=1), np.stack([arrays["edge_src"], arrays["edge_dst"]]).astype(np.int64)
  n = len(arrays["node_uids"])
  columns = ("gids", "num_users", "num_operands", "opcodes", "is_alternative", "is_in_fusion", "in_tensor_sizes",
             "out_tensor_sizes", "has_max_in_tensor", "has_max_out_tensor", "normalized_num_group_inst")
  nodes = [arrays["node_" + c].reshape(n, 1).astype(np.float32) for c in columns]
  return np.concatenate(nodes, axis=1), np.stack([arrays["in_edge_srcs"], arrays["in_edge_dsts"]]).astype(np.int64)


def to_pyg(arrays: ArrayDict) -> Any:
  """A torch_geometric.data.Data of an observation: x, edge_index (from, to), and every array under its name."""
  import torch
  from torch_geometric.data import Data
  x, edges = _graph(arrays)
  fields = {"tpu_edge_index" if name == "edge_index" else name: a for name, a in to_torch(arrays).items()}
  return Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges), **fields)


def to_dgl(arrays: ArrayDict) -> Any:
  """A graph of DGL; nodes have "x"."""
  import dgl
  import torch
  x, edges = _graph(arrays)
  graph = dgl.graph((torch.from_numpy(edges[0]), torch.from_numpy(edges[1])), num_nodes=len(x))
  graph.ndata["x"] = torch.from_numpy(x)
  return graph


def to_jraph(arrays: ArrayDict) -> Any:
  """A jraph.GraphsTuple of one graph."""
  import jraph
  x, edges = _graph(arrays)
  return jraph.GraphsTuple(nodes=x, edges=None, senders=edges[0], receivers=edges[1], globals=None,
                           n_node=np.array([len(x)]), n_edge=np.array([edges.shape[1]]))


def to_torch(arrays: ArrayDict) -> dict[str, Any]:
  """Tensors that share the memory of the arrays, by DLPack."""
  import torch
  return {name: torch.from_dlpack(a) for name, a in arrays.items()}


# --- Names for gymnasium.make ---


def _register() -> None:
  for row in tables()["envs"]:
    word = "".join(part.capitalize() for part in row["name"].split("-"))
    name = f"hilo/{word}-v1"
    if name not in gymnasium.registry:
      gymnasium.register(id=name, entry_point="hilo.env:Env", vector_entry_point="hilo.env:VectorEnv",
                         kwargs={"env": row["name"]})


_register()
