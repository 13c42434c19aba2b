"""The plugin in JAX: found, registered, devices, callbacks, custom calls. Each program runs in a process of its own."""
# needs jax
import os
import subprocess
import sys
import textwrap
import types
import unittest

from hilo import jax_plugin


def run(program, **environment):
  """What a program prints."""
  env = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS")}
  done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env={**env, **environment}, timeout=600,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
  return types.SimpleNamespace(status=done.returncode, out=done.stdout, err=done.stderr)


class Case(unittest.TestCase):

  def prints(self, program, expected, **environment):
    done = run(program, **environment)
    self.assertEqual((done.status, done.out), (0, textwrap.dedent(expected)), done.err[-3000:])
    return done


class Plugin(Case):

  def test_only_hilo(self):
    done = self.prints("""
        import jax, jax.numpy as jnp
        d = jax.devices()[0]
        print("hilo" in d.client.platform_version, d == jax.devices("cpu")[0] == jax.devices("hilo")[0])
        print(jnp.arange(3.).sum() + 1)
        """, "True True\n4.0\n", JAX_PLATFORMS="hilo")
    self.assertNotIn("experimental", done.err)

  def test_build(self):
    """The version, which keys of JAX's cache hold, names the build: the linker's hash of the library, as it stands in the file."""
    self.prints("""
        import jax, re
        from hilo import jax_plugin
        version = jax.devices()[0].client.platform_version
        build = re.search(r"hilo \\d+\\.\\d+\\.\\d+ ([0-9a-f]{16,})", version).group(1)
        library = open(jax_plugin.library_path(), "rb").read()
        print(b"GNU\\0" + bytes.fromhex(build) in library)
        """, "True\n", JAX_PLATFORMS="hilo")

  def test_dumps_each_time(self):
    """A program that is known already is dumped again."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
      self.prints("""
          import glob, jax, os, sys
          folder = os.environ["XLA_FLAGS"].split("=")[1]
          for _ in range(2):
            jax.jit(lambda x: x * 3)(2.).block_until_ready()
            found = glob.glob(folder + "/*lambda*before_optimizations.txt")
            print(len(found))
            for path in found:
              os.remove(path)
            jax.clear_caches()
          """, "1\n1\n", JAX_PLATFORMS="hilo", XLA_FLAGS=f"--xla_dump_to={folder}")

  def test_keys_for_caches(self):
    """JAX's keys are made where a cache on disk is set, and not without one: also where it is set late, or taken away."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
      self.prints("""
          import jax, jax.experimental.compilation_cache.compilation_cache as cache, os
          from jax._src import cache_key
          made, get = [], cache_key.get
          cache_key.get = lambda *a, **k: made.append(1) or get(*a, **k)
          jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
          def compiles(k):
            made.clear()
            jax.jit(lambda x: x * k + 1)(2.).block_until_ready()
            return len(made) > 0
          folder = os.environ["FOLDER"]
          print(compiles(3), os.listdir(folder) == [])
          jax.config.update("jax_compilation_cache_dir", folder)
          print(compiles(4), os.listdir(folder) == [])
          jax.config.update("jax_compilation_cache_dir", None)
          cache.reset_cache()
          print(compiles(5))
          """, "False True\nTrue False\nFalse\n", JAX_PLATFORMS="hilo", FOLDER=folder)

  def test_snapshots(self):
    """Every execution is written with its arguments, as they were before one was given away, and its result."""
    import jaxlib.version
    import tempfile
    knows = jaxlib.version.__version_info__ >= (0, 5)  # an older one ends the process at a flag that it does not know
    with tempfile.TemporaryDirectory() as folder:
      self.prints("""
          import glob, hilo, jax, jax.numpy as jnp, numpy as np, os
          folder = os.environ["XLA_FLAGS"].split()[0].split("=")[1]
          f = jax.jit(lambda x, y: (x * 2 + y.T, y[0]), donate_argnums=0)
          for k in range(2):
            jax.block_until_ready(f(jnp.full((2, 3), k + 1.), jnp.arange(6.).reshape(3, 2)))
          found = sorted(glob.glob(folder + "/*lambda*execution*.hlo_snapshot.pb"))
          print([os.path.basename(p).split(".", 2)[2] for p in found])
          print(len(glob.glob(folder + "/*lambda*execution*unoptimized_snapshot.pb")))
          """, f"['execution_0000.hlo_snapshot.pb', 'execution_0001.hlo_snapshot.pb']\n{2 if knows else 0}\n", JAX_PLATFORMS="hilo",
          XLA_FLAGS=f"--xla_dump_to={folder} --xla_dump_hlo_snapshots" + " --xla_dump_hlo_unoptimized_snapshots" * knows)
      import glob
      from hilo import _core
      program = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "hilo")
      for path in sorted(glob.glob(folder + "/*lambda*execution_0001.hlo_snapshot.pb")):
        done = subprocess.run([program, "run", path, "--reference=none", "--print"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)  # the result is compared with the recorded one
        self.assertIn("{ 4, 6, 8 }", done.stdout)

  def test_memory_analysis(self):
    self.prints("""
        import jax, jax.numpy as jnp, platform
        m = jax.jit(lambda x: jnp.tanh(x) * x + 1).lower(jnp.ones((64, 64))).compile().memory_analysis()
        print(m.argument_size_in_bytes, m.output_size_in_bytes, m.alias_size_in_bytes)
        print(m.generated_code_size_in_bytes > 0 or platform.machine() != "x86_64")
        """, "16384 16384 0\nTrue\n", JAX_PLATFORMS="hilo")

  def test_given_memory_is_taken(self):
    """Also while what is in it is still being computed; who reads the old values meanwhile gets them."""
    self.prints("""
        import functools, jax, jax.numpy as jnp
        step = functools.partial(jax.jit, donate_argnums=0)(lambda x: x + 1)
        x = jnp.zeros((1500, 1500))
        first = x.unsafe_buffer_pointer()
        for _ in range(30):
          x = step(x)
        print(x.unsafe_buffer_pointer() == first, float(x.min()), float(x.max()))
        y, sums = jnp.ones((1500, 1500)), []
        for _ in range(20):
          sums.append(jnp.cumsum(y, axis=0))
          y = step(y)
        print([float(s[-1, 0]) / 1500 for s in sums] == list(range(1, 21)))
        """, "True 30.0 30.0\nTrue\n", JAX_PLATFORMS="hilo")

  def test_beside_cpu(self):
    program = """
        import jax, jax.numpy as jnp
        print("hilo" in jax.devices()[0].client.platform_version, "hilo" in jax.devices("cpu")[0].client.platform_version)
        print(jnp.ones(2) * 2)
        """
    for platforms, default in (("", True), ("hilo,cpu", True), ("cpu", False)):
      self.prints(program, f"{default} False\n[2. 2.]\n", JAX_PLATFORMS=platforms)

  def test_newest_ops(self):
    """Ops that StableHLO has had for less than twelve weeks of jaxlib's get here."""
    done = run("""
        import jax, jax.numpy as jnp
        from jax._src.lax import parallel
        n = jax.device_count()
        start = getattr(parallel, "psum_start", None)
        if start is None:
          raise SystemExit(77)
        with jax.set_mesh(jax.make_mesh((n,), ("i",))):
          @jax.jit
          @jax.shard_map(out_specs=jax.P())
          def f(x):
            return start(x, "i").done()
          x = jax.device_put(jnp.arange(4. * n), jax.P("i"))
          print(f(x), "start" in f.lower(x).as_text())
        """, JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="2")
    if done.status == 77:
      self.skipTest("this JAX starts no collectives")
    self.assertEqual((done.status, done.out), (0, "[ 4.  6.  8. 10.] True\n"), done.err[-3000:])

  def test_number_of_devices(self):
    count = "import jax; print(len(jax.devices()))"
    self.prints(count, "3\n", JAX_PLATFORMS="hilo", XLA_FLAGS="--xla_force_host_platform_device_count=3")
    import jax
    if hasattr(jax.config, "jax_num_cpu_devices"):
      self.prints(count, "4\n", JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="4")
      self.prints("import jax; jax.config.update('jax_num_cpu_devices', 2); print(len(jax.devices()))", "2\n",
                  JAX_PLATFORMS="hilo")

  def test_no_library(self):
    done = run("import jax; print(jax.devices())", JAX_PLATFORMS="hilo", HILO_PJRT_LIBRARY="/nowhere.so")
    self.assertNotEqual(done.status, 0)
    self.assertIn("/nowhere.so", done.err)

  def test_custom_calls_reach_both(self):
    """Handlers go to XLA:CPU, too, though hilo came first: jaxlib's LAPACK, and untyped ones made here by ctypes, registered
    before and after the clients are there."""
    self.prints("""
        import ctypes, jax, jax.numpy as jnp, numpy as np
        from jax._src.lib import xla_client
        F = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
        @F
        def twice(out, operands):
          x = np.ctypeslib.as_array((ctypes.c_float * 4).from_address(operands[0]))
          np.ctypeslib.as_array((ctypes.c_float * 4).from_address(out))[:] = 2 * x
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = new(ctypes.cast(twice, ctypes.c_void_p), b"xla._CUSTOM_CALL_TARGET", None)
        xla_client.register_custom_call_target(b"early", capsule, "cpu", 0)
        jax.devices()
        xla_client.register_custom_call_target(b"late", capsule, "cpu", 0)
        a = np.diag(np.float32([1, 4, 9]))
        for backend in ("hilo", "cpu"):
          with jax.default_device(jax.devices(backend)[0]):
            print(np.diag(np.asarray(jnp.linalg.cholesky(a))), np.asarray(jnp.linalg.eigvalsh(a)).round(3))
            for name in ("early", "late") if hasattr(jax, "ffi") else ():
              call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((4,), np.float32), custom_call_api_version=2)
              assert (jax.jit(call)(jnp.arange(4.)) == jnp.arange(0., 8, 2)).all()
        """, "[1. 2. 3.] [1. 4. 9.]\n" * 2)


class Callbacks(Case):

  def setUp(self):
    import jax
    if jax.__version_info__ < (0, 6):
      self.skipTest("jaxlib calls Python back by itself in this release")

  def test_pure_io_and_debug(self):
    self.prints("""
        import jax, jax.numpy as jnp, numpy as np
        seen = []
        def host(x, i):
          seen.append(type(x).__name__)
          return np.asarray(x) * int(i)
        f = jax.jit(lambda x: jax.pure_callback(host, x, x, 10))
        print(f(jnp.arange(3, dtype=jnp.bfloat16)), f(jnp.arange(3)))
        kept = []
        g = jax.jit(lambda x: jax.experimental.io_callback(lambda v: kept.append(v), None, x, ordered=True))
        import jax.experimental
        for k in range(5): g(jnp.full(2, k))
        jax.effects_barrier()
        print([int(v[1]) for v in kept])
        @jax.jit
        def h(x):
          jax.debug.print("x = {}", x)
          return jax.pure_callback(lambda v: (v > 0, ()), (jax.ShapeDtypeStruct((2,), bool), ()), x)
        print(h(jnp.array([1., -1.])))
        jax.effects_barrier()
        """, """\
        [0 10 20] [ 0 10 20]
        [0, 1, 2, 3, 4]
        x = [ 1. -1.]
        (Array([ True, False], dtype=bool), ())
        """, JAX_PLATFORMS="hilo")

  def test_reentrant(self):
    self.prints("""
        import jax, jax.numpy as jnp, numpy as np
        def host(x): return np.asarray(jax.jit(jnp.sin)(x))
        f = jax.jit(lambda x: jax.pure_callback(host, x, x) * 2)
        print(np.allclose(f(jnp.ones(3)), 2 * np.sin(1)))
        """, "True\n", JAX_PLATFORMS="hilo")

  def test_buffers(self):
    """Callbacks that read and write arrays where they are: also in a loop, in an operand's memory, and re-entrant; a
    processor has no stream, and what they raise is told."""
    try:
      from jax.experimental import buffer_callback  # noqa: F401
    except ImportError:
      self.skipTest("this JAX has no buffer callbacks")
    self.prints("""
        import jax, jax.numpy as jnp, numpy as np
        from jax.experimental.buffer_callback import buffer_callback
        def add(ctx, out, x, y):
          try:
            ctx.stream
          except jax.errors.JaxRuntimeError as e:
            print(str(e).split(" is")[0])
          assert out.writeable and not x.writeable
          np.asarray(out)[...] = np.asarray(x) + np.asarray(jax.jit(jnp.sin)(np.asarray(y)))
        x = jnp.arange(4.).reshape(2, 2)
        call = buffer_callback(add, jax.ShapeDtypeStruct((2, 2), jnp.float32))
        print(np.allclose(jax.jit(lambda x: call(x.T, x) * 2)(x), 2 * (x.T + np.sin(x))))
        def twice(ctx, out, x):
          np.asarray(out)[...] *= 2
        same = buffer_callback(twice, jax.ShapeDtypeStruct((2, 2), jnp.float32), input_output_aliases={0: 0})
        print(jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda k, v: same(v), x))(x).tolist(), x.tolist())
        def raises(ctx, out, x):
          raise ValueError("what a day")
        try:
          print(jax.block_until_ready(jax.jit(buffer_callback(raises, jax.ShapeDtypeStruct((), jnp.float32)))(1.)))
        except Exception as e:
          print("what a day" in str(e))
        """, """\
        UNIMPLEMENTED: XLA FFI GPU context
        True
        [[0.0, 8.0], [16.0, 24.0]] [[0.0, 1.0], [2.0, 3.0]]
        True
        """, JAX_PLATFORMS="hilo")

  def test_what_goes_wrong_is_told(self):
    done = run("""
        import jax, jax.numpy as jnp, numpy as np, sys
        def wrong_shape(x): return np.zeros(5, np.float32)
        def raises(x): raise ValueError("what a day")
        def leaves(x): sys.exit(3)
        def interrupts(x): raise KeyboardInterrupt
        for f in (wrong_shape, raises, leaves, interrupts):
          try:
            jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(f, x, x))(jnp.ones(2)))
            print("nothing")
          except Exception as e:
            text = str(e)
            print(f.__name__, "CpuCallback error calling callback" in text or "Mismatched result" in text, "INTERNAL" in text,
                  [w for w in ("what a day", "SystemExit", "KeyboardInterrupt", "_callbacks.py") if w in text], flush=True)
        print(jnp.ones(2) + 1, flush=True)
        """, JAX_PLATFORMS="hilo")
    self.assertEqual(done.out, """\
wrong_shape True True []
raises True True ['what a day']
leaves True True ['SystemExit']
interrupts True True ['KeyboardInterrupt']
[2. 2.]
""", done.err[-3000:])
    self.assertNotIn("atexit", done.err)

  def test_errors_are_told_once(self):
    """A program that calls back has ended when its call returns: what went wrong is raised there, and not once more at exit."""
    done = run("""
        import jax, jax.numpy as jnp, numpy as np
        from jax.experimental import io_callback
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        def raises(x): raise ValueError("what a day")
        mesh = Mesh(np.array(jax.devices()), ("x",))
        cut = NamedSharding(mesh, P("x"))
        def each(x): return jax.debug.callback(raises, x)
        one = [lambda x: io_callback(raises, x, x), lambda x: io_callback(raises, x, x, ordered=True), lambda x: (each(x), x)[1]]
        for f, x in [(f, jnp.ones(4)) for f in one] + [(one[2], jax.device_put(jnp.ones(4), cut))]:
          try:
            y = jax.jit(f)(x)
            print("no error")
          except Exception as e:
            print("what a day" in str(e), flush=True)
        """, JAX_PLATFORMS="hilo", JAX_NUM_CPU_DEVICES="4")
    self.assertEqual((done.status, done.out), (0, "True\n" * 4), done.err[-3000:])
    self.assertNotIn("atexit", done.err)

  def test_element_types(self):
    self.prints("""
        import jax, jax.numpy as jnp, numpy as np, ml_dtypes
        n = 0
        for t in ("bool", "int8", "uint16", "int32", "float16", "float32", "complex64", ml_dtypes.bfloat16,
                  ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4):
          x = jnp.asarray(np.array([[1, 0, 1], [0, 1, 1]]).astype(t))
          y = jax.jit(lambda v: jax.pure_callback(lambda a: np.asarray(a).T, jax.ShapeDtypeStruct((3, 2), v.dtype), v))(x)
          assert y.dtype == x.dtype and (np.asarray(y) == np.asarray(x).T).all(), t
          n += 1
        print(n)
        """, "12\n", JAX_PLATFORMS="hilo")


  def test_integers_below_a_byte(self):
    """The host has them without their sign in the upper bits: in by a transfer or from a callback, out again as they came."""
    self.prints("""
        import jax, jax.numpy as jnp, numpy as np
        for t, values in (("int4", [1, -2, -8, 7, -3, 4]), ("uint4", [1, 14, 8, 7, 13, 4])):
          x = np.array(values, np.int8).astype(t).reshape(2, 3)
          for host in (x, np.asfortranarray(x), x[::-1, ::-1][::-1, ::-1]):
            assert np.asarray(jax.device_put(host)).tobytes() == x.tobytes()
            assert np.asarray(jax.device_put(host).T).tobytes() == x.T.tobytes()
            assert jax.jit(lambda v: v.astype(jnp.int32))(host).tolist() == x.astype(np.int32).tolist()
          high = (x.view(np.uint8) | 0xf0).view(x.dtype)
          assert jax.jit(lambda v: v.astype(jnp.int32))(high).tolist() == x.astype(np.int32).tolist()
          back = lambda v: jax.pure_callback(lambda a: np.asarray(a), jax.ShapeDtypeStruct(v.shape, v.dtype), v)
          assert jax.jit(lambda v: back(v).astype(jnp.int32))(x).tolist() == x.astype(np.int32).tolist()
          assert np.asarray(jax.jit(lambda v: v + v)(x)).tobytes() == (2 * x.astype(np.int8)).astype(t).tobytes()
          print(t)
        """, "int4\nuint4\n", JAX_PLATFORMS="hilo")


class Registering(unittest.TestCase):
  """What is handed to the library, with one that only takes notes."""

  def test_custom_calls(self):
    import ctypes
    from jax._src.lib import xla_client
    notes, forwarded, handlers = [], [], {}
    library = types.SimpleNamespace(hilo_pjrt_register_ffi=lambda *a: notes.append(a) or 0,
                                    hilo_pjrt_register_type=lambda *a: notes.append(a) or 0)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = [new(address, b"xla._CUSTOM_CALL_TARGET", None) for address in (4096, 8192)]
    number = ctypes.c_longlong(77)
    identity = new(ctypes.addressof(number), b"any name", None)
    xla = types.SimpleNamespace(register_custom_call_target=lambda *a: forwarded.append(a),
                                register_custom_type=lambda *a: forwarded.append(a))
    saved = xla_client._xla, xla_client.register_custom_call_handler
    has_types = hasattr(xla_client, "register_custom_type_handler")
    saved_types = getattr(xla_client, "register_custom_type_handler", None)
    try:
      xla_client._xla = xla
      xla_client.register_custom_call_handler = lambda platform, f: handlers.update({platform: f})
      if has_types:
        xla_client.register_custom_type_handler = lambda platform, f: handlers.update({"type": f})
      jax_plugin._take_custom_calls(library)
    finally:
      xla_client._xla, xla_client.register_custom_call_handler = saved
      if has_types:
        xla_client.register_custom_type_handler = saved_types
    handlers["cpu"](b"plain", capsule[0], "Host", 0)
    handlers["cpu"]("staged", {"instantiate": capsule[0], "execute": capsule[1]}, "Host", 1, 1)
    self.assertEqual(notes, [(b"plain", None, None, None, 4096, 0, 0), (b"staged", 4096, None, None, 8192, 1, 1)])
    self.assertEqual([f[0] for f in forwarded], [b"plain", "staged"])
    if has_types:
      handlers["type"]("state", {"type_id": identity})
      self.assertEqual(notes[2], (b"state", 77, None))
      self.assertEqual(forwarded[2][0], "state")

  def test_long_errors_keep_their_end(self):
    import ctypes
    from hilo import _callbacks
    room = ctypes.create_string_buffer(b"x" * 99, 100)
    _callbacks._tell("start" + "." * 500 + "the end", ctypes.addressof(room), 64)
    self.assertTrue(room.value.startswith(b"start") and room.value.endswith(b"the end"), room.value)
    self.assertLess(len(room.value), 64)
    self.assertEqual(room.raw[64:99], b"x" * 35)
    _callbacks._tell("short", ctypes.addressof(room), 64)
    self.assertEqual(room.value, b"short")


if __name__ == "__main__":
  unittest.main()
