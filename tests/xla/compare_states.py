"""Runs each pass on the state that XLA left before it, and compares with the state that XLA left after it.

  compare_states.py [--files GLOB] [--pipeline cpu|gpu] [--pass NAME] [--diff] [--dumps DIR [--cores N] [--devices N]]

The states are dumps after every pass that changed something (corpus newest/cpu_passes and newest/gpu, or --dumps, a folder
of folders of such); where a proto lies beside one, Hilo reads that, which tells more. Hilo runs the one pass, as it stands in its own pipeline, and must leave the same graph: names, metadata, ids, the
order of what does not depend on each other, how asynchronous instructions are spelt and what nobody needs do not count. What follows from a search of XLA's own is
compared like the rest. Where XLA measured, which nobody can repeat without the device, config-assigner gets what was decided as a file
of results, if it leaves another state without, and must leave the same state then: these are counted by themselves. A pass whose
state differs has a row in docs/differences.md.
"""
import collections
import difflib
import fnmatch
import glob
import json
import os
import re
import sys
import tempfile
import threading

import measured
import oracle

# Per cent of the states that must be equal, without --files or --pass.
LEAST = {"cpu": 97, "gpu": 97}
STATE = re.compile(r"(module_\d+\..*)\.(\d{4})\.([^.]+)\.after_([^.]+)\.before_([^.]+)\.txt$")


# ---- one text, without what does not count ----

HEAD = re.compile(r"^(ENTRY )?%?([^ ]+) (?:\(.*\) -> .*)?\{$")
INSTRUCTION = re.compile(r"^  (ROOT )?%?([^ ]+) = (.*)$")
REFERENCE = re.compile(r"%([\w.\-]+)")
METADATA = re.compile(r', (?:metadata|origin)=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\}')
ELEMENT = re.compile(r"(?:\(.*\)|\S+) get-tuple-element\(%([\w.\-#]+)\), index=(\d+)(?:, (?:frontend_attributes|sharding)=.*)?$")
CONTROL = re.compile(r", control-predecessors=\{([^}]*)\}")
CONFIG = re.compile(r"backend_config=(?=[{\"])")
# Of operands that an instruction got later, as a bias: who reads a proto says that too.
USUAL_PRECISION = re.compile(r"(operand_precision=\{\w+(?:,\w+)*?)(?:,default)+\}")
ASYNC = re.compile(r"async-start\(.*, calls=%([\w.\-]+)")
CHAIN = re.compile(r"\basync-(update|done)\(%([\w.\-]+)")
HEAD_OF = re.compile(r" ([\w\-]+)\(")
SHORT = re.compile(r" [\w\-]+-(?:start|update|done)\(")
PART = re.compile(r"[()\[\]{}]|, |\"(?:[^\"\\]|\\.)*\"")
FRONTEND = re.compile(r", frontend_attributes=\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*\}")
SHARED = ("frontend_attributes=", "backend_config=")
BITCAST = re.compile(r"%([\w.\-]+) = \S+ bitcast\(%([\w.\-]+)\)")
TUPLE = re.compile(r" tuple\((.*?)\)")
EFFECTS = re.compile(r" (?:outfeed|send|send-done|recv|recv-done|infeed|custom-call|after-all|rng|all-reduce-start)\(")


def same_config(rest):
    """An instruction's text with its backend config, if that is JSON, in one order."""
    m = CONFIG.search(rest)
    try:
        value, end = json.JSONDecoder().raw_decode(rest, m.end()) if m else (None, 0)
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return rest
    if not isinstance(value, dict):
        return rest
    return rest[:m.end()] + json.dumps(value, sort_keys=True, separators=(",", ":")) + rest[end:]


