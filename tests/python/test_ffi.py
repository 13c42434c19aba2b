"""Handlers of custom calls (jax.ffi), made here against the header that jaxlib ships: attributes, layouts, aliases, state, threads,
errors, and the untyped calls of old."""
# needs jax
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

os.environ["JAX_PLATFORMS"] = "hilo"
os.environ["JAX_NUM_CPU_DEVICES"] = "4"

import jax
import jax.numpy as jnp
import numpy as np

if not hasattr(jax, "ffi") or not hasattr(jax.ffi, "register_ffi_type"):
  print(f"skipped: JAX {jax.__version__} has no jax.ffi.register_ffi_type")
  sys.exit(77)
if not shutil.which("c++"):
  print("skipped: no C++ compiler (c++)")
  sys.exit(77)


def build(folder):
  library = os.path.join(folder, "handlers.so")
  source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ffi_handlers.cc")
  subprocess.run(["c++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-I", jax.ffi.include_dir(), source, "-o", library],
                 check=True)
  return ctypes.CDLL(library)


def register(library):
  capsule = jax.ffi.pycapsule
  for function in (library.state_type_id, library.state_type_info):
    function.restype = ctypes.c_void_p
  jax.ffi.register_ffi_type("hilo.State", {"type_id": capsule(ctypes.c_void_p(library.state_type_id())),
                                           "type_info": capsule(ctypes.c_void_p(library.state_type_info()))}, platform="cpu")
  for name in ("attrs", "raw", "fails", "in_place", "async_"):
    jax.ffi.register_ffi_target("t_" + name, capsule(getattr(library, name)), platform="cpu")
  jax.ffi.register_ffi_target("t_state", {"instantiate": capsule(library.state_instantiate),
                                          "execute": capsule(library.state_execute)}, platform="cpu")
  for name in ("add", "two", "status", "unified"):
    jax.ffi.register_ffi_target("u_" + name, capsule(getattr(library, "untyped_" + name)), platform="cpu", api_version=0)


folder = tempfile.TemporaryDirectory()
library = build(folder.name)
register(library)


def f32(*shape):
  return jax.ShapeDtypeStruct(shape, np.float32)


def add_state(x, n):
  return jax.ffi.ffi_call("t_state", jax.ShapeDtypeStruct((1,), np.int32))(x, n=np.int64(n))


