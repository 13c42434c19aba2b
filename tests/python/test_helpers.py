"""hilo.jax: what it compiles, dumps, compares and writes to be reproduced; both backends in one process."""
# needs jax
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import jax
import jax.numpy as jnp
import numpy as np

import hilo
import hilo.jax
from hilo import _compare, reproducer


def layer(p, x):
  h = jnp.tanh(x @ p["w"] + p["b"])
  return {"h": h, "loss": jnp.mean(h ** 2), "best": (jnp.argmax(h, 1),)}


P = {"w": np.random.RandomState(0).randn(8, 4).astype(np.float32), "b": np.zeros(4, np.float32)}
X = np.random.RandomState(1).randn(16, 8).astype(np.float32)


class Compiling(unittest.TestCase):

  def test_lower_and_compile(self):
    before, after = hilo.jax.lower(layer, P, X), hilo.jax.compile(jax.jit(layer), P, X)
    self.assertEqual(before.name, "jit_layer")
    self.assertEqual(before.stats()["fusions"]["count"], 0)
    self.assertGreater(after.stats()["fusions"]["count"], 0)
    expected = [np.asarray(v) for v in jax.tree_util.tree_leaves(layer(P, X))]
    got = before.run(P["b"], P["w"], X)
    self.assertEqual(len(got), len(expected))
    for g, e in zip(got, expected):
      np.testing.assert_allclose(g, e, atol=1e-5)

  def test_fusions(self):
    table = hilo.jax.show_fusions(layer, P, X)
    head, *rows = table.splitlines()
    self.assertEqual(head.split(), ["fusion", "kind", "result", "ops", "source"])
    n = hilo.jax.compile(layer, P, X).stats()["fusions"]["count"]
    self.assertEqual(len(rows), n)
    self.assertTrue(any("tanh" in row and "test_helpers.py:" in row for row in rows), table)
    compiled = jax.jit(layer).lower(P, X).compile()
    self.assertEqual(hilo.jax.show_fusions(compiled), table)
    self.assertIn("no fusions", hilo.jax.show_fusions(hilo.jax.lower(layer, P, X)))

  def test_dump(self):
    with tempfile.TemporaryDirectory() as folder:
      files = hilo.jax.dump(layer, P, X, dir=folder + "/new")
      self.assertEqual([f.name for f in files], ["jit_layer." + e for e in ("jaxpr", "stablehlo.mlir", "before.hlo", "after.hlo")])
      self.assertIn("tanh", files[0].read_text())
      for f in files[1:]:
        hilo.Module(f, verify=False)
      more = hilo.jax.dump(layer, P, X, dir=folder + "/passes", passes=True)
      self.assertGreater(len(more), 10)
      self.assertTrue(any("algsimp" in f.name or "fusion" in f.name for f in more), more)


class Comparing(unittest.TestCase):

  def test_backends(self):
    c = hilo.jax.compare(layer, P, X)
    self.assertTrue(c.equal, c)
    self.assertEqual({leaf.name for leaf in c.leaves}, {"result['h']", "result['loss']", "result['best'][0]"})
    self.assertIn("equal: 3 results", str(c))
    c = hilo.jax.compare(lambda key: jax.random.normal(key, (4,), jnp.bfloat16), jax.random.key(0))
    self.assertTrue(c.equal, c)
    with self.assertRaisesRegex(hilo.Error, "no backend 'moon'"):
      hilo.jax.compare(layer, P, X, backends=("moon", "cpu"))
    with self.assertRaisesRegex(hilo.Error, "one backend"):
      hilo.jax.compare(layer, P, X, backends=("cpu", "cpu"))

  def test_what_differs_is_found(self):
    e = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = e.copy()
    a[1, 0] = 3.5
    leaf = _compare.compare_leaf("r", a, e)
    self.assertEqual((leaf.equal, leaf.n_different, leaf.at, float(leaf.actual), float(leaf.expected)), (False, 1, (1, 0), 3.5, 3))
    self.assertTrue(_compare.compare_leaf("r", e + np.float32(1e-5), e).equal)
    self.assertTrue(_compare.compare_leaf("r", np.float32([np.nan, np.inf]), np.float32([np.nan, np.inf])).equal)
    self.assertFalse(_compare.compare_leaf("r", np.float32([np.inf]), np.float32([-np.inf])).equal)
    self.assertFalse(_compare.compare_leaf("r", np.float32([np.nan]), np.float32([1])).equal)
    self.assertFalse(_compare.compare_leaf("r", np.int32([1, 2]), np.int32([1, 3])).equal)
    self.assertFalse(_compare.compare_leaf("r", np.bool_([True]), np.bool_([False])).equal)
    self.assertIn("float32[1] beside int32[1]", str(_compare.compare_leaf("r", np.float32([1]), np.int32([1]))))
    self.assertTrue(_compare.compare_leaf("r", np.zeros((0, 2)), np.zeros((0, 2))).equal)
    self.assertFalse(_compare.compare_leaf("r", np.complex64([1 + 1j]), np.complex64([1 - 1j])).equal)