class Text:
    """A module's computations, each as its instructions by name."""

    def __init__(self, text, one_of_each=False, bare=()):
        """With one_of_each equal constants are one: how many there are follows from what a dump does not tell. `bare` names
        instructions whose frontend attributes do not count."""
        self.header = text.split("\n", 1)[0]
        self.comps, self.entry, current = {}, None, None
        for line in text.splitlines():
            if current is None:
                head = HEAD.match(line)
                if head and not line.startswith("HloModule"):
                    current = self.comps.setdefault(head.group(2), {"root": None, "insts": {}})
                    self.entry = head.group(2) if head.group(1) else self.entry
            elif line.startswith("}"):
                current = None
            else:
                m = INSTRUCTION.match(line)
                if m:
                    current["insts"][m.group(2)] = same_config(USUAL_PRECISION.sub(r"\1}", METADATA.sub("", m.group(3))))
                    current["root"] = m.group(2) if m.group(1) else current["root"]
        write_async_short(self.comps)
        self.told = {}
        for comp in self.comps.values():
            name_elements(comp["insts"])
            for name in bare & comp["insts"].keys() if bare else ():
                comp["insts"][name] = FRONTEND.sub("", comp["insts"][name])
            if one_of_each:
                merge_constants(comp["insts"])

    def inner(self, name):
        """A computation, told in the order in which its root needs things, with numbers for names."""
        if name not in self.told:
            self.told[name] = []                            # against a cycle in damaged text
            self.told[name] = self.tell(self.comps[name])
        return self.told[name]

    def tell(self, comp):
        insts, number, out = comp["insts"], {}, []
        wanted = [n for n, rest in insts.items() if " parameter(" in " " + rest or EFFECTS.search(" " + rest)]
        wanted.sort(key=lambda n: (parameter_number(insts[n]), REFERENCE.sub("%", insts[n])))
        stack = [(n, False) for n in reversed(wanted + [comp["root"]])]
        while stack:
            name, done = stack.pop()
            if name in number or name not in insts:
                continue
            if not done:
                first, needed = CONTROL.split(insts[name])[1:2], REFERENCE.findall(CONTROL.sub("", insts[name]))
                needed += sorted(REFERENCE.findall("".join(first)), key=lambda n: REFERENCE.sub("%", insts.get(n, "")))
                stack.append((name, True))
                stack += [(r, False) for r in reversed(needed) if r in insts and r not in number]
                continue
            number[name] = len(number)
            rest = CONTROL.sub(lambda m: in_order(m, number), insts[name])
            out.append(f"%{number[name]} = " + REFERENCE.sub(lambda m: self.reference(m.group(1), number), rest))
        out.append(f"ROOT %{number.get(comp['root'])}")
        return out

    def reference(self, name, number):
        if name in number:
            return f"%{number[name]}"
        if name in self.comps:
            return "[" + " ; ".join(self.inner(name)) + "]"
        return "%?" + name

    def lines(self):
        return self.inner(self.entry) if self.entry else []


def parts(rest):
    """An instruction's text, cut where an attribute begins."""
    depth, cuts = 0, [0]
    for m in PART.finditer(rest):
        if m[0] == ", ":
            cuts += [m.start()] if depth == 0 else []
        else:
            depth += (m[0] in "([{") - (m[0] in ")]}")
    return [rest[a:b].removeprefix(", ") for a, b in zip(cuts, cuts[1:] + [None])]


def write_async_short(comps):
    """Asynchronous instructions as all but dumps write them: `abs-start(%x)` for an async-start that calls one abs. Who reads the
    text of a longer one gives its configuration and frontend attributes to what it wraps, too, as XLA does."""
    for comp in list(comps.values()):
        insts, ops = comp["insts"], {}
        for name, rest in insts.items():
            if (m := ASYNC.search(rest)) and m[1] in comps:
                wrapped = comps[m[1]]
                inner, *of_inner = parts(wrapped["insts"][wrapped["root"]])
                of_inner = [x for x in of_inner if not x.startswith(SHARED)]
                wrapped["insts"][wrapped["root"]] = ", ".join([inner, *of_inner])
                if all(n == wrapped["root"] or " parameter(" in " " + r for n, r in wrapped["insts"].items()):
                    ops[name] = HEAD_OF.search(inner)[1]
                    outer, *of_outer = parts(rest)
                    outer = outer.replace(" async-start(", f" {ops[name]}-start(")
                    insts[name] = ", ".join([outer, *(x for x in of_outer if x != "calls=%" + m[1]), *of_inner])
            elif (m := CHAIN.search(rest)) and m[2] in ops:
                ops[name] = ops[m[2]]
                insts[name] = rest.replace(" async-" + m[1], f" {ops[name]}-{m[1]}")
            if SHORT.search(insts[name]):
                first, *rest_of = parts(insts[name])
                insts[name] = ", ".join([first, *sorted(rest_of)])


