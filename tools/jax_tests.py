"""Runs JAX's own tests with a backend, and compares what two backends pass.

  jax_tests.py run TESTS FILE... --out DIR [--backend hilo] [options]
  jax_tests.py compare BASE OTHER [--markdown] [--failures] [FILE...]

TESTS is the folder tests of a JAX checkout at the tag of the jax in use, copied to where no folder jax stands beside it (it
would be imported in place of the wheel), with conftest.py and pyproject.toml of the checkout beside it; FILE is a name in it,
with or without .py. The Python that runs this script runs the tests, so it needs jax, pytest and what the files import
(absl-py, hypothesis, cloudpickle, flatbuffers).

run: one process of pytest at a time. A test that computes longer than --test-timeout, or takes five times as long without an end, or
in which the process dies, is noted as `timeout` or `crashed`, and a new process goes on behind it. DIR/FILE.json gets every test's outcome, with message and
end of the traceback of a failure. --again runs only tests that did not pass the last time or did not get their turn, and puts their
outcomes in place of the old ones.

compare: reads the JSON files of both folders. Prints, a line a file, what passed, failed and was skipped on both, and which share
of BASE's passes OTHER passes; with --failures also every test that BASE passes and OTHER does not, grouped by its message. The
exit status is 1 where --least SHARE is given and a file is below it, or where a process died.

  jax_tests.py run /src/jaxtests/tests lax_test nn_test --backend cpu --out /tmp/cpu
  jax_tests.py run /src/jaxtests/tests lax_test nn_test --backend hilo --out /tmp/hilo
  jax_tests.py compare /tmp/cpu /tmp/hilo --failures --least 0.995
"""
import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT_LIMIT, LINE_LIMIT, TRACE_LINES = 4000, 180, 30

# The part that pytest loads (-p jax_tests): it writes a line of JSON when a test begins and one when it has ended, so that whoever
# watches knows which test a process died in.


def pytest_collection_modifyitems(config, items):
    """Leaves out the tests that JAX_TESTS_DONE names, or all but those that JAX_TESTS_ONLY names."""
    done, only = names_in("JAX_TESTS_DONE"), names_in("JAX_TESTS_ONLY")
    keep = [i for i in items if test_name(i.nodeid) not in (done or ()) and (only is None or test_name(i.nodeid) in only)]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(keep)])
    items[:] = keep


def pytest_runtest_logstart(nodeid, location):
    note({"start": test_name(nodeid)})


_errors, _reports = {}, collections.defaultdict(list)


def pytest_runtest_makereport(item, call):
    if call.excinfo is not None:
        value = call.excinfo.value
        lines = "".join(traceback.format_exception(value)).splitlines()
        _errors[item.nodeid] = {"error": type(value).__name__, "message": str(value)[:TEXT_LIMIT],
                                "trace": "\n".join(lines[-TRACE_LINES:])}


def pytest_runtest_logreport(report):
    _reports[report.nodeid].append(report)


def pytest_runtest_logfinish(nodeid, location):
    reports, error = _reports.pop(nodeid, []), _errors.pop(nodeid, {})
    failed = [r for r in reports if r.failed]
    skipped = [r for r in reports if r.skipped]
    row = {"test": test_name(nodeid), "outcome": "passed", "seconds": round(sum(r.duration for r in reports), 3)}
    if failed:
        row.update(outcome="failed", **error)
    elif skipped and not any(r.passed and r.when == "call" for r in reports):
        text = skipped[0].longrepr
        row.update(outcome="skipped", message=str(text[2] if isinstance(text, tuple) else text)[:300])
    note(row)


def pytest_collectreport(report):
    if report.failed:
        note({"collect": str(report.longrepr)[-TEXT_LIMIT:]})


def note(row):
    with open(os.environ["JAX_TESTS_LOG"], "a") as log:
        log.write(json.dumps(row) + "\n")


def names_in(variable):
    path = os.environ.get(variable)
    return set(text_of(path).splitlines()) if path else None


def test_name(nodeid):
    return nodeid.split("::", 1)[-1]