class Reproducing(unittest.TestCase):

  def reproduce(self, path, status=0):
    done = subprocess.run([sys.executable, "-m", "hilo", "reproduce", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=600)
    self.assertEqual(done.returncode, status, done.stdout)
    return done.stdout

  def test_a_call(self):
    with tempfile.TemporaryDirectory() as folder:
      path = hilo.jax.reproduce(jax.jit(lambda p, n, x, unused: layer(p, x * n), static_argnums=1), P, 3, X, 1.0,
                                path=pathlib.Path(folder) / "f.zip")
      out = self.reproduce(path)
      self.assertEqual(out.count("equal: 3 results"), 2, out)
      self.assertRegex(out, "jaxlib " + re.escape(jax.lib.__version__))
      with zipfile.ZipFile(path) as z:
        self.assertEqual(sorted(z.namelist()), ["about.json", "args.npz", "module.mlir", "results.npz"])
        about = json.loads(z.read("about.json"))
      self.assertIn("hilo", about["backend"])
      # With another result in it, it says so.
      self.change(path, r0=np.zeros((16, 4), np.float32))
      self.assertIn("of 3 results differ", self.reproduce(path, 1))

  @staticmethod
  def change(path, **arrays):
    with zipfile.ZipFile(path) as z:
      parts = {name: z.read(name) for name in z.namelist()}
    with np.load(io.BytesIO(parts["results.npz"])) as saved:
      new = {k: saved[k] for k in saved.files}
    target = next(k for k in new if new[k].shape == arrays["r0"].shape)
    out = io.BytesIO()
    np.savez(out, **{**new, target: arrays["r0"]})
    parts["results.npz"] = out.getvalue()
    with zipfile.ZipFile(path, "w") as z:
      for name, content in parts.items():
        z.writestr(name, content)

  def test_errors_are_kept(self):
    def fails(x):
      return jax.pure_callback(lambda v: 1 / 0, x, x)

    with tempfile.TemporaryDirectory() as folder:
      path = hilo.jax.reproduce(fails, np.float32([1]), path=folder + "/f.zip", run=False)
      with zipfile.ZipFile(path) as z:
        self.assertNotIn("results.npz", z.namelist())
      self.assertIn("does not run", self.reproduce(path, 5))
      self.assertEqual(subprocess.run([sys.executable, "-m", "hilo", "reproduce", folder], capture_output=True, check=False).returncode,
                       3)

  def test_types(self):
    import ml_dtypes
    args = [np.arange(4).astype(t) for t in (ml_dtypes.bfloat16, ml_dtypes.int4, np.bool_, np.uint16, np.complex64)]
    with tempfile.TemporaryDirectory() as folder:
      path = hilo.jax.reproduce(lambda *a: a[::-1], *args, path=folder + "/f.zip")
      found = reproducer.Reproducer(path)
      self.assertEqual(len(found.args), 5)
      self.assertIn("equal: 5 results", self.reproduce(path))


if __name__ == "__main__":
  unittest.main()
