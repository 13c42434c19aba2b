"""Holds what `--json` prints against the schemas in schemas/: json_reports.py PROGRAM.

Every command that takes --json has cases below, on good files, on several, on directories and on what cannot be read, and
every schema is used. Keys that a schema does not name count as errors here, for docs/json.md says of each what it is.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
         "null": type(None)}

# Commands, run in a copy of the training fixture with the files that prepare() adds.
CASES = """
check before.hlo
check before.hlo typo.hlo nothing.hlo
check dir
check program.mlir
check sharded.jax_export
view before.hlo
view before.hlo out.hlo -o m.html
view dump -o m.html
view program.mlir --to=svg -o m.svg
view typo.hlo
view before.hlo --around=nobody -o m.svg
stats before.hlo
stats --computations before.hlo typo.hlo
stats --by=scope --depth=2 --peak before.hlo
stats --by=loop before.hlo
stats --top=3 before.hlo
stats program.jaxpr
stats dir
stats sharded.jax_export
stats --compare before.hlo out.hlo
stats --compare before.hlo typo.hlo
diff before.hlo out.hlo
diff before.hlo out.hlo --versions --all
diff before.hlo typo.hlo
diff two.hlo two.hlo
diff dir dir
diff dir dump
diff dump --passes
diff dump/module_0000.jit_train_step.history
run before.hlo --args args.npz --expect results.npz --print
run before.hlo --seed=1 --expect results.npz
run before.hlo --args args.npz --platform=cpu --stats --profile trace.json
run before.hlo --args args.npz --compare-with after.hlo
run before.hlo --args args.npz --compare-with nothing.hlo
run before.hlo --args args.npz --compare-with before.hlo --platform=cpu
run before.hlo --args args.npz --compare-with wrong.hlo --platform=cpu
run net.hlo --compare-with net.hlo --platform=cpu
run before.hlo --trace values.json
run before.hlo --trace values.json --platform=cpu
run checks.mlir
run two.hlo
run typo.hlo
opt before.hlo --pipeline=cpu
opt before.hlo typo.hlo --pipeline=cpu --stats -o out.hlo
opt two.hlo --passes=algsimp --dry
opt before.hlo --passes=algsimp,dce --provenance
opt before.hlo --pipeline=cpu --check-each --args args.npz
opt before.hlo --pipeline=cpu --check-each --args args.npz --break-rule=A32
opt before.hlo --emit=tile
opt before.hlo --pipeline=cpu-native --emit=asm -o out.txt
opt --list-passes
opt --list-rules
history dump/module_0000.jit_train_step.history
history dump/module_0000.jit_train_step.history --step=1
history dump/module_0000.jit_train_step.history --step=1000
history before.hlo
tour before.hlo
tour program.jaxpr --pipeline=gpu
tour typo.hlo
explore before.hlo info tanh.1 --format=none
explore before.hlo nothing
explore typo.hlo info x
explore two.hlo info x
index dump2
index dir
index nothing
find dump2 dot --trace
find dump2 --op=fusion --files
find dump2 nowhere
find dump2 --op=tahn
clean before.hlo typo.hlo dir -o cleaned
clean before.hlo typo.hlo dir -o cleaned
clean before.hlo -o before.hlo
extract before.hlo --each -o each --record
extract before.hlo --op=tanh
extract before.hlo nothing
extract typo.hlo x
slice before.hlo tanh.1 --backward
slice before.hlo tanh.1 --forward -o slice.hlo --record
slice before.hlo nothing --forward
reduce before.hlo -o reduced.hlo -- ./has_tanh.sh
reduce before.hlo -o reduced.hlo --mismatch=cpu
reduce typo.hlo -o reduced.hlo -- false
bisect before.hlo --passes=algsimp --break-rule=A32 --args args.npz -o states
bisect before.hlo --pipeline=simplify
bisect before.hlo --passes=dce -- false
bisect typo.hlo --passes=dce
bench print before.hlo
bench parse before.hlo typo.hlo
bench compile before.hlo program.mlir --repeats=2
bench run before.hlo typo.hlo --args args.npz --repeats=3
rewrite before.hlo --env=algebra --choices
rewrite before.hlo --env=gpu-fusion --policy=xla,greedy --validate
rewrite before.hlo typo.hlo nothing.hlo --decide=0;1
rewrite before.hlo --decide=99
rewrite before.hlo --policy=none --record=game.json
rewrite dir --policy=none
rewrite two.hlo --policy=none
rewrite before.hlo --saturate --validate
rewrite before.hlo typo.hlo nothing.hlo --saturate --rounds=1 --extract=random --fast-math
rewrite before.hlo --saturate --engine-rules=nothing-like-that
rewrite --list-envs
rewrite --list-policies
rewrite --list-laws
replay game.json --validate
replay game.json --program=out.hlo
replay before.hlo
passes
passes cpu algsimp cse
passes --rules
targets
targets cpu h100
sim before.hlo typo.hlo nothing.hlo
sim dir
sim --bridge before.hlo -o step.pb
sim --bridge two.hlo
sim --convert graph.textproto
sim --convert graph.textproto -o graph.pb --extend=4 --enforce-postorder
sim --translate=ring.json graph.textproto
sim --translate=ring.json graph.textproto -o graphs --processors=0,2
sim --translate=ring.json graph.textproto --processors=9
sim --alone graphs/graph.2.textproto --log log.csv
sim --alone graph.textproto
sim --list-systems
sim --system=h100 --exchange=all-reduce --bytes=1MiB --devices=16 --messages
sim --system=h100 --exchange=all-reduce --bytes=1MiB --devices=16 --net=simgrid
sim --system=h100 --exchange=barrier
sim --system=h1000 --exchange=barrier
sim --system=h100 before.hlo typo.hlo
sim --system=h100 step.hlo --overlap --devices=64 --what-if=bandwidth=2x,compute=2x --sweep=bandwidth=1x,2x;all-reduce=ring,levels --chakra=step
sim --system=h100 step.0.et --jitter=0.1
sim --system=h100 step.hlo --devices=7
sim --system=h100 layer.hlo --search-mesh=data,model --devices=8 --shard=x=data,_;w=_,model
"""

PROGRAM = """func.func @main() -> tensor<3xi32> {
  %0 = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi32>
  return %0 : tensor<3xi32>
}
"""
CHECKS = """func.func @main() {
  %0 = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi32>
  check.expect_eq_const %0, dense<[0, 1, 0]> : tensor<3xi32>
  return
}
"""
JAXPR = """{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0:f32[] in (c,) }
"""
TWO = """HloModule first

