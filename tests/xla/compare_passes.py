"""Compares what hilo's cpu pipeline leaves of the corpus' JAX programs with what XLA:CPU's leaves.

  compare_passes.py [--files GLOB] [--verbose]

For each jax/* case XLA compiles before.hlo and dumps before its fusion pass; hilo runs its cpu pipeline over the same
text with the entry layouts that JAX asks for. Instructions before fusion and kernels at the end must on average be no
more than XLA's, and in no program over 1.15 times as many.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import hlo_count
import oracle

LIMIT = 1.15
FLAGS = "--xla_dump_to=%s --xla_dump_hlo_pass_re=fusion --xla_cpu_enable_fast_min_max=false"


def newest(pattern):
    found = sorted(glob.glob(pattern))
    return open(found[-1]).read() if found else None


def by_xla(path, tools, folder, timeout):
    env = dict(os.environ, XLA_FLAGS=FLAGS % folder)
    tool = os.path.join(tools, "xla_oracle.py")
    subprocess.run([sys.executable, tool, "compile", path], env=env, timeout=timeout, capture_output=True)
    return (newest(folder + "/*.after_reshape-decomposer.before_fusion.txt"),
            newest(folder + "/*cpu_after_optimizations.txt"))


def by_hilo(path, folder, timeout):
    args = ["opt", path, "--pipeline=cpu", "--default-layouts", "--verify-each", "-o", os.devnull]
    env_flags = ["--xla_dump_to=" + folder, "--xla_dump_hlo_pass_re=fusion"]
    rc, _, err = oracle.run_hilo(args + env_flags, timeout)
    if rc != 0:
        return None, oracle.status_text(rc, err)
    return (newest(folder + "/*.after_reshape-decomposer.before_fusion.txt"),
            newest(folder + "/*cpu_after_optimizations.txt"))


def main():
    p = oracle.options(__doc__)
    p.add_argument("--timeout", type=float, default=300, help="seconds a program")
    a = p.parse_args()
    oracle.need_jax()
    top = os.path.join(oracle.corpus(), "jax")
    tools = os.path.join(oracle.corpus(), "..", "tools")
    if not os.path.exists(os.path.join(tools, "xla_oracle.py")):
        oracle.skip("no xla_oracle.py beside the corpus")
    ratios, failed = [], 0
    for case in sorted(os.listdir(top)):
        path = os.path.join(top, case, "before.hlo")
        if not os.path.exists(path) or (a.files and a.files not in path):
            continue
        folder = tempfile.mkdtemp()
        theirs = by_xla(path, tools, folder + "/xla", a.timeout)
        ours = by_hilo(path, folder + "/hilo", a.timeout)
        shutil.rmtree(folder, ignore_errors=True)
        if None in theirs:
            print(f"{case}: XLA does not compile it")
            continue
        if None in ours:
            print(f"{case}: hilo fails: {ours}")
            failed += 1
            continue
        counts = [(f(ours[k]), f(theirs[k])) for k, f in ((0, hlo_count.instructions), (1, hlo_count.kernels))]
        pair = [h / x for h, x in counts]
        ratios.append(pair)
        over = max(pair) > LIMIT
        failed += over
        if over or a.verbose:
            print(f"{case:24} instructions {counts[0][0]:5} of {counts[0][1]:5} {pair[0]:5.2f}   "
                  f"kernels {counts[1][0]:4} of {counts[1][1]:4} {pair[1]:5.2f}{'  <--' if over else ''}")
    means = [sum(r[k] for r in ratios) / max(1, len(ratios)) for k in (0, 1)]
    print(f"{len(ratios)} programs; of XLA's: instructions {means[0]:.3f} (at most "
          f"{max((r[0] for r in ratios), default=0):.2f}), kernels {means[1]:.3f} (at most {max((r[1] for r in ratios), default=0):.2f})")
    failed += max(means) > 1
    sys.exit(failed > 0 or len(ratios) < (1 if a.files else 30))


main()
