"""Compiles the programs of docs/library.md, as C11 and as C++17, runs them and compares: library.py BUILD [--update].

A block headed ```c NAME.c is a program; the block after it that begins with "$ ./NAME" shows what it prints. The
programs run in a copy of tests/fixtures/mlp_train and are linked with BUILD/libhilo.so.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PAGE = os.path.join(ROOT, "docs", "library.md")
LANGUAGES = (("cc", "-std=c11", "c"), ("c++", "-std=c++17", "c++"))
# C++ would have every field of HlBuf text = {0} named.
WARNINGS = ["-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Wpedantic", "-Werror"]


def build(name, source, language, folder, library):
    compiler, standard, kind = language
    path = os.path.join(folder, name + ".c")
    open(path, "w").write(source)
    done = subprocess.run([compiler, standard, *WARNINGS, "-I", os.path.join(ROOT, "include"), "-x", kind, path, "-x", "none",
                           os.path.join(library, "libhilo.so"), f"-Wl,-rpath,{library}", "-o", os.path.join(folder, name)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{name} as {standard}:\n{done.stdout}")


def main():
    library, update = os.path.realpath(sys.argv[1]), "--update" in sys.argv[2:]
    text, passed, failed = open(PAGE).read(), 0, 0
    languages = [language for language in LANGUAGES if shutil.which(language[0])]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(ROOT, "tests", "fixtures", "mlp_train"), folder, dirs_exist_ok=True)
        for name, source in re.findall(r"```c (\w+)\.c\n(.*?)```\n", text, re.S):
            shown = re.search(r"```\n\$ (\./" + name + r"\b[^\n]*)\n(.*?)```\n", text, re.S)
            if not shown:
                sys.exit(f"{name}: the page does not show what it prints")
            for language in languages:
                build(name, source, language, folder, library)
                done = subprocess.run(shown[1], shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True)
                if update and language is languages[0]:
                    text = text.replace(shown[0], f"```\n$ {shown[1]}\n{done.stdout}```\n")
                    shown = re.search(r"```\n\$ (\./" + name + r"\b[^\n]*)\n(.*?)```\n", text, re.S)
                good = done.returncode == 0 and done.stdout == shown[2] and shown[2]
                passed, failed = passed + bool(good), failed + (not good)
                if not good:
                    print(f"{name} {language[1]}: status {done.returncode}, printed\n{done.stdout}expected\n{shown[2]}")
    if update:
        open(PAGE, "w").write(text)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < 3 * len(languages) else 0


if __name__ == "__main__":
    sys.exit(main())
