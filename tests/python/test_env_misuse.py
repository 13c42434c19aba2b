"""hilo.env and hilo.games in wrong hands: what is closed, of another type, under way, broken off, copied, in a child or another thread."""
import copy
import gc
import os
import pathlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

try:
  import gymnasium  # noqa: F401
except ImportError:
  print("skipped: no Gymnasium in this Python (make venv)")
  sys.exit(77)

import hilo
import hilo.env
from hilo.games import Game, Games, generate, measure, observe, validate

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULE = ROOT / "tests" / "fixtures" / "mlp_train" / "before.hlo"


def new_game(**options):
  return Game(MODULE, **{"env": "algebra", "actions": "one", **options})


class Closed(unittest.TestCase):

  def test_every_call_says_so(self):
    game = new_game(observation="hilo-v1")
    game.close()
    game.close()
    calls = [lambda: game.step([0]), lambda: game.apply([0]), lambda: game.try_choices([0]), game.try_passes, game.choices,
             game.choice_arrays, game.choice_nodes, game.reset, game.snapshot, lambda: game.restore(0), lambda: game.drop(0),
             game.fork, game.arrays, lambda: game.play("none"), game.result, game.trajectory, lambda: game.options,
             lambda: game.hash, lambda: copy.copy(game), lambda: pickle.dumps(game), lambda: Games(game, 2)]
    for call in calls:
      with self.assertRaisesRegex(ValueError, "closed"):
        call()

  def test_batch(self):
    games = Games(new_game(), 2)
    one = games.games[0]
    games.close()
    games.close()
    for call in (lambda: games.step([[0], [0]]), lambda: games.send(0, [0]), lambda: games.receive(1), lambda: one.step([0])):
      with self.assertRaisesRegex(ValueError, "closed"):
        call()
    env = hilo.env.VectorEnv(MODULE, num_envs=2, actions="one")
    env.close()
    with self.assertRaisesRegex(ValueError, "closed"):
      env.step([0, 0])

  def test_what_rests_on_it_stays(self):
    rules = "swap: maximum(x, y) => maximum(y, x)"
    game = Game(MODULE, env="algebra", actions="one", rules=rules, target="a100", observation="hilo-v1")
    view = game.arrays(copy=False)["node_bytes"]
    sum_before = int(view.sum())
    fork, games = game.fork(), Games(game, 2)
    game.close()
    del game
    gc.collect()
    self.assertEqual(int(view.sum()), sum_before)
    for one in (fork, *games.games):
      self.assertEqual(one.options["target"], "a100")
      one.reset(1)
      if one.n_choices:
        one.apply([0])
    games.close()

  def test_ends_while_steps_are_under_way(self):
    code = ("from hilo.games import *; import numpy as np, sys\n"
            "b = Games(Game(sys.argv[1], env='gpu-fusion'), 8)\n"
            "for k in range(8): b.send(k, np.ones(b.games[k].n_choices, int))\n"
            "if len(sys.argv) > 2: b.close()\n")
    for more in ([], ["close"]):
      done = subprocess.run([sys.executable, "-c", code, str(MODULE), *more], capture_output=True, text=True, timeout=120)
      self.assertEqual((done.returncode, done.stderr), (0, ""))