def processor_seconds(pid):
    try:
        fields = text_of(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def text_of(path):
    with open(path, errors="replace") as file:
        return file.read()


# run


class Run:
    """One file's tests, over as many processes as it takes."""

    def __init__(self, o, name, folder, good):
        self.o, self.name, self.folder, self.good = o, name, folder, good  # good: names that need not run again
        self.log = os.path.join(folder, "log")
        self.output = os.path.join(folder, "output")
        self.tests, self.collect, self.finished = {}, None, False

    def environment(self, only=None):
        o, env = self.o, dict(os.environ)
        env.update(JAX_PLATFORMS=o.backend, JAX_NUM_GENERATED_CASES=str(o.cases), JAX_SKIP_SLOW_TESTS="0" if o.slow else "1",
                   JAX_TESTS_LOG=self.log, PYTHONDONTWRITEBYTECODE="1", PYTHONFAULTHANDLER="1")
        env["PYTHONPATH"] = os.pathsep.join(o.path + [HERE] + [p for p in [env.get("PYTHONPATH")] if p])
        if o.x64:
            env["JAX_ENABLE_X64"] = "1"
        if o.library and o.backend != "cpu":
            env["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"{o.backend}:{os.path.abspath(o.library)}"
        for name, names in (("DONE", [*self.good, *self.tests]), ("ONLY", only)):
            env.pop("JAX_TESTS_" + name, None)
            if names is not None:
                env["JAX_TESTS_" + name] = os.path.join(self.folder, name)
                with open(env["JAX_TESTS_" + name], "w") as out:
                    out.write("\n".join(names) + "\n")
        env.update(pair.split("=", 1) for pair in o.env)
        return env

    def command(self, *more):
        return [sys.executable, "-m", "pytest", "-q", "-p", "jax_tests", "-p", "no:cacheprovider", "--tb=native", "-rN",
                "--no-header", os.path.join("tests", self.name + ".py"), *(["-k", self.o.k] if self.o.k else []), *more]

    def all(self):
        """Starts processes until every test has an outcome or the time is up."""
        end = time.time() + self.o.file_timeout
        while not self.finished and time.time() < end:
            before = len(self.tests)
            how = self.one(end)
            if how == "done" or (how != "time" and len(self.tests) == before):
                self.finished = how == "done"
                return

    def one(self, end):
        """One process: returns "done" where it went through, "time" where the file's time was up, "died" elsewhere."""
        open(self.log, "w").close()
        root = os.path.dirname(os.path.abspath(self.o.tests))
        with open(self.output, "w") as out:
            child = subprocess.Popen(self.command(), cwd=root, env=self.environment(), stdout=out, stderr=out,
                                     stdin=subprocess.DEVNULL, start_new_session=True)
        running, since, read, why = None, time.time(), 0, None
        test, used = None, 0
        try:
            while child.poll() is None:
                time.sleep(0.1)
                running, since, read = self.take(running, since, read)
                if running != test:
                    test, used = running, processor_seconds(child.pid)
                if time.time() > end:
                    why = "time"
                elif running and self.too_long(time.time() - since, processor_seconds(child.pid) - used):
                    why = "timeout"
                if why:
                    self.stop(child)
                    break
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            status = child.wait()
        running, since, read = self.take(running, since, read)
        if running:
            # Where the time of the file is up while a test runs, that test has no outcome.
            if why != "time":
                self.tests[running] = self.death(running, why or "crashed", status, time.time() - since)
            return "time" if why == "time" else "died"
        if status not in (0, 1, 5):
            self.collect = self.collect or text_of(self.output)[-TEXT_LIMIT:]
        return "done" if status in (0, 1, 5) else "died"

    def too_long(self, seconds, used):
        """On a machine with other work a test that computes may take longer by the clock; one that waits for ever does not compute."""
        return used > self.o.test_timeout or seconds > 5 * self.o.test_timeout

    def take(self, running, since, read):
        """Reads the log from `read` on."""
        with open(self.log) as log:
            log.seek(read)
            for line in iter(log.readline, ""):
                if not line.endswith("\n"):
                    break
                read += len(line.encode())
                row = json.loads(line)
                if "start" in row:
                    running, since = row["start"], time.time()
                elif "collect" in row:
                    self.collect = row["collect"]
                else:
                    running = None
                    self.tests[row.pop("test")] = row
                    if self.o.verbose and row["outcome"] not in ("passed", "skipped"):
                        print(f"  {row['outcome']}: {row.get('error', '')}: {row.get('message', '')[:150]!r}", flush=True)
        return running, since, read

    def stop(self, child):
        """Ends a process that takes too long, by a signal at which Python says where it stands."""
        if self.o.gdb:
            said = subprocess.run(["gdb", "-p", str(child.pid), "-batch", "-ex", "bt 25"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True).stdout
            self.gdb = "\n".join(line[:LINE_LIMIT] for line in said.splitlines() if line.startswith("#"))
        os.killpg(child.pid, signal.SIGABRT)
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)

    def death(self, test, outcome, status, seconds):
        text = text_of(self.output)
        at = max(text.rfind("Fatal Python error"), 0)
        row = {"outcome": outcome, "seconds": round(seconds, 3), "error": outcome,
               "message": f"signal {-status}" if status < 0 else f"exit status {status}",
               "trace": text[at:][:TEXT_LIMIT] if at else text[-TEXT_LIMIT:]}
        # What a library says before it aborts stands in front of Python's words.
        said = [line for line in text[:at].splitlines() if line.strip()][-1:] if at and outcome == "crashed" else []
        if said and not re.match(r"[.sFEx]+( *\[ *\d+%\])?$", said[0]):
            row["message"] += ": " + said[0][:300]
        if self.o.gdb and outcome == "crashed":
            row["gdb"] = self.under_gdb(test)
        elif self.o.gdb:
            row["gdb"] = self.gdb
        return row

    def under_gdb(self, test):
        """Runs the test again, alone, under gdb."""
        one = [*self.command()[:-1], os.path.join("tests", self.name + ".py"), "-p", "no:faulthandler"]
        env = self.environment([test])
        env.update(JAX_TESTS_LOG=os.devnull)
        env.pop("JAX_TESTS_DONE", None)
        command = ["gdb", "-batch", "-ex", "set debuginfod enabled off", "-ex", "handle SIGSEGV stop nopass", "-ex", "run",
                   "-ex", "bt 25", "--args", *one]
        try:
            done = subprocess.run(command, cwd=os.path.dirname(os.path.abspath(self.o.tests)), env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            return "gdb: no end"
        at = [m.start() for m in re.finditer(r"received signal|exited", done.stdout)]
        said = done.stdout[max(0, at[-1] - 80) if at else -TEXT_LIMIT:]
        return "\n".join(line[:LINE_LIMIT] for line in said.splitlines())[:TEXT_LIMIT]


def run_file(o, name):
    path = os.path.join(o.out, name + ".json")
    old = json.load(open(path)) if o.again and os.path.exists(path) else None
    good = {t: row for t, row in old["tests"].items() if row["outcome"] in ("passed", "skipped")} if old else {}
    begin = time.time()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(o, name, folder, good)
        try:
            run.all()
        finally:  # what is known is kept, also when it is ended
            keep_results(o, path, name, old, run, time.time() - begin)


def keep_results(o, path, name, old, run, seconds):
    tests = {**(old["tests"] if old else {}), **run.tests}
    result = {"file": name, "backend": o.backend, "cases": o.cases, "x64": o.x64, "seconds": round(seconds, 1),
              "finished": run.finished, "collect": run.collect, "tests": tests}
    with open(path + ".new", "w") as out:
        json.dump(result, out, indent=1)
    os.replace(path + ".new", path)
    print(f"{name}: {result['seconds']:.0f} s, " + ", ".join(f"{n} {what}" for what, n in sorted(counts(result).items()))
          + ("" if result["finished"] else ", not finished"), flush=True)


def counts(result):
    return collections.Counter(row["outcome"] for row in result["tests"].values())


# compare


def load(folder, names):
    found = sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".json"))
    return {name: json.load(open(os.path.join(folder, name + ".json"))) for name in found if not names or name in names}


def compare_file(base, other):
    """Returns the names BASE passes, and those of them that OTHER does not, each with its row."""
    passed = [t for t, row in base["tests"].items() if row["outcome"] == "passed"]
    lost = {t: other["tests"].get(t, {"outcome": "not run", "error": "not run", "message": ""}) for t in passed}
    return passed, {t: row for t, row in lost.items() if row["outcome"] != "passed"}


def message_group(row):
    """What failures with one cause have in common: the message without its numbers and names."""
    if row["outcome"] in ("skipped", "not run"):
        return row["outcome"] + ": " + row.get("message", "")[:120]
    lines = [line.strip() for line in row.get("message", "").splitlines() if line.strip()]
    text = lines[0] if lines else ""
    if row.get("error") == "AssertionError" and lines:
        text = " | ".join(lines[:2])
    text = re.sub(r"0x[0-9a-f]+", "0x~", text)
    text = re.sub(r"'[^']{1,80}'|%[\w.#-]+", "'~'", text)
    text = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)
    return f"{row.get('error', row['outcome'])}: {text[:240]}"