def name_elements(insts):
    """Elements of tuples are named as dumps do (%t#1), also where nothing but a dump's reader made one."""
    elements = {name: m.groups() for name, rest in insts.items() if (m := ELEMENT.match(rest))}

    def element(m):
        name, indices = m.group(1), ""
        while name in elements:
            (name, *outer), index = elements[name][0].split("#"), elements[name][1]
            indices = "#".join(["", *outer, index]) + indices
        return "%" + name + indices

    for name, rest in insts.items():
        # A copy has the attributes of what it copies, which dumps do not show of an element.
        insts[name] = re.sub(r"( copy\(%[\w.\-]+#[\d#]+\)), frontend_attributes=.*", r"\1", REFERENCE.sub(element, rest))


def put_in_tuples(text):
    """Names of what tuples are made of, also below bitcasts. Whatever stands for an element of a tuple gets the element's
    frontend attributes, which dumps do not show."""
    names = {name for m in TUPLE.finditer(text) for name in REFERENCE.findall(m[1])}
    return names | {m[2] for m in BITCAST.finditer(text) if m[1] in names}


def merge_constants(insts):
    first = {}
    same = {name: first.setdefault(rest, name) for name, rest in insts.items() if " constant(" in rest}
    for name, rest in insts.items():
        insts[name] = REFERENCE.sub(lambda m: "%" + same.get(m.group(1), m.group(1)), rest)


def in_order(control, number):
    """Who goes first has no order among themselves."""
    names = sorted(REFERENCE.findall(control.group(1)), key=lambda n: number.get(n, 0))
    return ", control-predecessors={" + ", ".join("%" + n for n in names) + "}"


def parameter_number(rest):
    m = re.search(r" parameter\((\d+)\)", " " + rest)
    return int(m.group(1)) if m else 1 << 30


def pieces(lines):
    """Lines with the computations that stand in them on lines of their own, to be read."""
    return [p for line in lines for p in re.split(r"(?<==\[)| ; |(?=\](?:,|$))", line)]


def differences(want, got):
    """What differs; without numbers, of which one more changes all that follow, unless nothing else differs."""
    sides = [pieces(want), pieces(got)]
    bare = [[re.sub(r"%\d+", "%", line) for line in side] for side in sides]
    return list(difflib.unified_diff(*(bare if bare[0] != bare[1] else sides), "XLA", "hilo", "", "", 1, ""))[2:]


# ---- states and the passes between them ----

def states(folder):
    """[(number, pipeline, after, before, path)], without the stages inside copy-insertion."""
    found = ((STATE.match(os.path.basename(path)), path) for path in glob.glob(os.path.join(folder, "*.txt")))
    return sorted((int(m.group(2)), m.group(3), m.group(4), m.group(5), path) for m, path in found if m)


def changes(folder):
    """(pipeline, pass, the one behind it, state before, state after) for each pass that changed something."""
    last, trail, own = None, [], {}
    for number, pipeline, after, before, path in states(folder):
        inside = trail[len(trail) - trail[::-1].index(pipeline):] if pipeline in trail else []
        trail.append(pipeline)
        # A state that is not there (the corpus leaves out large ones) hides what it held; copy-insertion has three inside.
        near = last and number - last[0] == (4 if after == "copy-insertion" else 1)
        if near and after not in ["pipeline-start"] + inside:           # the end of a pipeline is no pass
            # Inside the partitioner a pipeline cleans up what it has made.
            yield pipeline, after, before, own.get(pipeline, last[1]) if after == "spmd-partitioning" else last[1], path
        last = (number, path)
        own[pipeline] = path


def plain(name):
    return re.sub(r"[-_ ]|-\d+$", "", name).lower()


# These give each reader of a tuple's element a copy of a constant, and dumps do not tell how many readers there are.
# A run of these does what another run of XLA's does, since they go over the program in another order (docs/differences.md): the
# states then are the same once the pass has run to its end, which counts by itself.
TO_THE_END = {plain(name) for name in ("algsimp", "simplify-while-loops")}
FOR_ELEMENTS = {plain(name) for name in ("algsimp", "tuple-simplifier")}
ONE_OF_EACH = {plain(name) for name in ("simplify-while-loops",)}
ASK_THE_HEADER = {plain(name) for name in ("shardy-xla", "sharding-propagation")}
PARTITIONS = re.compile(r"num_partitions=(\d+)")


def still_runs(item):
    """Whether an item of a pipeline is one of the newest release, which made the states."""
    return "unless" not in item


def next_of(names, runs, k):
    """What runs behind item k."""
    return next((n for n, r in list(zip(names, runs))[k + 1:] if r), "pipelineend")


# This one chooses by measuring.
MEASURES = plain("config-assigner")


