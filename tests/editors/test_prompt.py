"""The prompt of `hilo explore` at a terminal that is none: completion, history over two sessions, Ctrl-D; and without a history's folder."""
import ctypes
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

HILO = os.path.abspath(os.environ.get("HILO", "build/hilo"))
MODULE = """HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  first_input = f32[4,8] parameter(0)
  first_constant = f32[] constant(0)
  ROOT result = f32[4] reduce(first_input, first_constant), dimensions={1}, to_apply=sum
}
"""


def has_libedit():
    for name in ("libedit.so.2", "libedit.so.0"):
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            pass
    return False


class Terminal:
    def __init__(self, folder, home, *args):
        self.text = ""
        env = {**os.environ, "HOME": home, "TERM": "xterm", "TMPDIR": folder}
        env.pop("XDG_STATE_HOME", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(HILO, [HILO, "explore", "m.hlo", "--format=none", *args], env)

    def wait(self, text, seconds=60):
        """Reads on until a text has come behind what was waited for before."""
        end = time.time() + seconds
        while text not in self.text:
            ready, _, _ = select.select([self.fd], [], [], 0.2)
            if ready:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
            assert time.time() < end, f"no '{text}' in {self.text!r}"
        assert text in self.text, f"no '{text}' in {self.text!r}"
        self.text = self.text[self.text.index(text) + len(text):]

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        end = time.time() + 60
        while time.time() < end:
            try:
                ready, _, _ = select.select([self.fd], [], [], 0.1)
                if ready and not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main():
    folder = tempfile.mkdtemp()
    home = os.path.join(folder, "home")
    os.mkdir(home)
    with open(os.path.join(folder, "m.hlo"), "w") as f:
        f.write(MODULE)
    try:
        one = Terminal(folder, home)
        one.wait("command: ")
        one.type("inf\tRES\t\r")  # what is typed is completed, in the letters of the name
        one.wait("result")
        one.wait("opcode: reduce")
        one.wait("command: ")
        one.type("info first_\t\t")  # two that fit are shown
        one.wait("first_input")
        one.wait("first_constant")
        one.type("i\t\r")
        one.wait("opcode: parameter")
        one.wait("command: ")
        one.type("nothing\r")
        one.wait("no command, instruction or computation is called 'nothing'")
        one.wait("command: ")
        one.type("quit\r")
        assert one.end() == 0
        history = os.path.join(home, ".local/state/hilo/explore_history")
        assert "info" in open(history).read() and os.stat(history).st_mode & 0o077 == 0
        two = Terminal(folder, home)
        two.wait("command: ")
        two.type("\x1b[A\x1b[A\x1b[A\r")  # three back: info first_input
        two.wait("opcode: parameter")
        two.wait("command: ")
        two.type("\x04")
        assert two.end() == 0
        three = Terminal(folder, os.path.join(folder, "m.hlo", "home"))  # a history that cannot be kept is no failure
        three.wait("command: ")
        three.type("list computations\r")
        three.wait("ENTRY main: 3 instructions")
        three.type("exit\r")
        assert three.end() == 0
    finally:
        shutil.rmtree(folder)
    print("3 sessions")


with open(HILO, "rb") as program:
    if b"hilo-complete" not in program.read():
        print("skipped: the program was built without libedit (libedit-dev)")
        sys.exit(77)
if not has_libedit():
    print("skipped: libedit is not installed (libedit2)")
    sys.exit(77)
main()