def print_table(base, other, markdown):
    """Returns the smallest share and whether a process died."""
    least, died, sums = 1.0, False, collections.Counter()
    row = "| {} | {} | {} | {} |" if markdown else "{:36} {:>18}  {:>24}  {:>8}"
    print(row.format("file", "XLA:CPU p / f / s", "Hilo p / f / s", "share"))
    if markdown:
        print("| --- | --- | --- | --- |")
    for name in base:
        if name not in other:
            continue
        b, h = counts(base[name]), counts(other[name])
        passed, lost = compare_file(base[name], other[name])
        share = 1 - len(lost) / len(passed) if passed else 1.0
        bad = h["crashed"] + h["timeout"]
        least, died = min(least, share), died or bad > 0
        sums.update(passed=len(passed), lost=len(lost))
        more = f" ({h['crashed']} crashed, {h['timeout']} too long)" if bad else ""
        more += "" if other[name]["finished"] else " unfinished"
        print(row.format(name, f"{b['passed']} / {b['failed'] + b['crashed'] + b['timeout']} / {b['skipped']}",
                         f"{h['passed']} / {h['failed'] + bad} / {h['skipped']}{more}", f"{100 * share:.2f}%"))
    total = sums["passed"]
    print(row.format("all", total, total - sums["lost"], f"{100 * (1 - sums['lost'] / total) if total else 100:.2f}%"))
    return least, died