class Places:
    """Where in hilo's pipeline a pass of XLA's stands."""

    def __init__(self, platform, cores, devices):
        self.own, self.options = {"cpu-parallel-task-assigner": f"{{threads={max(cores, devices)} cores={cores}}}"}, {}
        rc, out, err = oracle.run_hilo(["passes", platform, "--json"], xla="")
        if rc != 0:
            sys.exit("hilo passes: " + err)
        self.lists, self.passes = {}, {}
        self.note(json.loads(out)[0], "")
        rc, out, _ = oracle.run_hilo(["opt", "--list-passes", "--json"], xla="")
        self.all = {plain(r["name"]) for r in json.loads(out) if r["kind"] == "pass"}

    def note(self, item, path):
        here = path + item["name"]
        names = [plain(i["name"]) for i in item["items"]]
        runs = [still_runs(i) for i in item["items"]]
        self.lists.setdefault(plain(item["name"]), []).append((here, names, runs))
        seen = collections.Counter()
        for i in item["items"]:
            seen[plain(i["name"])] += 1
            if i["kind"] == "pass" and still_runs(i):
                n = seen[plain(i["name"])]
                place = f"{here}/{i['name']}" + (f"#{n}" if n > 1 else "")
                self.passes.setdefault(plain(i["name"]), place)
                self.options[place] = i["options"]
            self.note(i, here + "/")

    def to_the_end(self, name, place):
        """A pipeline that runs the pass with the options of its place until it finds nothing more."""
        return f"again({name}{{{self.options.get(place, '')}}}, tuple-simplifier, dce)*"

    def of(self, pipeline, name, before):
        """The place, or the bare name of a pass that stands elsewhere or nowhere in the pipeline."""
        if name in self.own:
            return name + self.own[name]
        for path, names, runs in self.lists.get(plain(pipeline), ()):
            at = [k for k, n in enumerate(names) if n == plain(name) and runs[k]]
            if at:
                follows = [k for k in at if next_of(names, runs, k) == plain(before)]
                n = names[:follows[0] if follows else at[0]].count(plain(name)) + 1
                return f"{path}/{name}" + (f"#{n}" if n > 1 else "")
        return self.passes.get(plain(name), name)


def same_at_the_end(passes, target, new, out):
    """Whether XLA's state and hilo's are the same once `passes` have run over both."""
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        ours = os.path.join(folder, "ours.txt")
        with open(ours, "wb") as f:
            f.write(out)
        for path in (new, ours):
            rc, text, _ = oracle.run_hilo(["opt", path, "--passes=" + passes, "--large-constants", target], 120, "")
            ends.append(Text(text.decode(), True).lines() if rc == 0 else None)
    return ends[0] is not None and ends[0] == ends[1]


def most_telling(name, state):
    """The proto that was dumped beside a text, if there is one: it tells in which order instructions were made, how many take an
    element of a tuple, and all of a constant. What JAX allows the partitioner, only a text's header tells."""
    proto = state.removesuffix(".txt") + ".hlo.pb"
    return proto if os.path.exists(proto) and plain(name) not in ASK_THE_HEADER else state


def run(place, given, target, *more):
    if given.endswith(".txt"):
        more += "--large-constants",
    else:
        with open(given.removesuffix(".hlo.pb") + ".txt") as text:
            partitions = PARTITIONS.search(text.readline())
        more += (f"--partitions={partitions[1]}",) if partitions else ()
    return oracle.run_hilo(["opt", given, f"--passes={place}", "--no-verify", target, *more], 120, "")


