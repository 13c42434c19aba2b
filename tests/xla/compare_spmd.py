"""Compares hilo's partitioner with XLA's: which exchanges both put into JAX programs on a mesh of 4 x 2 devices.

  compare_spmd.py [--files GLOB] [--verbose]

Each program is compiled by jaxlib for 8 devices; hilo partitions what XLA's partitioner got (after shardy-xla), and the
collectives of both are counted by kind. hilo runs both on 8 devices, with equal results (not those called einsum, which
are too large). How many programs come out the same but for names is told, too.
"""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import oracle

COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(")


# Programs that XLA's partitioner (jaxlib 0.10.2) gets wrong: their results are not asked for.
WRONG = {"conv_kernel_grad": "it adds up over all devices, of which every two hold the same summand: twice the gradient"}

# Programs in which hilo exchanges less often than XLA's partitioner: not the same kinds, and fewer in all.
FEWER = {
    "sort_first": "the first k of each part are gathered; XLA does so where the indices are an iota and nans are minded",
    "sort_first_pairs": "the same",
    "associative_scan": "a tile that is spread out needs no elements for the gaps",
    "associative_scan_line": "the same",
    "associative_scan_pairs": "the same",
    "fft": "what is not transformed stays cut",
    "partly_scatter": "what the program does along an axis leaves the cuts along another one alone",
    "partly_all_to_all": "the same",
}


# --- Programs ------------------------------------------------------------------------------------------------


def programs():
    """(name, function, in shardings, out sharding, shapes or structs) of each; run where 8 devices are."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))

    def s(*axes):
        return NamedSharding(mesh, PartitionSpec(*axes))

    m, b, image, kernel = (64, 64), (8, 64, 64), (8, 16, 16, 8), (3, 3, 8, 16)
    x, y, none, xy, flat, cx = s("x"), s(None, "y"), s(), s("x", "y"), s(("x", "y")), s(None, "x")
    index = jax.ShapeDtypeStruct((16,), np.int32)
    scalar = jax.ShapeDtypeStruct((), np.int32)
    pred = jax.ShapeDtypeStruct((), np.bool_)
    cube = jax.ShapeDtypeStruct((2, 8, 64), np.complex64)
    large = (2**18, 2**18)

    def dot(a, b):
        return a @ b

    def batch_dot(a, b):
        return jnp.einsum("bij,bjk->bik", a, b)

    def twice(a):
        return a * 2

    def conv(a, k):
        return lax.conv_general_dilated(a, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def shard_map(a):
        spec = PartitionSpec
        return jax.shard_map(lambda a: lax.psum(a * 2, "x"), mesh=mesh, in_specs=spec("x", "y"),
                             out_specs=spec(None, "y"))(a)

    def loop(c):
        return lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ c.T), c)

    def scan(a):
        return lax.scan(lambda c, x: (c + x, c * 2), jnp.zeros(64), a)

    def branch(p, a):
        return lax.cond(p, lambda a: a.sum(0), lambda a: a.max(0), a)

    def sort_first(a):
        return jnp.sort(a * 2, 1)[:, :4]

    def sort_first_pairs(a):
        values, places = lax.sort((a * -2, lax.broadcasted_iota(np.int32, a.shape, 1)), num_keys=1)
        return -values[:, :4], places[:, :4]

    def scan_pairs(a, b):
        return lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b))

    def partly(f, into, out):
        """Along x by hand, along y by the partitioner."""
        spec = PartitionSpec
        return lambda a: jax.shard_map(f, mesh=mesh, in_specs=spec(*into), out_specs=spec(*out), axis_names={"x"})(a)

    def mlp(x, w, v):
        return jnp.tanh(x @ w) @ v

    return [
        ("dot_row_repl", dot, (x, none), x, m, m), ("dot_repl_col", dot, (none, y), y, m, m),
        ("dot_row_col", dot, (x, y), xy, m, m), ("dot_contract", dot, (cx, x), none, m, m),
        ("dot_contract_row", dot, (cx, x), x, m, m), ("dot_contract_lhs", dot, (cx, none), none, m, m),
        ("dot_xy_y", dot, (xy, s("y")), x, m, m), ("dot_xy_xy", dot, (xy, xy), xy, m, m),
        ("dot_row_row", dot, (x, x), x, m, m), ("dot_repl_repl_row", dot, (none, none), x, m, m),
        ("dot_transposed", lambda a, b: a @ b.T, (xy, xy), xy, m, m),
        ("batch_dot", batch_dot, (x, x), x, b, b), ("batch_dot_row", batch_dot, (x, cx), x, b, b),
        ("row_col", twice, (x,), cx, m), ("row_repl", twice, (x,), none, m), ("repl_row", twice, (none,), x, m),
        ("xy_yx", twice, (xy,), s("y", "x"), m), ("x_y", twice, (x,), s("y"), m), ("x_xy", twice, (x,), flat, m),
        ("flat_xy", twice, (flat,), xy, m), ("xy_flat", twice, (xy,), s(None, ("x", "y")), m),
        ("sum_cut", lambda a: a.sum(0), (x,), none, m), ("sum_cut_row", lambda a: a.sum(0), (x,), x, m),
        ("sum_other", lambda a: a.sum(1), (x,), x, m), ("max_all", lambda a: a.max(), (xy,), none, m),
        ("argmax", lambda a: a.argmax(0), (x,), none, m),
        ("conv_batch", conv, (x, none), x, image, kernel), ("conv_h", conv, (cx, none), cx, image, kernel),
        ("conv_hw", conv, (s(None, "x", "y"), none), s(None, "x", "y"), image, kernel),
        ("conv_out", conv, (none, s(None, None, None, "x")), s(None, None, None, "x"), image, kernel),
        ("conv_in", conv, (s(None, None, None, "x"), s(None, None, "x")), none, image, kernel),
        ("conv_kernel_grad", lambda a, k: jax.grad(lambda k: conv(a, k).sum())(k), (cx, none), none, image, kernel),
        ("slice_other", lambda a: a[:, 8:40], (x,), x, m), ("slice_cut", lambda a: a[8:40], (x,), x, m),
        ("strided", lambda a: a[::2], (x,), x, m),
        ("pad_cut", lambda a: jnp.pad(a, ((4, 4), (0, 0))), (x,), x, m),
        ("concat_cut", lambda a, b: jnp.concatenate([a, b], 0), (x, x), x, m, m),
        ("concat_other", lambda a, b: jnp.concatenate([a, b], 1), (x, x), x, m, m),
        ("reverse", lambda a: a[::-1], (x,), x, m), ("roll", lambda a: jnp.roll(a, 1, 0), (x,), x, m),
        ("transpose", lambda a: a.T, (xy,), s("y", "x"), m),
        ("reshape_split", lambda a: a.reshape(8, 8, 64), (x,), x, m),
        ("reshape_merge", lambda a: a.reshape(4096), (cx,), x, m), ("reshape_row", lambda a: a.reshape(4096), (x,), x, m),
        ("cumsum_other", lambda a: jnp.cumsum(a, 1), (x,), x, m), ("cumsum_cut", lambda a: jnp.cumsum(a, 0), (x,), x, m),
        ("sort_other", lambda a: jnp.sort(a, 1), (x,), x, m), ("sort_cut", lambda a: jnp.sort(a, 0), (x,), x, m),
        ("cholesky", lambda a: jnp.linalg.cholesky(a, symmetrize_input=False), (x,), x, (8, 16, 16)),
        ("top_k", lambda a: lax.top_k(a, 4), (cx,), none, m),
        ("gather_rows", lambda a, i: a[i], (x, none), none, m, index),
        ("gather_columns", lambda a, i: a[i], (cx, none), cx, m, index),
        ("gather_indices", lambda a, i: a[i], (none, x), x, m, index),
        ("scatter_rows", lambda a, i, u: a.at[i].add(u), (x, none, none), x, m, index, (16, 64)),
        ("scatter_indices", lambda a, i, u: a.at[i].add(u), (none, x, x), none, m, index, (16, 64)),
        ("dynamic_slice", lambda a, i: lax.dynamic_slice(a, (i, 0), (8, 64)), (x, none), x, m, scalar),
        ("dynamic_update", lambda a, u, i: lax.dynamic_update_slice(a, u, (i, 0)), (x, none, none), x, m, (8, 64), scalar),
        ("max_pool", lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME"), (x,), x, m),
        ("fft", lambda a: jnp.fft.fft(a), (x,), x, jax.ShapeDtypeStruct((8, 64), np.complex64)),
        ("uneven", lambda a: lax.with_sharding_constraint(a * 2, x).sum(0), (none,), none, (63, 64)),
        ("mlp", mlp, (x, y, s("y")), x, m, m, m), ("mlp_sequence", mlp, (x, y, s("y")), flat, m, m, m),
        ("while", loop, (x,), x, m), ("scan", scan, (cx,), (x, cx), m), ("cond", branch, (none, x), none, pred, m),
        ("softmax", lambda a: jax.nn.softmax(a, -1), (y,), y, m), ("shard_map", shard_map, (xy,), y, m),
        ("top_k_values", lambda a: lax.top_k(a, 4)[0], (cx,), none, m),
        ("top_k_line", lambda a: lax.top_k(a, 4), (x,), none, (64,)),
        ("sort_first", sort_first, (cx,), none, m), ("sort_first_pairs", sort_first_pairs, (cx,), none, m),
        ("fft_columns", lambda a: jnp.fft.fft(a), (cx,), cx, jax.ShapeDtypeStruct((8, 64), np.complex64)),
        ("fft_some", lambda a: jnp.fft.fft(a), (s(None, None, "x"),), s(None, None, "x"), cube),
        ("fft_all", lambda a: jnp.fft.fft(a), (s(None, None, ("x", "y")),), s(None, None, ("x", "y")), cube),
        ("ifft_all", lambda a: jnp.fft.ifft(a), (s(None, None, ("x", "y")),), s(None, None, ("x", "y")), cube),
        ("associative_scan", lambda a: lax.associative_scan(jnp.add, a), (x,), x, m),
        ("associative_scan_line", lambda a: lax.associative_scan(jnp.add, a), (x,), x, (64,)),
        ("associative_scan_pairs", scan_pairs, (x, x), (x, x), (16, 8), (16, 8)),
        ("partly_dot", partly(lambda a: lax.psum(a @ a.T, "x"), (None, "x"), ()), (s("y", "x"),), s("y"), m),
        ("partly_max", partly(lambda a: lax.pmax(a * 2, "x"), ("x",), ()), (xy,), y, m),
        ("partly_permute", partly(lambda a: lax.ppermute(a * 2, "x", [(0, 1), (1, 2), (2, 3)]), ("x",), ("x",)), (xy,), xy, m),
        ("partly_scatter", partly(lambda a: lax.psum_scatter(a * 2, "x", tiled=True), ("x",), ("x",)), (xy,), xy, m),
        ("partly_all_to_all", partly(lambda a: lax.all_to_all(a * 2, "x", 0, 0, tiled=True), ("x",), ("x",)), (xy,), xy, m),
        ("normal", lambda k: jax.random.normal(k, m), (none,), x, jax.ShapeDtypeStruct((2,), np.uint32)),
        # Products of 256 GiB and more a side, in whose loops tiles go round.
        ("einsum_summed", dot, (flat, flat), flat, large, large),
        ("einsum_columns", dot, (flat, s(None, ("x", "y"))), flat, large, large),
        ("einsum_rows", dot, (flat, s(None, ("x", "y"))), s(None, ("x", "y")), large, large),
        ("einsum_result", dot, (s(None, ("x", "y")), flat), flat, large, large),
        ("einsum_result_columns", dot, (s(None, ("x", "y")), flat), s(None, ("x", "y")), large, large),
        ("einsum_rings", dot, (xy, xy), xy, large, large), ("einsum_replicas", dot, (x, x), x, large, large),
        ("einsum_wide", dot, (xy, xy), xy, (2**20, 2**18), large), ("einsum_square", lambda a: a @ a, (flat,), flat, large),
        ("einsum_result_rings", dot, (xy, s("y")), xy, (2**20, 2**20), (2**20, 2**20)),
        ("einsum_batch", batch_dot, (s(None, ("x", "y")), flat), s(None, ("x", "y")), (8, 2**17, 2**17), (8, 2**17, 2**17)),
        ("einsum_shared", lambda a, b, c: (a @ b, c @ b), (flat, flat, flat), (flat, flat), large, large, large),
        ("einsum_twice", lambda a, b, c: (a @ b, a @ c), (flat, flat, flat), (flat, flat), large, large, large),
        ("einsum_two_summed", lambda a, b: jnp.einsum("ijk,jkl->il", a, b), (flat, xy), flat,
         (2**18, 2**12, 2**12), (2**12, 2**12, 2**18)),
        ("einsum_partly", lambda a, b: jnp.einsum("ijk,kl->ijl", a, b), (xy, s(None, "y")), s("x", None, "y"),
         (2**12, 2**12, 2**18), large),
    ]


def compile_all(folder):
    """Has jaxlib compile every program and dump what stands around its partitioner."""
    os.environ["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 --xla_dump_hlo_pass_re=spmd-partitioning"
                               f" --xla_dump_to={folder}")
    import jax
    import numpy as np

    for name, f, ins, out, *shapes in programs():
        def named(*args, f=f):
            return f(*args)

        named.__name__ = name
        args = [jax.ShapeDtypeStruct(a, np.float32) if isinstance(a, tuple) else a for a in shapes]
        jax.jit(named, in_shardings=ins, out_shardings=out).lower(*args).compile()


# --- Comparison ------------------------------------------------------------------------------------------------


def plain(text):
    """The instructions without names and metadata, which are numbered by where they first stand."""
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    text = "\n".join(line for line in text.split("\n") if re.match(r"ENTRY|%|  ", line))
    number = {}
    text = re.sub(r"%[\w.\-]+", lambda n: number.setdefault(n.group(0), f"%{len(number)}"), text)
    return re.sub(r"(?<=[(, ])[\w.\-]+: ", "", text)


def count(text):
    return collections.Counter(COLLECTIVE.findall(text))


def same_results(theirs, ours, folder, timeout):
    """None, or why the two programs do not give the same on every device."""
    saved = os.path.join(folder, "results.npz")
    rc, _, err = oracle.run_hilo(["run", "--platform=reference", theirs, "--save", saved], timeout)
    if rc == 0:
        rc, out, err = oracle.run_hilo(["run", "--platform=reference", ours, "--expect", saved], timeout)
    return None if rc == 0 else oracle.status_text(rc, err)


def compare(t, name, start, end, folder, timeout):
    """Whether the program is the same but for names."""
    mine = os.path.join(folder, name + ".hlo")
    rc, _, err = oracle.run_hilo(["opt", "--passes=spmd-partitioning", start, "-o", mine], timeout)
    if rc != 0:
        t.fail(name, oracle.status_text(rc, err))
        return False
    ours, theirs = open(mine).read(), open(end).read()
    a, b = count(ours), count(theirs)
    good = sum(a.values()) < sum(b.values()) if name in FEWER else a == b
    why = None if good else f"hilo has {dict(a)}, XLA {dict(b)}"
    if name in WRONG:
        print(f"{name}: XLA's own is wrong: {WRONG[name]}")
    else:
        why = why or (None if name.startswith("einsum") else same_results(end, mine, folder, timeout))
    if why:
        t.fail(name, why)
    else:
        t.ok(name)
    return plain(ours) == plain(theirs)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--compile":
        compile_all(sys.argv[2])
        return
    p = oracle.options(__doc__)
    p.add_argument("--timeout", type=float, default=60, help="seconds a program")
    a = p.parse_args()
    oracle.need_jax()
    t = oracle.Tally(a.verbose)
    folder = tempfile.mkdtemp()
    subprocess.run([sys.executable, __file__, "--compile", folder], check=True, stderr=subprocess.DEVNULL)
    same = n = 0
    for start in sorted(glob.glob(folder + "/*before_spmd-partitioning*")):
        end = glob.glob(folder + "/" + os.path.basename(start).split(".0")[0] + ".*after_spmd-partitioning*")
        name = re.search(r"\.jit_(\w+)\.", start).group(1)
        n += 1
        same += compare(t, name, start, end[0], folder, a.timeout)
    print(f"{same} of {n} programs are XLA's but for names")
    shutil.rmtree(folder, ignore_errors=True)
    t.end(60, a)


if __name__ == "__main__":
    main()