def print_failures(base, other, markdown):
    groups = collections.defaultdict(list)
    for name in base:
        if name in other:
            for test, row in compare_file(base[name], other[name])[1].items():
                groups[message_group(row)].append((name, test, row))
    for group, rows in sorted(groups.items(), key=lambda g: -len(g[1])):
        files = collections.Counter(name for name, _, _ in rows)
        print(f"\n## {len(rows)} x {group}\n")
        print("in " + ", ".join(f"{name} ({n})" for name, n in files.most_common()))
        for name, test, row in rows[:3]:
            print(f"- {name}.py::{test}")
        name, test, row = rows[0]
        text = row.get("gdb") or row.get("trace") or row.get("message", "")
        if row["outcome"] not in ("skipped", "not run"):
            print("```\n" + (row.get("message", "")[:1500] + "\n...\n" if row["outcome"] == "failed" else "")
                  + "\n".join(text.splitlines()[-14:] if not row.get("gdb") else text.splitlines()[:30]) + "\n```")


def compare(o):
    base, other = load(o.base, o.files), load(o.other, o.files)
    least, died = print_table(base, other, o.markdown)
    if o.failures:
        print_failures(base, other, o.markdown)
    return 1 if o.least is not None and (least < o.least or died) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run files of JAX's tests")
    run.add_argument("tests", help="the folder tests of a JAX checkout")
    run.add_argument("files", nargs="+", help="files in it")
    run.add_argument("--out", required=True, help="folder for the results, a JSON file for each file")
    run.add_argument("--backend", default="hilo", help="JAX_PLATFORMS: hilo (default) or cpu, XLA's own")
    run.add_argument("--library", help="the plugin's library, where no installed package registers it")
    run.add_argument("--path", action="append", default=[], help="a folder in front of PYTHONPATH")
    run.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="more of the environment")
    run.add_argument("--cases", type=int, default=1, help="JAX_NUM_GENERATED_CASES (1)")
    run.add_argument("--x64", action="store_true", help="JAX_ENABLE_X64=1")
    run.add_argument("--slow", action="store_true", help="slow tests, too")
    run.add_argument("--test-timeout", type=float, default=60, help="seconds of processor time for a test (60); by the clock five times as long")
    run.add_argument("--file-timeout", type=float, default=3600, help="seconds for a file (3600)")
    run.add_argument("--again", action="store_true", help="only what did not pass the last time")
    run.add_argument("-k", help="only tests that this expression of pytest chooses")
    run.add_argument("--gdb", action="store_true", help="with gdb's backtrace where a process dies or hangs")
    run.add_argument("--verbose", action="store_true", help="say what fails while it runs")
    both = commands.add_parser("compare", help="compare two folders of results")
    both.add_argument("base", help="results of XLA:CPU")
    both.add_argument("other", help="results of Hilo")
    both.add_argument("files", nargs="*", help="only these files")
    both.add_argument("--markdown", action="store_true", help="the table as Markdown")
    both.add_argument("--failures", action="store_true", help="what OTHER does not pass, grouped by message")
    both.add_argument("--least", type=float, help="exit status 1 below this share, or where a process died")
    o = parser.parse_args()
    o.files = [os.path.basename(f).removesuffix(".py") for f in o.files]
    if o.command == "compare":
        return compare(o)
    os.makedirs(o.out, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process of the tests ends, too
    for name in o.files:
        run_file(o, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