def run_as_measured(place, old, new, target):
    """The pass with what XLA decided between the two states."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.pbtxt")
        rc, out, err = run(place, old, target, "--xla_gpu_dump_autotune_results_to=" + path)
        if rc != 0:
            return rc, out, err
        with open(path) as chosen, open(new) as after:
            results = measured.results(chosen.read(), after.read())
        with open(path, "w") as f:
            f.write(results)
        return run(place, old, target, "--xla_gpu_load_autotune_results_from=" + path)


def options(doc):
    p = oracle.options(doc)
    p.add_argument("--pipeline", choices=("cpu", "gpu"), action="append")
    p.add_argument("--pass", dest="only", help="only this pass")
    p.add_argument("--diff", action="store_true", help="show how the graphs differ")
    return p


def without_row(passes):
    """Those of the passes that docs/differences.md has no row about."""
    with open(os.path.join(oracle.ROOT, "docs", "differences.md")) as page:
        what = " ".join(line.split("|")[1] for line in page if line.startswith("| "))
    return [name for name in passes if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", what)]


def compare(a, roots):
    """Tells how the states in a folder of folders of dumps for each platform compare: {platform: per cent that is equal}, and the
    passes whose differences nothing explains."""
    oracle.hilo()
    good, told, late, bad, work = *(collections.Counter() for _ in range(4)), []
    for platform, root in roots.items():
        places = Places(platform, a.cores, a.devices)
        for case in sorted(os.listdir(root)):
            if a.files and not fnmatch.fnmatch(case, a.files):
                continue
            for pipeline, name, before, old, new in changes(os.path.join(root, case)):
                if not a.only or plain(a.only) == plain(name):
                    place = places.of(pipeline, name, before) if plain(name) in places.all else None
                    end = places.to_the_end(name, place) if plain(name) in TO_THE_END else None
                    work.append((platform, case, name, place, end, old, new))
    show = threading.Lock()

    def one(job):
        platform, case, name, place, end, old, new = job
        target = glob.glob(os.path.join(os.path.dirname(old), "*gpu_target_config.pbtxt")) if platform == "gpu" else []
        target = "--target=" + (target[0] if target else platform)
        given = most_telling(name, old)
        rc, out, err = run(place, given, target) if place else (1, b"", b"no such pass")
        was_told = False
        label = f"{platform} {case} {os.path.basename(new).split('.', 2)[2][:-4]}"
        if rc != 0:
            said, equal = oracle.status_text(rc, err) if place else "no such pass", False
        else:
            one = given == old and plain(name) in ONE_OF_EACH
            with open(old) as before, open(new) as after:
                bare = put_in_tuples(before.read()) if plain(name) in FOR_ELEMENTS else set()
                want, got = Text(after.read(), one, bare).lines(), Text(out.decode(), one, bare).lines()
            equal = want == got
            if not equal and plain(name) == MEASURES:
                rc, out, err = run_as_measured(place, given, new, target)
                got = Text(out.decode(), one).lines() if rc == 0 else got
                equal = was_told = want == got
            said = "" if equal else f"{place}\n      XLA: {len(want)} lines, hilo: {len(got)}"
        explained = not equal and rc == 0 and end and same_at_the_end(end, target, new, out)
        with show:
            (told if was_told else good if equal else late if explained else bad)[platform + " " + name] += 1
            if not equal and not explained:
                print(f"  {label}: {said}  [{os.path.basename(old)}]")
                if a.diff and rc == 0:
                    print("\n".join("      " + x[:300] for x in differences(want, got)[:60]))

    for _ in oracle.each(one, work, a.jobs):
        pass
    print(f"\n{'pass':60} equal measured at the end other")
    for name in sorted(set(good) | set(told) | set(late) | set(bad), key=lambda n: (-bad[n], -late[n], n)):
        print(f"{name:60} {good[name]:5} {told[name]:8} {late[name]:10} {bad[name]:5}")
    share = {}
    for platform in roots:
        n, t, k, m = (sum(x[name] for name in x if name.startswith(platform)) for x in (good, told, late, bad))
        of = n + t + k + m
        share[platform] = 100 * (n + t) / max(1, of)
        print(f"{platform}: {n + t} of {of} states that change are equal ({share[platform]:.1f}%), {t} of them with what XLA "
              f"measured; {k} more at the pass' end")
    strange = without_row(sorted({name.split(" ", 1)[1] for name in bad}))
    if strange:
        print("differ, and docs/differences.md does not say why: " + ", ".join(strange))
    return share, strange


def main():
    p = options(__doc__)
    p.add_argument("--dumps", metavar="DIR", help="a folder of folders of dumps (with --pipeline), not the corpus")
    p.add_argument("--cores", type=int, default=16, help="of the machine that made the dumps (default: the corpus' 16)")
    p.add_argument("--devices", type=int, default=1, help="that the dumps were made for")
    a = p.parse_args()
    of_corpus = {"cpu": "cpu_passes", "gpu": "gpu"}
    roots = {platform: a.dumps or os.path.join(oracle.corpus(), "newest", of_corpus[platform])
             for platform in a.pipeline or ("cpu", "gpu")}
    share, strange = compare(a, roots)
    if not (a.files or a.only or a.dumps):
        sys.exit(0 if all(share[platform] >= LEAST[platform] for platform in share) and not strange else 1)


if __name__ == "__main__":
    main()
