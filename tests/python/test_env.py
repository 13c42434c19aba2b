"""hilo.env and hilo.games: environments of Gymnasium, many at once, snapshots, records, observations, other libraries' graphs."""
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import types
import unittest
import warnings

import numpy as np

try:
  import gymnasium
except ImportError:
  print("skipped: no Gymnasium in this Python (make venv)")
  sys.exit(77)
from gymnasium.utils.env_checker import check_env

import hilo
import hilo.env
import hilo.games

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULE = ROOT / "tests" / "fixtures" / "mlp_train" / "before.hlo"
NAMES = ["Simplify", "Algebra", "Order", "GpuFusion", "CpuFusion", "Hloenv"]


def first_choices(env, n):
  """A game of n steps, each the first choice there is: hashes and rewards."""
  out = []
  for _ in range(n):
    if env.game.state[14]:
      break
    _, reward, *_ = env.step(0)
    out.append((env.game.hash, reward))
  return out


class Gymnasium(unittest.TestCase):

  def test_checks_pass(self):
    for name in NAMES:
      for form in ("summary", "hloenv-v1", "tpugraphs-v1", "hilo-v1"):
        with self.subTest(name=name, form=form), warnings.catch_warnings():
          warnings.simplefilter("ignore", UserWarning)  # that boxes have no bounds
          env = gymnasium.make(f"hilo/{name}-v1", module=MODULE, observation=form)
          check_env(env.unwrapped, skip_render_check=True)
          obs, info = env.reset(seed=1)
          self.assertIn(obs, env.observation_space)
          action = env.action_space.sample(info["action_mask"])
          self.assertIn(env.step(action)[0], env.observation_space)
          env.close()

  def test_masks_say_what_there_is(self):
    env = hilo.env.Env(MODULE, "algebra", actions="one")
    _, info = env.reset(seed=0)
    mask = env.action_masks()
    self.assertEqual(int(mask[:-1].sum()), info["n_choices"])
    self.assertEqual(len(env.choices()), info["n_choices"])
    # What there is no choice for chooses nothing; the last action stops.
    before = env.game.hash
    _, reward, terminated, *_ = env.step(info["n_choices"])
    self.assertEqual((reward, terminated, env.game.hash), (0.0, False, before))
    *_, terminated, _, _ = env.step(env.action_space.n - 1)
    self.assertTrue(terminated)
    with self.assertRaisesRegex(hilo.Error, "the game is over"):
      env.step(0)

  def test_rewards(self):
    env = hilo.env.Env(MODULE, "algebra", actions="one", metric="kernels")
    env.reset(seed=0)
    before = env.game.costs["kernels"]
    gain = before - env.game.try_choices([0])["kernels"]
    _, reward, *_ = env.step(0)
    self.assertEqual(reward, gain)
    self.assertEqual(env.game.costs["kernels"], before - gain)
    with self.assertRaisesRegex(hilo.Error, "no metric is named 'kernel'"):
      hilo.env.Env(MODULE, "algebra", metric="kernel")
    with self.assertRaisesRegex(hilo.Error, "unknown env 'algbra'"):
      hilo.env.Env(MODULE, "algbra")

  def test_games_are_the_same_again(self):
    games = []
    for _ in range(2):
      env = hilo.env.Env(MODULE, "simplify", actions="one")
      env.reset(seed=3)
      games.append(first_choices(env, 10))
    env.reset(seed=4)
    games.append(first_choices(env, 10))
    self.assertGreater(len(games[0]), 5)
    self.assertEqual(games[0], games[1])
    self.assertEqual(games[0], games[2])

  def test_snapshots_and_forks(self):
    env = hilo.env.Env(MODULE, "gpu-fusion", actions="one")
    env.reset(seed=0)
    first, text = env.game.hash, str(env.module())
    here = env.snapshot()
    once = first_choices(env, 4)
    env.restore(here)
    self.assertEqual((env.game.hash, str(env.module())), (first, text))
    fork = env.fork()
    self.assertEqual(first_choices(fork, 4), once)
    self.assertEqual(env.game.hash, first)
    self.assertEqual(first_choices(env, 4), once)
    with self.assertRaisesRegex(hilo.Error, "there is no snapshot"):
      env.restore(here + 1)

  def test_players_and_records(self):
    env = hilo.env.Env(MODULE, "gpu-fusion", reward="relative")
    env.reset(seed=0)
    alone = env.game.try_passes()
    played = env.play("greedy")
    self.assertLess(played["last"], played["first"])
    self.assertLessEqual(played["last"], alone["metric"] * (1 + 1e-9))
    self.assertTrue(env.validate()["equal"])
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, "game.json")
      env.record(path)
      self.assertEqual({k: hilo.games.replay(path)[k] for k in ("same", "differs", "what")},
                       {"same": True, "differs": -1, "what": ""})
      with open(path) as f:
        game = json.load(f)
      game["moves"][1]["hash"] = "0" * 16
      with open(path, "w") as f:
        json.dump(game, f)
      self.assertEqual(hilo.games.replay(path, MODULE)["differs"], 1)
    with self.assertRaisesRegex(hilo.Error, "unknown policy"):
      env.play("gready")

  def test_measured(self):
    times = hilo.games.measure(MODULE, runs=8)
    self.assertEqual(times["runs"], 8)
    self.assertTrue(0 < times["low"] <= times["median"] <= times["high"])
    other = hilo.Module(str(hilo.Module(MODULE)).replace(" tanh(", " cosine("))
    self.assertFalse(hilo.games.validate(MODULE, other)["equal"])


