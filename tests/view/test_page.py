"""The pages of `hilo view` in a browser: test_page.py PROGRAM [--shots FOLDER]

What is on the page is asked of the page (window.hilo), and what a person does is done with real clicks and keys. Skipped with a
message where no Chromium is to be had. Times are printed, by the clock and of the processor: what is promised is held against the
latter, for the machine may have other things to do, and the clock may show SLACK times as much.
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser as browsers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CORPUS = os.environ.get("HILO_CORPUS") or os.path.join(ROOT, "..", "shared", "corpus")
MODELS = os.path.join(CORPUS, "models")
SEARCH_MS, FIRST_S, LARGE_S, PAGE_MB = 100, 2, 10, 10  # what is promised
SLACK = 10

# Whatever is open: children lie within their box and not on each other; large labels are not cut to nothing.
TIDY = """(() => {
  const bad = [];
  const walk = box => {
    if (!box.layout || !box.layout.open) return;
    const kids = box.children();
    kids.forEach(k => { if (k.at.x < 0 || k.at.y < 0 || k.at.x + k.layout.w > box.layout.w + 0.5 || k.at.y + k.layout.h > box.layout.h + 0.5) bad.push(`${k.label} leaves ${box.label}`); });
    for (let a = 0; a < kids.length; a++) for (let b = a + 1; b < kids.length; b++) {
      const p = kids[a], q = kids[b];
      if (p.at.x < q.at.x + q.layout.w && q.at.x < p.at.x + p.layout.w && p.at.y < q.at.y + q.layout.h && q.at.y < p.at.y + p.layout.h) bad.push(`${p.label} lies on ${q.label}`);
    }
    kids.forEach(walk);
  };
  walk(hilo.app.near || hilo.app.top);
  return bad.slice(0, 5);
})()"""
# Edges go down, but for those that are turned; they begin and end at their boxes.
EDGES = """(() => {
  let n = 0, bad = 0;
  const walk = box => {
    if (!box.layout || !box.layout.open) return;
    const kids = box.children();
    for (const e of box.layout.edges) {
      n++;
      const a = kids[e.turned ? e.to : e.from], b = kids[e.turned ? e.from : e.to], p = e.points, near = (x, y) => Math.abs(x - y) < 1;
      if (!near(p[1], a.at.y + a.layout.h) || !near(p[p.length - 1], b.at.y) || p[p.length - 1] <= p[1]) bad++;
    }
    kids.forEach(walk);
  };
  walk(hilo.app.top);
  return [n, bad];
})()"""


class Failed(Exception):
    pass


def check(what, why):
    if not what:
        raise Failed(why)


class Test:
    def __init__(self, hilo, folder, browser, shots):
        self.hilo, self.folder, self.browser, self.shots = hilo, folder, browser, shots

    def make(self, *words, name):
        path = os.path.join(self.folder, name + ".html")
        subprocess.run([self.hilo, "view", *words, "-o", path, "-q"], check=True)
        return path

    def open(self, path, address=""):
        page = self.browser.open("file://" + path + address)
        page.wait("window.hilo !== undefined")
        page.evaluate("hilo.ready")
        self.settle(page)
        return page

    def settle(self, page):
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def shot(self, page, name):
        self.settle(page)
        if self.shots:
            page.screenshot(os.path.join(self.shots, name + ".png"))

    def sound(self, page, what):
        """No complaint, nothing asked of the network, boxes in order."""
        check(not page.errors, f"{what}: the console says {page.errors[:3]}")
        others = [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))]
        check(not others, f"{what}: asks for {others[:3]}")
        check(page.evaluate(TIDY) == [], f"{what}: {page.evaluate(TIDY)}")
        n, bad = page.evaluate(EDGES)
        check(bad == 0, f"{what}: {bad} of {n} edges do not lead from box to box")

    def labels(self, page):
        return [(b["label"], b["badge"]) for b in page.evaluate("hilo.seen()")]

    def click(self, page, label, count=1):
        at = page.evaluate(f"hilo.seen().filter(b => !b.open && b.label == {json.dumps(label)})[0]")
        check(at, f"no box '{label}' is drawn")
        canvas = page.evaluate("(r => [r.left, r.top])(document.getElementById('canvas').getBoundingClientRect())")
        page.click(canvas[0] + at["x"] + at["w"] / 2, canvas[1] + at["y"] + at["h"] / 2, count)
        self.settle(page)

    # --- Times: by the clock, and of the processor ---

    def first_picture(self, page):
        return page.evaluate("hilo.app.timing.first") / 1000, page.processor()

    def searches(self, page, *words):
        clock, thread = 0, page.processor("ThreadTime")
        for word in words:
            clock = max(clock, page.evaluate(f"(hilo.find({json.dumps(word)}), hilo.app.timing.search)"))
        return clock, 1000 * (page.processor("ThreadTime") - thread) / len(words)

    def fast(self, name, first, seconds, search):
        check(first[1] < seconds and first[0] < seconds * SLACK, f"{name}: the first picture takes too long")
        check(search[1] < SEARCH_MS and search[0] < SEARCH_MS * SLACK, f"{name}: searches take too long")

    # --- What is tried ---

    def small(self):
        """All that a page can do, on a program of 170 instructions."""
        page = self.open(self.make(os.path.join(ROOT, "tests/fixtures/mlp_train/before.hlo"), name="small"))
        self.sound(page, "small")
        check(len(self.labels(page)) >= 6, "small: hardly anything is drawn")
        pixels = page.evaluate("(() => { const c = document.getElementById('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                               " const s = new Set(); for (let k = 0; k < d.length; k += 4) s.add(d[k] << 16 | d[k + 1] << 8 | d[k + 2]); return s.size; })()")
        check(pixels > 20, f"small: the map has {pixels} colours")
        before = len(self.labels(page))
        closed = page.evaluate("hilo.seen().filter(b => !b.open && b.kind == 'group' && !/param/.test(b.label))[0].label")
        self.click(page, closed)
        check(len(self.labels(page)) > before, f"small: '{closed}' does not open")
        self.sound(page, "small, opened")
        page.evaluate("document.getElementById('canvas').focus()")
        page.key("e")
        self.settle(page)
        check(not any(b["open"] and b["label"] == closed for b in page.evaluate("hilo.seen()")), "small: key e does not close")
        self.search(page)
        self.details(page)
        self.colours(page)

    def search(self, page):
        page.key("/")
        check(page.evaluate("document.activeElement.id") == "find", "key / does not lead to the search")
        for letter in "op:dot":
            page.key(letter)
        check(page.evaluate("hilo.app.hits.length") == 5, f"{page.evaluate('hilo.app.hits.length')} dots are found")
        check(page.evaluate("document.querySelectorAll('#hits div').length") == 5, "hits are not listed")
        page.key("Enter")
        self.settle(page)
        name = page.evaluate("hilo.app.state.name(hilo.app.selected.what)")
        check(name.startswith("dot"), f"Enter leads to {name}")
        check(page.evaluate("location.hash") == "#" + name, "the address does not follow")
        check(page.evaluate("hilo.seen().some(b => b.label == hilo.app.selected.label)"), "what is found is not drawn")
        for text, least in (("shape:f32[16,5]", 3), ("/^dot_general/", 5), ("scope:transpose op:dot", 2), ("zzzz", 0)):
            page.evaluate(f"hilo.find({json.dumps(text)})")
            n = page.evaluate("hilo.app.hits.length")
            check(n >= least and (least or n == 0), f"'{text}' finds {n}")
        page.evaluate("hilo.find('')")

    def details(self, page):
        page.evaluate("document.getElementById('canvas').focus(); hilo.goTo('dot_general.5')")
        words = page.evaluate("document.getElementById('details').innerText")
        for word in ("shape", "f32[", "operands", "users", "lhs_contracting_dims", "source", "flops", "bytes", "on h100"):
            check(word in words, f"details do not tell '{word}'")
        page.key("ArrowUp")
        check(page.evaluate("hilo.app.state.users(hilo.app.selected.what).some(u => hilo.app.state.name(u) == 'dot_general.5')"),
              "key Up does not lead to an operand")
        page.evaluate("hilo.goTo('dot_general.5')")
        page.key("n")
        self.settle(page)
        near = page.evaluate("hilo.app.near.children().length")
        check(3 <= near <= 40 and page.evaluate(TIDY) == [], f"near it are {near}: {page.evaluate(TIDY)}")
        page.key("n")
        check(page.evaluate("hilo.app.near.children().length") > near, "key n again shows no more")
        page.key("Escape")
        check(page.evaluate("hilo.app.near") is None, "Esc does not lead back")

    def colours(self, page):
        heats = page.evaluate("[...document.getElementById('heat').options].map(o => o.value)")
        check(heats == ["op", "bytes", "flops", "time", "mem"], f"colours are {heats}")
        for heat in heats[1:]:
            page.key("h")
            check(page.evaluate("hilo.app.drawing.heat") == heat, f"key h does not lead to {heat}")
            dear = page.evaluate("(() => { const d = hilo.app.drawing, b = hilo.app.top.children(); return new Set(b.map(k => d.fill(k)[0])).size; })()")
            check(dear >= 2, f"{heat}: everything has one colour")
        theme = page.evaluate("document.documentElement.dataset.theme")
        page.key("d")
        check(page.evaluate("document.documentElement.dataset.theme") != theme, "key d does not change the light")
        page.key("d")
        self.sound(page, "small, at last")

    def links(self):
        path = os.path.join(self.folder, "small.html")
        page = self.open(path, "#dot_general.5")
        check(page.evaluate("hilo.app.selected && hilo.app.selected.label") == "dot_general.5", "the link does not lead to its instruction")
        check(page.evaluate("hilo.seen().some(b => b.label == 'dot_general.5')"), "what the link leads to is not drawn")
        page = self.open(path, "#nobody%20there")
        self.sound(page, "a link to nobody")

    def states(self):
        """A dump's passes, and two modules."""
        dump = os.path.join(self.folder, "dump")
        source = os.path.join(ROOT, "tests/fixtures/mlp_train/before.hlo")
        subprocess.run([self.hilo, "opt", source, "--pipeline=cpu", f"--dump-to={dump}", "--dump-pass=.*", "-o", os.path.join(self.folder, "after.hlo")], check=True)
        page = self.open(self.make(dump, name="passes"))
        n = page.evaluate("hilo.app.model.n")
        check(n > 10, f"the slider has {n} states")
        kinds = set()
        for k in range(n):
            page.evaluate(f"hilo.setState({k})")
            self.sound(page, f"state {k}")
            kinds.update(page.evaluate("[...hilo.app.model.marks[hilo.app.state.number].values()].map(m => hilo.app.model.data.marks[m.kind])"))
        check({"new", "gone", "changed", "fused"} <= kinds, f"the passes show {sorted(kinds)}")
        page.key("[")
        check(page.evaluate("hilo.app.state.number") == n - 2, "key [ does not lead to the state before")
        page.evaluate(f"hilo.setState({n - 1}); hilo.goTo(hilo.app.state.name(search(hilo.app.state, 'op:fusion')[0]))")
        page.evaluate("hilo.toggle(hilo.app.selected)")
        inside = page.evaluate("hilo.app.selected.children().map(b => hilo.app.state.op(b.what))")
        check("parameter" in inside and len(inside) >= 2, f"a fusion holds {inside}")
        self.sound(page, "a fusion, opened")
        page = self.open(self.make(source, os.path.join(self.folder, "after.hlo"), name="two"))
        check(page.evaluate("hilo.app.model.n") == 2 and page.evaluate("hilo.app.drawing.heat") == "changes", "two modules are not compared")
        self.sound(page, "two modules")

    def model(self, name, wanted, shot=None):
        path = os.path.join(MODELS, name + ".hlo")
        began = time.monotonic()
        out = self.make(path, name=shot or "model")
        made, size = time.monotonic() - began, os.path.getsize(out) / 1e6
        page = self.open(out)
        first = self.first_picture(page)
        self.sound(page, name)
        seen = self.labels(page)
        for label, badge in wanted:
            check(any(re.search(label, l) and badge in b for l, b in seen), f"{name}: no '{label}' {badge} on the map, but {seen}")
        if shot:
            self.shot(page, shot)
        search = self.searches(page, "op:dot", "layer", "/f32.*128/")
        print(f"{name}: {page.evaluate('hilo.app.state.n')} instructions, {len(seen)} boxes at first; page {made:.2f} s, {size:.2f} MB; "
              f"first picture {first[0]:.2f} s (processor {first[1]:.2f}); search {search[0]:.0f} ms ({search[1]:.0f})")
        check(size < PAGE_MB, f"{name}: the page is too large")
        self.fast(name, first, FIRST_S, search)
        page.evaluate("hilo.find('op:dot'); goToHit(0)")
        self.sound(page, name + ", a dot")
        return page

    def models(self):
        if not os.path.isdir(MODELS):
            print(f"left out: no models in {MODELS}")
            return
        self.model("vit.1gpu.jit_predict_step", [("encoderblock_0…11", "×12")], "vit")
        self.model("resnet50.1gpu.jit_predict_step", [("block1", ""), ("block4", ""), ("unit02…06", "×5")], "resnet")
        self.model("llama3_8b.1gpu.jit__prefill_jit", [("while", "×32")], "llama")
        page = self.model("gemma3_4b.1gpu.jit__prefill_jit", [("while", "×5")], "gemma")
        page.evaluate("hilo.goTo(hilo.app.state.name(search(hilo.app.state, 'op:dot')[0]))")
        self.model("hlo_llama31_8b_bf16_1x8", [("dot", "×31")])
        self.model("clip.train.jit_train_step", [("jvp\\(Model\\)", ""), ("multiply", "×397")], "clip")

    def large(self, n=100000):
        path = os.path.join(self.folder, "large.hlo")
        with open(path, "w") as out:
            out.write("HloModule large\n\nENTRY main {\n  x0 = f32[64,64] parameter(0)\n")
            ops = ["tanh", "sine", "cosine", "negate", "abs", "exponential", "floor", "sqrt"]
            k = 0
            for layer in range(n // 20):
                start = k
                out.write(f"  d{layer} = f32[64,64] dot(x{k}, x{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n")
                for j in range(19):
                    k += 1
                    before = f"d{layer}" if j == 0 else f"x{k - 1}"
                    if j % 5 == 4:
                        out.write(f"  x{k} = f32[64,64] add({before}, x{start})\n")
                    else:
                        out.write(f"  x{k} = f32[64,64] {ops[(j + layer // 50) % 8]}({before})\n")
            out.write(f"  ROOT r = f32[64,64] negate(x{k})\n}}\n")
        began = time.monotonic()
        page_path = self.make(path, name="large")
        made = time.monotonic() - began
        page = self.open(page_path)
        first = self.first_picture(page)
        self.sound(page, "large")
        search = self.searches(page, "op:dot", "x5000", "/x.*77/")
        print(f"large: {page.evaluate('hilo.app.state.n')} instructions; page {made:.2f} s, {os.path.getsize(page_path) / 1e6:.2f} MB; "
              f"first picture {first[0]:.2f} s (processor {first[1]:.2f}); search {search[0]:.0f} ms ({search[1]:.0f})")
        self.fast("large", first, LARGE_S, search)
        page.evaluate("hilo.goTo('x50000')")
        self.sound(page, "large, an instruction")
        check(page.evaluate("hilo.seen().some(b => b.label == 'x50000')"), "large: the instruction is not drawn")

    def served(self):
        folder = os.path.join(self.folder, "served")
        os.makedirs(os.path.join(folder, "sub"))
        text = "HloModule one\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] %s(x)\n}\n"
        for name, op in (("one.hlo", "negate"), ("sub/two.hlo", "tanh")):
            with open(os.path.join(folder, name), "w") as out:
                out.write(text % op)
        with open(os.path.join(folder, "bad.hlo"), "w") as out:
            out.write("HloModule bad\n\nENTRY main {\n  x = f32[4] tahn(y)\n}\n")
        os.symlink("/etc/hostname", os.path.join(folder, "link.hlo"))
        server = subprocess.Popen([self.hilo, "view", "--serve", folder, "--port=0"], stdout=subprocess.PIPE, text=True)
        try:
            self.ask(server.stdout.readline().strip(), folder, text)
        finally:
            server.terminate()
            check(server.wait(20) == 0, f"the server ended with {server.returncode}")

    def explored(self):
        """The page of `hilo explore --serve`: commands, completion, drawings, and who may not ask."""
        path = os.path.join(self.folder, "explored.hlo")
        with open(path, "w") as out:
            out.write("HloModule e\n\nENTRY main {\n  x = f32[4] parameter(0)\n  y = f32[4] negate(x)\n  ROOT z = f32[4] tanh(y)\n}\n")
        server = subprocess.Popen([self.hilo, "explore", path, "--serve", "--port=0", "--folder", self.folder], stdout=subprocess.PIPE, text=True)
        try:
            root = server.stdout.readline().strip()
            check(re.fullmatch(r"http://127\.0\.0\.1:\d+/", root), f"the server says {root!r}")
            for headers, wanted in (({}, 403), ({"X-Hilo": "1"}, 200), ({"X-Hilo": "1", "Host": "evil.example"}, 403)):
                try:
                    status = urllib.request.urlopen(urllib.request.Request(root + "run?info%20y", headers=headers), timeout=20).status
                except urllib.error.HTTPError as error:
                    status = error.code
                check(status == wanted, f"a command with {headers}: {status}")
            self.garbage(int(root.rsplit(":", 1)[1].strip("/")))
            page = self.browser.open(root)
            page.wait("document.querySelector('#log pre') && document.querySelector('#log pre').textContent.includes('allpaths')")
            page.evaluate("run('y 1')")
            page.wait("document.querySelectorAll('#drawing g.n').length == 3")
            page.evaluate("document.getElementById('z').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
            page.wait("document.querySelector('#log pre').textContent.startsWith('instruction z')")
            page.evaluate("run('nothing')")
            page.wait("!!document.querySelector('#log pre.bad')")
            page.evaluate("$('line').value = 'info z'; $('line').oninput()")
            page.wait("document.querySelectorAll('#words option').length == 1")
            check(page.evaluate("document.querySelector('#words option').value") == "info z", "completion")
            check(not page.errors, f"explored: the console says {page.errors[:3]}")
            check(not [f for f in os.listdir(self.folder) if f.startswith("hilo-explore")], "drawings stay behind")
        finally:
            server.terminate()
            check(server.wait(20) == 0, f"the server ended with {server.returncode}")

    def garbage(self, port):
        """Requests that are none get an error or nothing, and harm nobody."""
        host = b"Host: localhost\r\n\r\n"
        for sent in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET  HTTP/1.1\r\n" + host, b"\0" * 100, b"A" * 100000, b"GET /" + b"a" * 12000 + b" HTTP/1.1\r\n" + host,
                     b"GET /page/ffffffffffffffffff HTTP/1.1\r\n" + host, b"GET /stamp/-000000000000001 HTTP/1.1\r\n" + host, b"POST / HTTP/1.1\r\n" + host,
                     b"GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256))):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                answer = b""
                try:
                    client.sendall(sent)
                    client.shutdown(socket.SHUT_WR)
                    while part := client.recv(65536):
                        answer += part
                except OSError:
                    pass  # it has hung up
                check(not answer or answer.startswith(b"HTTP/1.1 4"), f"{sent[:40]}: {answer[:60]}")

    def ask(self, root, folder, text):
        def get(path, **headers):
            request = urllib.request.Request(root.rstrip("/") + path, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        check(re.fullmatch(r"http://127\.0\.0\.1:\d+/", root), f"the server says {root!r}")
        modules = {m["name"]: m for m in json.loads(get("/list")[1])["modules"]}
        check(set(modules) == {"one.hlo", "sub/two.hlo", "bad.hlo"}, f"served are {sorted(modules)}")
        for path in ("/page/../../etc/passwd", "/page//etc/passwd", "/page/%2e%2e%2fetc%2fpasswd", "/etc/passwd", "/page/0000000000000000", "/page/xyz"):
            check(get(path)[0] == 404, f"{path}: {get(path)}")
        check(get("/", Host="evil.example")[0] == 403, "another host's name is answered")
        status, body = get("/page/" + modules["bad.hlo"]["id"])
        check(status == 500 and "tahn" in body, f"a damaged file: {status} {body[:200]}")
        port = int(root.rsplit(":", 1)[1].strip("/"))
        self.garbage(port)
        check(get("/list")[0] == 200, "after requests that are none it does not answer")
        slow = socket.create_connection(("127.0.0.1", port))  # says nothing, and keeps nobody waiting
        page = self.browser.open(root)
        page.wait("document.querySelectorAll('#list a').length == 3")
        check(page.evaluate("[...document.querySelectorAll('#list a')].map(a => a.textContent).join()") == "bad.hlo,one.hlo,sub/two.hlo", "the list")
        page = self.browser.open(root + "page/" + modules["one.hlo"]["id"])
        page.wait("window.hilo && hilo.app.state && search(hilo.app.state, 'op:negate').length == 1")
        time.sleep(1.2)
        with open(os.path.join(folder, "one.hlo"), "w") as out:
            out.write(text % "exponential")
        page.wait("window.hilo && hilo.app.state && search(hilo.app.state, 'op:exponential').length == 1")
        check(not page.errors, f"served: the console says {page.errors[:3]}")
        slow.close()


def main():
    hilo = os.path.abspath(sys.argv[1])
    shots = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "--shots" else None
    if not browsers.find_browser():
        print("skipped: no Chromium is installed (package chromium), and HILO_BROWSER names none")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as folder, browsers.Browser(1280, 800) as browser:
        if shots:
            os.makedirs(shots, exist_ok=True)
        test = Test(hilo, folder, browser, shots)
        for part in (test.small, test.links, test.states, test.models, test.large, test.served, test.explored):
            began = time.monotonic()
            try:
                part()
                print(f"{part.__name__}: ok, {time.monotonic() - began:.1f} s")
            except (Failed, RuntimeError, TimeoutError) as error:
                failed += 1
                print(f"{part.__name__}: FAILED: {error}")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