class Wrong(unittest.TestCase):

  def test_actions(self):
    game = new_game()
    for call in (game.step, game.apply, game.try_choices):
      for bad in ([0.0], [float("nan")], np.zeros(1), "0", [None], [1 + 0j]):
        with self.assertRaises(TypeError):
          call(bad)
      with self.assertRaisesRegex(ValueError, "32 bits"):
        call([2**32])
      with self.assertRaisesRegex(hilo.Error, "there is no choice -1"):
        call([-1])
    with self.assertRaisesRegex(hilo.Error, "one number here, but 2"):
      game.step([0, 0])
    # Other types and strides of the same numbers are the same action.
    hashes = set()
    for same in ([3], (3,), np.array([3], np.int64), np.arange(9, dtype=np.int32)[3:4:2], np.array([9, 3], np.uint8)[1:], iter([3])):
      game.reset(0)
      game.apply(same)
      hashes.add(game.hash)
    self.assertEqual(len(hashes), 1)

  def test_actions_of_gymnasium(self):
    env = hilo.env.Env(MODULE, "algebra", actions="one")
    env.reset(seed=0)
    for bad, error in ((float("nan"), TypeError), (1.7, TypeError), (None, TypeError), ("0", TypeError), (-1, ValueError),
                       (257, ValueError), ([0, 1], TypeError)):
      with self.assertRaises(error):
        env.step(bad)
    env.step(np.array([0]))
    for actions, size in (("all", 256), ("sites", 128)):
      env = hilo.env.Env(MODULE, "algebra", actions=actions)
      env.reset(seed=0)
      for bad, error in ((np.zeros(size), TypeError), (np.full(size, np.nan), TypeError), ([0], ValueError), (0, ValueError),
                         (np.full(size, -1), ValueError), (np.full(size, 99), ValueError), (np.zeros((2, size), int), ValueError)):
        with self.assertRaises(error):
          env.step(bad)
      env.step(env.action_space.sample())

  def test_numbers(self):
    game = new_game()
    game.snapshot()
    for call in (game.restore, game.drop):
      for bad, error in ((2**32, ValueError), (-1, ValueError), ("a", TypeError), (0.0, TypeError), (1, hilo.Error)):
        with self.assertRaises(error):
          call(bad)
    for name, bad, error in (("max_steps", 2**32 + 1, ValueError), ("max_steps", -3, ValueError), ("max_steps", 1.5, TypeError),
                             ("seed", "x", TypeError), ("seed", 2**64, ValueError), ("metric", 5, TypeError),
                             ("no_such", 1, TypeError), ("env", "no", hilo.Error), ("rules", "a\0b", hilo.Error)):
      with self.assertRaises(error):
        new_game(**{name: bad})
    for name in ("tries", "width", "depth"):
      with self.assertRaises(ValueError):
        game.play("greedy", **{name: -1})
    with self.assertRaises(ValueError):
      game.play("beam", width=2**31)
    with self.assertRaises(TypeError):
      game.play("greedy", no_such=1)
    with self.assertRaises(ValueError):
      game.play("greedy\0x")
    for call in (lambda: measure(MODULE, runs=-1), lambda: validate(MODULE, MODULE, inputs=2**32), lambda: generate(1, size=-1),
                 lambda: Games(game, 0), lambda: Games(game, 2**32 + 1), lambda: Games(game, 2, threads=-5)):
      with self.assertRaises(ValueError):
        call()
    with self.assertRaisesRegex(hilo.Error, "unknown observation"):
      observe(MODULE, "no")
    with self.assertRaisesRegex(hilo.Error, "made without an observation"):
      game.arrays()

  def test_after_the_end(self):
    game = new_game(max_steps=1)
    game.step([0])
    for _ in range(2):
      with self.assertRaisesRegex(hilo.Error, "the game is over"):
        game.step([0])
    game.reset(0)
    game.step([0])


class Many(unittest.TestCase):

  def test_what_goes_wrong_with_one(self):
    games = Games(new_game(), 3)
    for k, choice in enumerate((0, 99999, 0)):
      games.send(k, [choice])
    with self.assertRaisesRegex(hilo.Error, "environment 1: there is no choice 99999"):
      games.receive(3)
    self.assertEqual(games.waiting(), [])
    self.assertEqual([g.state[13] for g in games.games], [1, 0, 1])
    games.send(1, [0])
    self.assertEqual(games.receive(1), [1])
    games.close()

  def test_counts(self):
    games = Games(new_game(), 2)
    with self.assertRaises(ValueError):
      games.receive(-1)
    self.assertEqual(games.receive(0), [])
    self.assertEqual(games.receive(5), [])
    with self.assertRaisesRegex(hilo.Error, "there is no environment 2"):
      games.send(2, [0])
    with self.assertRaises(ValueError):
      games.send(2**32, [0])
    for bad in ([[0]] * 3, [0], 0):
      with self.assertRaises(ValueError):
        games.step(bad)
    games.send(0, [0])
    with self.assertRaisesRegex(hilo.Error, "environment 0 has not been received"):
      games.step([[0], [0]])
    self.assertEqual(games.receive(2), [0])
    games.close()

  def test_all_or_none_are_asked(self):
    env = hilo.env.VectorEnv(MODULE, "algebra", num_envs=3, actions="one")
    env.reset(seed=0)
    for bad in ([0], [0, "x", 0], [0, 0, float("nan")], [0, 300, 0]):
      with self.assertRaises((ValueError, TypeError)):
        env.step(bad)
      self.assertEqual(env.games.waiting(), [])
    with self.assertRaises(ValueError):
      env.send([0, 0], [1, 1])
    with self.assertRaises(ValueError):
      env.reset(seed=[1, 2])
    env.send([0], [1])
    with self.assertRaisesRegex(hilo.Error, "under way"):
      env.step([0, 0, 0])
    env.reset(seed=2**40 + 1)  # what is under way is waited for
    one = hilo.env.Env(MODULE, "algebra", actions="one")
    one.reset(seed=2**40 + 1)
    self.assertEqual(env.games.games[0].hash, one.game.hash)
    env.close()

  def test_what_is_under_way_is_not_looked_at(self):
    games = Games(Game(MODULE, env="gpu-fusion"), 2)
    games.send(0, np.ones(games.games[0].n_choices, int))
    for call in (games.games[0].choices, games.games[0].result, lambda: games.games[0].apply([0])):
      with self.assertRaisesRegex(hilo.Error, "under way"):
        call()
    games.receive(1)
    games.games[0].choices()
    games.close()

  def test_a_child_has_no_threads(self):
    games = Games(new_game(), 2)
    child = os.fork()
    if child == 0:
      signal.alarm(20)
      try:
        games.step([[0], [0]])
      except RuntimeError:
        own = games.games[0].fork()  # it may play by itself
        own.step([0])
        games.close()
        os._exit(7)
      os._exit(1)
    self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
    games.step([[0], [0]])
    games.close()

  def test_one_thread_sends_and_another_receives(self):
    games, done, ready = Games(new_game(), 4), [], queue.Queue()

    def receive():
      while len(done) < 200:
        for k in games.receive(1):
          done.append(k)
          ready.put(k)

    for k in range(4):
      ready.put(k)
    other = threading.Thread(target=receive)
    other.start()
    while len(done) < 200:
      try:
        games.send(ready.get(timeout=0.2), [0])
      except queue.Empty:
        pass
    for k in range(4):  # whoever still waits for one gets it
      try:
        games.send(k, [0])
      except hilo.Error:
        pass
    other.join(60)
    self.assertFalse(other.is_alive())
    games.close()

  def test_threads_take_turns(self):
    game, errors = Game(MODULE, env="gpu-fusion", actions="one"), []

    def play():
      try:
        for _ in range(30):
          try:
            game.step([0])
          except hilo.Error as e:
            if "there is no choice" not in str(e) and "the game is over" not in str(e):
              raise
            game.reset(0)
      except Exception as e:
        errors.append(e)

    threads = [threading.Thread(target=play) for _ in range(4)]
    for t in threads:
      t.start()
    for t in threads:
      t.join()
    self.assertEqual(errors, [])