class Observations(unittest.TestCase):

  def arrays(self, form, **options):
    game = hilo.games.Game(MODULE, env="gpu-fusion", observation=form, **options)
    return game, game.arrays()

  def test_hloenv(self):
    game, a = self.arrays("hloenv-v1")
    n = len(a["node_uids"])
    self.assertEqual(n, int(game.state[11]))
    self.assertEqual(a["in_edge_offsets"][-1], len(a["in_edge_srcs"]))
    self.assertEqual(a["in_edge_dims"].shape[1], 8)
    inst, other = game.choice_nodes()
    names = [bytes(a["node_name_bytes"][i:j]).decode() for i, j in
             zip(a["node_name_offsets"][:-1].tolist(), a["node_name_offsets"][1:].tolist())]
    for choice, i, k in zip(game.choices(), inst.tolist(), other.tolist()):
      self.assertEqual(names[i], choice.instruction)
      self.assertEqual(names[k] if k >= 0 else "", choice.other)

  def test_tpugraphs(self):
    _, a = self.arrays("tpugraphs-v1")
    n = len(a["node_opcode"])
    self.assertEqual(a["node_feat"].shape, (n, 140))
    self.assertEqual(len(hilo.games.tables()["tpu_columns"]), 140)
    self.assertLess(a["edge_index"].max(), n)
    self.assertTrue((a["edge_index"][:, 0] > a["edge_index"][:, 1]).all())  # operands and callees come first
    self.assertEqual(a["node_splits"][-1], n)

  def test_views_and_copies(self):
    game, copies = self.arrays("hilo-v1")
    views = game.arrays(copy=False)
    for name, array in copies.items():
      np.testing.assert_array_equal(array, views[name])
      self.assertTrue(array.flags.owndata)
    self.assertFalse(views["node_seconds"].flags.owndata)

  def test_other_libraries(self):
    made = {}

    class Data:
      def __init__(self, **fields):
        made.update(fields)

    torch = types.ModuleType("torch")
    torch.from_numpy = torch.from_dlpack = lambda a: a
    geometric, data = types.ModuleType("torch_geometric"), types.ModuleType("torch_geometric.data")
    data.Data = Data
    jraph = types.ModuleType("jraph")
    jraph.GraphsTuple = lambda **fields: fields
    found = {"torch": torch, "torch_geometric": geometric, "torch_geometric.data": data, "jraph": jraph}
    before = {name: sys.modules.get(name) for name in found}
    sys.modules.update(found)
    try:
      for form in ("hloenv-v1", "tpugraphs-v1", "hilo-v1"):
        made.clear()
        _, arrays = self.arrays(form)
        hilo.env.to_pyg(arrays)
        n, edges = len(made["x"]), made["edge_index"]
        self.assertEqual((made["x"].dtype, edges.dtype, edges.shape[0]), (np.float32, np.int64, 2))
        self.assertTrue(0 <= edges.min() and edges.max() < n)
        graph = hilo.env.to_jraph(arrays)
        self.assertEqual((graph["n_node"].tolist(), graph["n_edge"].tolist()), ([n], [edges.shape[1]]))
    finally:
      for name, module in before.items():
        if module is None:
          del sys.modules[name]
        else:
          sys.modules[name] = module


