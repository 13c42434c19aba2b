"""hloenv in wrong hands: damaged programs, decisions out of range, copies, threads, passes that are broken off."""
import copy
import gc
import pathlib
import pickle
import random
import signal
import sys
import threading
import unittest
import warnings

import numpy as np

import hilo
from hloenv import AltPipeline, HloEnv, HloModule, HloPass, Pass, Pipeline, RewritePipeline

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULE = str(ROOT / "tests" / "fixtures" / "mlp_train" / "before.hlo")
DRY = AltPipeline(Pass(HloPass.GeneralFusion()))
ONE = "HloModule m\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n"


def new_env():
  return HloEnv(MODULE, "gpu")


class Programs(unittest.TestCase):

  def test_what_cannot_be_read(self):
    for source, form, error in ((None, "path", TypeError), (5, "path", TypeError), ("/no/such", "path", hilo.Error), ("/", "path", hilo.Error),
                                ("a\0b", "path", ValueError), ("", "txt", hilo.Error), ("\0\xff" * 99, "txt", hilo.Error),
                                (ONE + ONE.replace(" m", " n"), "txt", ValueError), (ONE, "text", ValueError)):
      with self.assertRaises(error):
        HloModule(source, form)

  def test_damaged(self):
    """Whatever a damaged text still is: a refusal, or a module with which all goes on."""
    text, rng, good = pathlib.Path(MODULE).read_text(), random.Random(1), 0
    texts = [text[:k] for k in range(0, len(text), len(text) // 12)]
    for _ in range(60):
      letters = list(text)
      at = rng.randrange(len(letters))
      letters[at] = letters[rng.randrange(len(letters))]
      texts.append("".join(letters))
    for damaged in texts:
      try:
        with warnings.catch_warnings():
          warnings.simplefilter("ignore")
          env = HloEnv(damaged, "txt", "gpu")
      except (hilo.Error, ValueError):
        continue
      env.run(DRY)
      env.apply_alternatives([[k, 1] for k in env.get_hlo_graph().alternative_indices])
      self.assertTrue(env.verify_module())
      good += 1
    self.assertGreater(good, 5)

  def test_with_next_to_nothing_in_it(self):
    for text in (ONE, "HloModule m\n\nENTRY e {\n  ROOT x = () tuple()\n}\n"):
      env = HloEnv(text, "txt", "gpu")
      self.assertFalse(env.run(DRY))
      graph = env.get_hlo_graph()
      self.assertEqual((graph.node_features.names, len(graph.in_edge_features.dims)), (["x"], 0))
      env.apply_alternatives([])
      env.optimize_hlo_module()
      self.assertEqual(len(env.evaluate(1).durations), 1)
      self.assertIsNone(env.get_hlo_module().extract_random_submodule(0, 0))


class Wrong(unittest.TestCase):

  def test_decisions(self):
    env = new_env()
    env.run(DRY)
    indices = env.get_hlo_graph().alternative_indices.tolist()
    before = env.get_hlo_module_hash()
    for bad in (None, "abc", [0, 1], [[0, 1]], [[indices[0], 1]] * len(indices), [[k, 0.7] for k in indices],
                [[k, float("nan")] for k in indices], [[k, 99] for k in indices], [[k, -1] for k in indices],
                [[k, 2**32] for k in indices], np.array([[k, 2**64 - 1] for k in indices], np.uint64)):
      with self.assertRaises(ValueError):
        env.apply_alternatives(bad)
      self.assertEqual(env.get_hlo_module_hash(), before)
    env.apply_alternatives(np.array([[k, 0] for k in indices], np.float64))  # whole numbers all the same
    self.assertTrue(env.verify_module())

  def test_rewrites(self):
    env = new_env()
    env.run(RewritePipeline(Pass(HloPass.AlgebraicSimplifier())))
    for bad, error in (([-1], hilo.Error), ([2**32], hilo.Error), ([0.9], ValueError), (["0"], ValueError)):
      with self.assertRaises(error):
        env.apply_rewrites(bad)
    self.assertEqual([s.name for _, s in env.apply_rewrites([0, 0])], ["OK", "ALREADY_APPLIED"])
    with self.assertRaises(ValueError):
      env.apply_rewrites([0])

  def test_pipelines(self):
    env = new_env()
    for bad in (None, HloPass.HloDCE(), "dce"):
      with self.assertRaises(TypeError):
        env.run(bad)
    for count, error in ((0, ValueError), (-2, ValueError), (2**70, ValueError), (1.5, TypeError), ("1", TypeError)):
      with self.assertRaises(error):
        Pass(HloPass.HloDCE(), count)
    odd = Pipeline("a(b{,)*")
    odd.add_pass(HloPass.HloDCE())
    env.run(odd)
    module = env.get_hlo_module()
    for repeat in (0, -3, 2**62):
      with self.assertRaises(hilo.Error):
        module.extract_instructions_as_module(repeat)
    with self.assertRaises(ValueError):
      module.extract_random_submodule(2**63, 1)
    with self.assertRaises(TypeError):
      env.evaluate(1.5)


class Copies(unittest.TestCase):

  def test_modules_and_environments(self):
    env = new_env()
    env.run(DRY)
    first = env.get_hlo_module_hash()
    for make in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
      module = make(env.get_hlo_module())
      self.assertEqual(module.hash(), first)
      del module
      gc.collect()
    for make in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
      other = make(env)
      other.apply_alternatives([[k, 1] for k in other.get_hlo_graph().alternative_indices])
      self.assertNotEqual(other.get_hlo_module_hash(), first)
      del other
      gc.collect()
    self.assertEqual(env.get_hlo_module_hash(), first)
    with self.assertRaises(TypeError):
      copy.deepcopy(env.get_hlo_graph())
    array = copy.deepcopy(env.get_hlo_graph().node_features.uids)
    self.assertGreater(int(array.sum()), 0)


class Threads(unittest.TestCase):

  def test_take_turns(self):
    env, errors = new_env(), []

    def work():
      try:
        for _ in range(4):
          env.optimize_hlo_module()
          env.export_hlo_to_str()
          env.get_hlo_graph().hash()
      except Exception as e:
        errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
      t.start()
    for t in threads:
      t.join()
    self.assertEqual(errors, [])
    self.assertTrue(env.verify_module())


class BrokenOff(unittest.TestCase):

  def test_the_module_is_void(self):
    def raises(*_):
      raise TimeoutError("by the handler")

    before = signal.signal(signal.SIGALRM, raises)
    env = new_env()
    try:
      with self.assertRaisesRegex(TimeoutError, "by the handler"):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        while True:
          env.load_hlo(MODULE)
          for _ in range(5):
            env.optimize_hlo_module()
    finally:
      signal.setitimer(signal.ITIMER_REAL, 0)
      signal.signal(signal.SIGALRM, before)
    for call in (env.get_hlo_module_hash, env.export_hlo_to_str, env.optimize_hlo_module, env.get_hlo_graph, env.clone_hlo):
      try:
        call()
      except ValueError as e:
        self.assertIn("void", str(e))
    env.load_hlo(MODULE)
    env.optimize_hlo_module()
    self.assertTrue(env.verify_module())


if __name__ == "__main__":
  if sys.platform == "win32":
    sys.exit(77)
  unittest.main()