class Copies(unittest.TestCase):

  def test_a_copy_is_a_fork(self):
    for make in (copy.copy, copy.deepcopy):
      env = hilo.env.Env(MODULE, "algebra", actions="one")
      env.reset(seed=0)
      env.action_space.seed(1)
      env.step(1)
      other = make(env)
      self.assertEqual(other.game.hash, env.game.hash)
      self.assertEqual(other.action_space.sample(), env.action_space.sample())
      other.close()
      env.step(0)

  def test_pickled(self):
    env = hilo.env.Env(MODULE, "gpu-fusion", actions="one", max_steps=50)
    env.reset(seed=0)
    env.step(1)
    env.game.play("greedy", tries=50)
    again = pickle.loads(pickle.dumps(env))
    self.assertEqual((again.game.hash, again.game.trajectory()["moves"]), (env.game.hash, env.game.trajectory()["moves"]))
    stopped = new_game()
    stopped.step([0])
    stopped.step([stopped.n_choices])
    self.assertEqual(pickle.loads(pickle.dumps(stopped)).state[14], 1)
    with self.assertRaises(TypeError):
      pickle.dumps(Games(new_game(), 2))


class BrokenOff(unittest.TestCase):

  def setUp(self):
    self.before = signal.getsignal(signal.SIGALRM)

  def tearDown(self):
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, self.before)

  def break_off(self, game, policy, error):
    def raises(*_):
      raise error("by the handler")

    signal.signal(signal.SIGALRM, raises)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with self.assertRaisesRegex(error, "by the handler"):
      while True:
        game.play(policy, tries=10**6)
        game.reset(0)

  def test_what_a_handler_raises_comes_out(self):
    for policy in ("mcts", "beam", "anneal", "greedy"):
      for error in (TimeoutError, KeyboardInterrupt):
        with self.subTest(policy=policy, error=error):
          game = Game(MODULE, env="gpu-fusion", actions="one", observation="hilo-v1")
          first = game.hash
          game.apply([0])
          here = game.snapshot()
          self.break_off(game, policy, error)
          for call in (game.snapshot, game.result, game.trajectory, game.fork, game.arrays, lambda: game.play("none"),
                       lambda: game.restore(here), lambda: game.step([0])):
            try:
              call()
            except hilo.Error as e:
              self.assertIn("reset it", str(e))
              broken = True
            else:
              broken = False
              break  # the signal came between two games
          game.reset(0)
          self.assertEqual(game.hash, first)
          game.apply([0])
          self.assertTrue(broken or game.n_choices > 0)
          game.close()


if __name__ == "__main__":
  unittest.main()