ENTRY main {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  ROOT m = f32[4] negate(n)
}

HloModule second

ENTRY main {
  ROOT x = f32[4] parameter(0)
}
"""
GRAPH = """processor_id: -1
entry_subroutine {
  subroutine_root_id: 1 execution_probability: 1 execution_count: 1
  instructions { name: "all" opcode: "all-gather" instruction_id: 1 bytes_out: 48 communication_groups { group_ids: [0, 1, 2] } }
}
"""
STEP = """HloModule step, replica_count=8

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[1024,1024] parameter(0), metadata={source_file="step.py" source_line=3}
  y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[1024,1024] all-reduce(y), replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=add, metadata={source_file="step.py" source_line=7}
  z = f32[1024,1024] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[1024,1024] add(s, z)
}
"""
LAYER = """HloModule layer

ENTRY main {
  x = bf16[4096,4096] parameter(0)
  w = bf16[4096,4096] parameter(1)
  ROOT h = bf16[4096,4096] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
NET = """HloModule net, num_partitions=2

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[8,4] tanh(x)
  zero = f32[] constant(0)
  ROOT sum = f32[4] reduce(y, zero), dimensions={0}, to_apply=add
}
"""
RING = """{"collective": {"all-gather": {"algorithm": "unidir-ring"}}, "protocol": {"sendrecv": {"algorithm": "push"}}}
"""


def prepare(hilo, folder):
    shutil.copytree(os.path.join(ROOT, "tests/fixtures/mlp_train"), folder, dirs_exist_ok=True)
    with open(os.path.join(folder, "before.hlo")) as f:
        text = f.read()
    for name, content in (("typo.hlo", text.replace(" tanh(", " tahn(")), ("program.mlir", PROGRAM), ("checks.mlir", CHECKS),
                          ("program.jaxpr", JAXPR), ("two.hlo", TWO), ("graph.textproto", GRAPH), ("ring.json", RING), ("step.hlo", STEP), ("layer.hlo", LAYER), ("net.hlo", NET), ("dir/a.hlo", text), ("dir/b.hlo", "HloModule b"), ("dir/notes.txt", "hello")):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as f:
            f.write(content)
    subprocess.run([hilo, "opt", "before.hlo", "--passes=algsimp", "--break-rule=A32", "-q", "-o", "wrong.hlo"], cwd=folder, check=True)
    with open(os.path.join(folder, "has_tanh.sh"), "w") as f:
        f.write("#!/bin/sh\n! grep -q 'tanh(' \"$1\"\n")
    os.chmod(os.path.join(folder, "has_tanh.sh"), 0o755)
    shutil.copy(os.path.join(ROOT, "tests/fuzz/seeds/exported/sharded.0.11.jax_export"), os.path.join(folder, "sharded.jax_export"))
    subprocess.run([hilo, "opt", "before.hlo", "--pipeline=cpu", "--dump-to=dump", "--dump-as=delta", "-o", "out.hlo",
                    "--dump-pass=.*"], cwd=folder, check=True)
    subprocess.run([hilo, "opt", "before.hlo", "--pipeline=cpu", "--dump-to=dump2", "-o", "out.hlo", "--dump-pass=.*"], cwd=folder, check=True)


class Validator:
    """As much of JSON Schema as the schemas use."""

    def __init__(self, folder):
        self.files = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name)) as f:
                self.files[name] = json.load(f)

    def resolve(self, ref, file):
        name, _, path = ref.partition("#")
        found = self.files[name or file]
        for word in path.strip("/").split("/"):
            found = found[word]
        return found, name or file

    def errors(self, value, schema, file, at):
        if "$ref" in schema:
            schema, file = self.resolve(schema["$ref"], file)
        if "anyOf" in schema:
            if all(list(self.errors(value, one, file, at)) for one in schema["anyOf"]):
                yield f"{at}: none of what it may be"
            return
        if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
            yield f"{at}: {value!r}"
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(isinstance(value, TYPES[k]) and (k == "boolean") == isinstance(value, bool) for k in kinds):
            yield f"{at}: {value!r} is no {' or '.join(kinds)}"
        elif isinstance(value, list):
            for k, one in enumerate(value):
                yield from self.errors(one, schema.get("items", {}), file, f"{at}[{k}]")
        elif isinstance(value, dict):
            yield from self.object_errors(value, schema, file, at)

    def object_errors(self, value, schema, file, at):
        known = schema.get("properties", {})
        if "properties" not in schema and "additionalProperties" not in schema:
            return
        yield from (f"{at}: {key} is missing" for key in schema.get("required", []) if key not in value)
        for key, one in value.items():
            rest = schema.get("additionalProperties")
            if key not in known and rest is None:
                yield f"{at}: {key} is not in the schema"
            else:
                yield from self.errors(one, known.get(key, rest), file, f"{at}.{key}")


