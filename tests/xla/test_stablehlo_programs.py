"""Runs StableHLO's test programs, which hold their inputs and expected results, and refines its dynamic ones.

    test_stablehlo_programs.py [FOLDER...] [--on=OPTIONS]... [-v]

Without folders: stablehlo/testdata of HILO_CORPUS. Files that start with RUN-DISABLED are read and checked only, and
listed with the reason they give. Programs with dynamic shapes are checked, printed and read back, and made static
for several sizes of `?`, then run: on the interpreter, compiled, and compiled without machine code.
"""
import argparse, collections, os, re, subprocess, sys, tempfile

HILO = os.environ.get("HILO", "build/hilo")
PLATFORMS = ("--platform=reference", "--platform=cpu", "--platform=cpu --no-emit")
SIZES = (1, 2, 3, 4, 5, 6, 7, 8)


def hilo(*args, timeout=120):
    try:
        done = subprocess.run([HILO, *args], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return 124, "", "timed out"
    return done.returncode, done.stdout, done.stderr


def first_error(text):
    lines = [line for line in text.splitlines() if "error" in line]
    return (lines or text.splitlines() or ["?"])[0][-300:]


def first(problems):
    return next((p for p in problems if p), None)


def disabled_reason(text):
    found = re.match(r"//\s*RUN-DISABLED\s*(\([^)]*\))?", text)
    return (found.group(1) or "(no reason given)") if found else None


def split_top(text):
    """Splits at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        if c in "<({[":
            depth += 1
        elif c in ">)}]" and text[k - 1] != "-":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:k])
            start = k + 1
    return parts + [text[start:]] if text.strip() else []


DTYPES = {"i1": "pred", "f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2"}


def shape_of(mlir, size):
    """tensor<?x3xf32> as f32[N,3]."""
    body = re.search(r"tensor<([^<>]*(?:<[^<>]*>)?)>", mlir).group(1).split(", #")[0]
    *dims, element = body.split("x") if not body.startswith("complex") else [body]
    if "complex" in body:
        dims = body[: body.index("complex")].split("x")[:-1]
        element = {"complex<f32>": "c64", "complex<f64>": "c128"}[body[body.index("complex"):]]
    elif element.startswith("ui"):
        element = "u" + element[2:]
    elif re.fullmatch(r"i\d+", element) and element != "i1":
        element = "s" + element[1:]
    element = DTYPES.get(element, element)
    return f"{element}[{','.join(str(size) if d == '?' else d for d in dims)}]"


def arg_shapes(text, size):
    """Types for main's arguments; scalars that JAX adds for the sizes (they carry no attribute) get the size as value."""
    start = re.search(r"func\.func (?:public )?@main\(", text).end()
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    out = []
    for arg in split_top(text[start:end - 1]):
        shape = shape_of(arg, size)
        is_size = re.fullmatch(r"s(32|64)\[\]", shape) and "{" not in arg
        out.append(shape + (f"={size}" if is_size else ""))
    return ",".join(out)


def run_static(path, on):
    status, _, err = hilo("run", *on.split(), path)
    return None if status == 0 else f"exit {status} [{on}]: {first_error(err)}"


def run_sizes(path, text, on):
    works, why = 0, ""
    for size in SIZES:
        status, _, err = hilo("run", *on.split(), "--no-compare", path, "--arg-shapes", arg_shapes(text, size))
        works += status == 0
        why = why if status == 0 or why else f"size {size}: " + first_error(err)
    return None if works == len(SIZES) else f"{works} of {len(SIZES)} sizes work [{on}]; {why}"


def read_dynamic(path, scratch):
    status, _, err = hilo("check", path)
    if status:
        return "check: " + first_error(err)
    again = os.path.join(scratch, "again.mlir")
    for how in ("default", "generic"):
        status, _, err = hilo("convert", path, "--to", "stablehlo", f"--print={how}", "-o", again)
        if status:
            return f"print {how}: " + first_error(err)
        once, twice = (hilo("convert", p, "--to", "stablehlo", "--print=generic")[1] for p in (path, again))
        if once != twice:
            return f"{how} text does not read back to the same program"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("--filter", default="")
    parser.add_argument("--on", action="append", metavar="OPTIONS", help="of hilo run, instead of: " + "; ".join(PLATFORMS))
    args = parser.parse_args()
    platforms = args.on or PLATFORMS
    base = os.path.join(os.environ.get("HILO_CORPUS", "../shared/corpus"), "stablehlo/testdata")
    folders = args.folders or [base, os.path.join(base, "quantized"), os.path.join(base, "dynamic")]
    if not os.path.isdir(folders[0]):
        print(f"skipped: no folder {folders[0]}")
        return 77
    passed, failed, disabled = 0, 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if not name.endswith(".mlir") or args.filter not in path:
                    continue
                text = open(path, encoding="utf-8", errors="replace").read()
                reason = disabled_reason(text)
                if reason:
                    disabled.append((name, reason))
                    status, _, err = hilo("check", path)
                    problem = first_error(err) if status else None
                elif re.search(r"func\.func (public )?@main\([^)]*\?", text):
                    problem = read_dynamic(path, scratch) or first(run_sizes(path, text, on) for on in platforms)
                else:
                    problem = first(run_static(path, on) for on in platforms)
                if problem:
                    failed += 1
                    print(f"FAILED {name}: {problem}")
                else:
                    passed += 1
                    if args.v:
                        print(f"passed {name}")
    for name, reason in disabled:
        print(f"not run, disabled by its author {reason}: {name}")
    print(f"{passed} passed, {failed} failed")
    least = 1 if args.folders or args.filter else 1500
    return 1 if failed or passed < least else 0


if __name__ == "__main__":
    sys.exit(main())