class Many(unittest.TestCase):

  def test_vector(self):
    out = []
    for threads in (1, 4):
      env = hilo.env.VectorEnv(MODULE, "algebra", num_envs=6, threads=threads, observation="summary", actions="one")
      obs, info = env.reset(seed=5)
      self.assertIn(obs, env.observation_space)
      rng = np.random.default_rng(0)
      game = []
      for _ in range(40):
        actions = [int(rng.integers(max(1, n))) for n in info["n_choices"]]
        obs, rewards, terminated, truncated, info = env.step(actions)
        self.assertIn(obs, env.observation_space)
        game.append(([g.hash for g in env.games.games], rewards.tolist(), terminated.tolist()))
      out.append(game)
      env.close()
    self.assertEqual(out[0], out[1])
    self.assertTrue(any(any(t) for _, _, t in out[0]))  # games end, and begin again

  def test_send_and_receive(self):
    env = hilo.env.VectorEnv(MODULE, "algebra", num_envs=5, observation="hilo-v1", actions="one")
    env.reset(seed=0)
    env.send([0] * 5, range(5))
    with self.assertRaisesRegex(hilo.Error, "has not been received"):
      env.send([0], [2])
    seen = []
    while len(seen) < 5:
      which, obs, rewards, terminated, truncated = env.receive(2)
      seen += which
      self.assertEqual(len(obs), len(which))
      self.assertIn(obs[0], env.single_observation_space)
    self.assertEqual(sorted(seen), list(range(5)))
    env.close()

  def test_what_there_is_not_chooses_nothing(self):
    env = hilo.env.VectorEnv(MODULE, "algebra", num_envs=2, actions="one")
    _, info = env.reset(seed=0)
    before = [g.hash for g in env.games.games]
    _, rewards, terminated, _, _ = env.step([int(info["n_choices"][0]), 0])
    self.assertEqual((rewards[0], terminated[0], env.games.games[0].hash), (0.0, False, before[0]))
    self.assertNotEqual(env.games.games[1].hash, before[1])
    _, _, terminated, _, _ = env.step([env.single_action_space.n - 1] * 2)
    self.assertTrue(terminated.all())
    env.close()

  def test_made_by_gymnasium(self):
    env = gymnasium.make_vec("hilo/GpuFusion-v1", num_envs=3, vectorization_mode="vector_entry_point", module=MODULE)
    obs, _ = env.reset(seed=0)
    self.assertIn(obs, env.observation_space)
    env.close()

  def test_other_threads_run_meanwhile(self):
    games = hilo.games.Games(hilo.games.Game(MODULE, env="simplify", actions="one"), 16)
    ticks, done = [0], threading.Event()

    def tick():
      while not done.is_set():
        ticks[0] += 1
        time.sleep(0)

    other = threading.Thread(target=tick)
    other.start()
    for _ in range(20):
      games.step(np.zeros(16, np.int32))
    done.set()
    other.join()
    self.assertGreater(ticks[0], 100)
    games.close()


class Timed:
  def __init__(self, lib):
    self.lib, self.seconds = lib, 0.0

  def __getattr__(self, name):
    function = getattr(self.lib, name)

    def timed(*arguments):
      start = time.perf_counter()
      result = function(*arguments)
      self.seconds += time.perf_counter() - start
      return result
    setattr(self, name, timed)
    return timed


class Speed(unittest.TestCase):

  def test_pythons_part_of_a_step(self):
    """A step of a module with next to nothing in it is Python's part: under 30 us, as the best of many tells."""
    tiny = hilo.Module("HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n  n = f32[] negate(x)\n  ROOT r = f32[] negate(n)\n}\n")
    game = hilo.games.Game(tiny, env="algebra", actions="one")
    nothing = np.zeros(0, np.int32)
    at = nothing.ctypes.data
    plain, whole = [], []
    for _ in range(300):
      start = time.perf_counter()
      game._lib.hilo_core_env_apply(game._call, game._handle, at, 0, game._state_at)
      middle = time.perf_counter()
      game.apply(())
      whole.append(time.perf_counter() - middle)
      plain.append(middle - start)
    self.assertLess(min(whole) - min(plain), 30e-6)


  def test_pythons_part_of_an_observed_step(self):
    """The same of a whole step of Gymnasium, whose calls of the library are timed apart; arrays are views."""

    for form in ("summary", "tpugraphs-v1"):
      with self.subTest(form=form):
        self.assertLess(self.pythons_part(form), 30e-6)

  def pythons_part(self, form):
    env = hilo.env.Env(MODULE, "algebra", actions="one", observation=form, copy=False)
    env.reset(seed=0)
    lib = env.game._lib = Timed(env.game._lib)
    env.game._step_of = lib.hilo_core_env_step
    rest = []
    for k in range(400):
      lib.seconds, start = 0.0, time.perf_counter()
      *_, terminated, truncated, _ = env.step(0)
      rest.append(time.perf_counter() - start - lib.seconds)
      if terminated or truncated:
        env.reset(seed=k)
    return min(rest)


if __name__ == "__main__":
  unittest.main()