def reports(hilo, folder):
    """Of each case its command and what it printed."""
    for line in CASES.strip().split("\n"):
        done = subprocess.run([hilo, line.split()[0], "--json", *line.split()[1:]], cwd=folder, capture_output=True, text=True)
        yield line, done.stdout, done.returncode


def main():
    hilo = os.path.realpath(sys.argv[1])
    validator = Validator(os.path.join(ROOT, "schemas"))
    commands = subprocess.run([hilo, "--list-commands"], capture_output=True, text=True, check=True).stdout.split()
    wanted = {c for c in commands
              if "--json" in subprocess.run([hilo, c, "--list-options"], capture_output=True, text=True).stdout.split()}
    seen, used, bad = set(), {"common.schema.json"}, 0
    with tempfile.TemporaryDirectory() as folder:
        prepare(hilo, folder)
        for line, text, status in reports(hilo, folder):
            seen.add(line.split()[0])
            try:
                rows = json.loads(text)
            except ValueError as e:
                print(f"{line}: status {status}: no JSON: {e}: {text[:200]!r}")
                bad += 1
                continue
            name = f"{rows[0].get('report')}.schema.json" if rows and isinstance(rows, list) else "common.schema.json"
            used.add(name)
            for error in list(validator.errors(rows, validator.files.get(name, {}), name, "report"))[:5]:
                print(f"{line}: {error}")
                bad += 1
    for what, missing in (("command without a case", wanted - seen), ("schema that nothing uses", set(validator.files) - used)):
        for name in sorted(missing):
            print(f"{what}: {name}")
            bad += 1
    print(f"{len(CASES.strip().splitlines())} reports held against {len(validator.files)} schemas: {bad} errors")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