class Typed(unittest.TestCase):
  x = np.arange(6, dtype=np.float32).reshape(2, 3)

  def fails(self, f, *words):
    with self.assertRaises(jax.errors.JaxRuntimeError) as caught:
      jax.block_until_ready(f())
    for word in words:
      self.assertIn(word, str(caught.exception))

  def test_attributes(self):
    def f(x):
      return jax.ffi.ffi_call("t_attrs", f32(2, 3))(
          x, s=np.float32(2), i=np.int64(1), j=np.int32(2), u=np.uint8(200), b=True, d=np.float64(.5), name="he\"llo\n",
          ints=np.arange(300), floats=np.float32([1, 2.5]), nested=dict(a=np.int64(7), t="xyz"))
    expected = self.x * 2 + 1 + 2 + 200 + 1 + .5 + 7 + 3 + sum(range(300)) + 3.5
    np.testing.assert_allclose(jax.jit(f)(self.x), expected)
    self.fails(lambda: jax.jit(lambda x: jax.ffi.ffi_call("t_raw", f32(2, 3))(x, bad=(1, 2)))(self.x),
               "INVALID_ARGUMENT", "Unsupported attribute type for attribute: bad")

  def test_layouts(self):
    y = jax.jit(lambda x: jax.ffi.ffi_call("t_raw", f32(3, 2), input_layouts=[(1, 0)])(x))(self.x)
    np.testing.assert_array_equal(y, self.x.T.reshape(3, 2))
    y = jax.jit(lambda x: jax.ffi.ffi_call("t_raw", f32(2, 3), output_layouts=(1, 0))(x * 1))(self.x)
    np.testing.assert_array_equal(y, self.x.ravel().reshape(3, 2).T)
    z = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = jax.jit(lambda z: jax.ffi.ffi_call("t_raw", f32(2, 3, 4), input_layouts=[(1, 2, 0)], output_layouts=(1, 2, 0))(z + 0) * 1)(z)
    np.testing.assert_array_equal(y, z)

  def test_element_types(self):
    for dtype in (jnp.int4, jnp.uint4, jnp.bfloat16, jnp.float8_e4m3fn, jnp.bool_, jnp.complex64, jnp.int8):
      v = jnp.arange(6).astype(dtype)
      np.testing.assert_array_equal(jax.jit(lambda v, d=dtype: jax.ffi.ffi_call("t_raw", jax.ShapeDtypeStruct((6,), d))(v))(v), v)

  def test_errors(self):
    self.fails(lambda: jax.jit(lambda x: jax.ffi.ffi_call("t_fails", f32(2, 3))(x))(self.x), "OUT_OF_RANGE: this is out of range")
    self.fails(lambda: jax.jit(lambda x: jax.ffi.ffi_call("t_nobody", f32(2, 3))(x))(self.x), "UNIMPLEMENTED", "t_nobody")
    self.fails(lambda: jax.jit(lambda x: jax.ffi.ffi_call("u_add", f32(2, 3))(x))(self.x), "UNIMPLEMENTED", "untyped")

  def test_aliases(self):
    def f(x):
      return jax.ffi.ffi_call("t_in_place", f32(2, 3), input_output_aliases={0: 0})(x)
    np.testing.assert_array_equal(jax.jit(f)(self.x), self.x + 1)
    np.testing.assert_array_equal(jax.jit(lambda x: f(x) + x)(self.x), 2 * self.x + 1)
    np.testing.assert_array_equal(jax.jit(f, donate_argnums=0)(jnp.asarray(self.x) + 0), self.x + 1)

  def test_state(self):
    before, five = library.states_made(), np.int32([5])
    f = jax.jit(lambda x: add_state(x, 3) + add_state(x, 4))
    self.assertEqual([int(f(five)[0]) for _ in range(3)], [17] * 3)
    self.assertEqual(library.states_made() - before, 2)
    self.fails(lambda: jax.jit(lambda x: add_state(x, -1))(five), "INVALID_ARGUMENT", "n is negative")

  def test_devices(self):
    from jax.sharding import NamedSharding, PartitionSpec
    mesh = jax.make_mesh((4,), ("i",), devices=jax.devices()[::-1])
    spec = PartitionSpec("i")
    f = jax.jit(jax.shard_map(lambda x: add_state(x, 1), mesh=mesh, in_specs=spec, out_specs=spec))
    x = jax.device_put(np.arange(4, dtype=np.int32), NamedSharding(mesh, spec))
    np.testing.assert_array_equal(f(x), [3001, 2002, 1003, 4])

  def test_threads_and_futures(self):
    def f(a, bad):
      return jax.ffi.ffi_call("t_async_", f32(100000))(a, bad=bad)
    a = np.arange(100000, dtype=np.float32)
    for _ in range(20):
      np.testing.assert_array_equal(jax.jit(lambda a: f(a, False))(a), 2 * a)
    self.fails(lambda: jax.jit(lambda a: f(a, True))(a), "DATA_LOSS: lost it")

  def test_untyped(self):
    def u(name, out, version, **more):
      return jax.ffi.ffi_call("u_" + name, out, custom_call_api_version=version, **more)
    one = np.float32(1)
    self.assertEqual(jax.jit(u("add", f32(), 1))(one, one), 2)
    self.assertEqual(tuple(jax.jit(u("two", (f32(), f32()), 1))(one)), (2, 3))
    status = jax.jit(u("status", f32(), 2))
    self.assertEqual(status(one), 1)
    self.fails(lambda: status(np.float32(-4)), "INTERNAL", "longer than sixteen")
    self.fails(lambda: status(np.float32(400)), "INTERNAL", "big")
    self.assertEqual(jax.jit(u("unified", f32(), 3, legacy_backend_config="abc"))(one), 4)
    self.fails(lambda: jax.jit(u("unified", f32(), 3, legacy_backend_config="xbc"))(one), "INTERNAL: x")


if __name__ == "__main__":
  unittest.main()
