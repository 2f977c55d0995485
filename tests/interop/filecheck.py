#!/usr/bin/env python3
"""optc's built-in FileCheck and LLVM's come to the same verdict.

usage: python filecheck.py OPTC

A case is a list of directives, a text, options, and the verdict that is expected of both.  optc runs it as a file test
whose command prints nothing: `FileCheck --input-file`.  Needs FileCheck-19 (or FILECHECK), of Debian's llvm-19-tools.
"""
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

FILECHECK = os.environ.get("FILECHECK", "FileCheck-19")
YES, NO = True, False

# (verdict, directives, text, options)
CASES = [
    # CHECK: in order, on one line or on later ones
    (YES, "CHECK: a\nCHECK: b", "a\nb\n"),
    (NO, "CHECK: b\nCHECK: a", "a\nb\n"),
    (YES, "CHECK: a\nCHECK: b", "a b\n"),
    (YES, "CHECK: a\nCHECK: b", "x a y\n\n\nz b\n"),
    (NO, "CHECK: a\nCHECK: a", "a\nb\n"),
    (YES, "CHECK: a\nCHECK: a", "a a\n"),
    (NO, "CHECK: A", "a\n"),
    (YES, "CHECK: A", "a\n", "--ignore-case"),
    (YES, "CHECK: {{A+}}b", "aaB\n", "--ignore-case"),
    (NO, "CHECK: ab", "a\nb\n"),
    # blanks
    (YES, "CHECK:   a    b", "a b\n"),
    (YES, "CHECK: a b", "a \t  b\n"),
    (NO, "CHECK: a b", "ab\n"),
    (YES, "CHECK:a", "xax\n"),
    (NO, "CHECK: a  b", "a b\n", "--strict-whitespace"),
    (YES, "CHECK: a  b", "a  b\n", "--strict-whitespace"),
    (YES, "CHECK: a b", "a b\r\n"),
    (YES, "CHECK: a\r\nCHECK-NEXT: b\r", "a\r\nb\r\n"),
    # what is no directive
    (NO, "XCHECK: a", "a\n"),
    (YES, "CHECK: a\nX-CHECK: nothing", "a\n"),
    (YES, "CHECK: a\nCOM: CHECK: nothing", "a\n"),
    (YES, "CHECK: a\nRUN: CHECK: nothing", "a\n"),
    (YES, "some words CHECK: a", "a\n"),
    (NO, "CHECK: a CHECK: b", "a\nb\n"),
    (NO, "nothing", "a\n"),
    (NO, "CHECK:", "a\n"),
    (NO, "CHECK: a", ""),
    (YES, "CHECK-NOT: a", "", "--allow-empty"),
    (NO, "CHECK-NOT: a", ""),
    # CHECK-NEXT
    (YES, "CHECK: a\nCHECK-NEXT: b", "a\nb\n"),
    (NO, "CHECK: a\nCHECK-NEXT: b", "a\n\nb\n"),
    (NO, "CHECK: a\nCHECK-NEXT: b", "a b\n"),
    (NO, "CHECK: a\nCHECK-NEXT: b", "a b\nb\n"),
    (NO, "CHECK: a\nCHECK-NEXT: b", "a\nc\nb\na\nb\n"),
    (NO, "CHECK-NEXT: a", "a\n"),
    (NO, "CHECK-NOT: z\nCHECK-NEXT: a", "a\n"),
    (YES, "CHECK: a\nCHECK-NEXT: b\nCHECK-NEXT: c", "a\nxbx\nxcx\n"),
    # CHECK-SAME
    (YES, "CHECK: a\nCHECK-SAME: b", "a b\n"),
    (NO, "CHECK: a\nCHECK-SAME: b", "a\nb\n"),
    (NO, "CHECK: b\nCHECK-SAME: a", "a b\na\n"),
    (YES, "CHECK: a\nCHECK-NEXT: b\nCHECK-SAME: c", "a\nb c\n"),
    (NO, "CHECK-SAME: a", "a\n"),
    # CHECK-EMPTY
    (YES, "CHECK: a\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\nb\n"),
    (NO, "CHECK: a\nCHECK-EMPTY:", "a\nb\n\n"),
    (YES, "CHECK: a\nCHECK-EMPTY:\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\n\nb\n"),
    (YES, "CHECK: a\nCHECK-EMPTY:", "a\n\n"),
    (YES, "CHECK: a\nCHECK-EMPTY:", "a\n"),
    (NO, "CHECK: a\nCHECK-EMPTY:", "a"),
    (NO, "CHECK: a\nCHECK-EMPTY: b", "a\n\nb\n"),
    (NO, "CHECK-EMPTY:", "\na\n"),
    (NO, "CHECK: a\nCHECK-EMPTY:", "a\n \nb\n"),
    # CHECK-NOT
    (NO, "CHECK: a\nCHECK-NOT: b\nCHECK: c", "a b c\n"),
    (YES, "CHECK: a\nCHECK-NOT: b\nCHECK: c", "b a c b\n"),
    (NO, "CHECK: a\nCHECK-NOT: b", "a\nb\n"),
    (NO, "CHECK-NOT: b\nCHECK: a", "b\na\n"),
    (YES, "CHECK-NOT: b\nCHECK: a", "a\nb\n"),
    (NO, "CHECK-NOT: b", "b\n"),
    (YES, "CHECK-NOT: b", "a\n"),
    (YES, "CHECK: a\nCHECK-NOT: b\nCHECK-NOT: d\nCHECK: c", "a c d\n"),
    (NO, "CHECK: a\nCHECK-NOT: b\nCHECK-NOT: d\nCHECK: c", "a d c\n"),
    (NO, "CHECK: a\nCHECK-NOT: {{b|d}}\nCHECK: c", "a d c\n"),
    (YES, "CHECK: a\nCHECK-NOT: b\nCHECK-NEXT: c", "a\nc\nb\n"),
    (NO, "CHECK: a\nCHECK-NOT: b\nCHECK-NEXT: c", "a b\nc\n"),
    # CHECK-DAG
    (YES, "CHECK-DAG: a\nCHECK-DAG: b", "b\na\n"),
    (NO, "CHECK-DAG: a\nCHECK-DAG: c", "b\na\n"),
    (YES, "CHECK-DAG: a\nCHECK-DAG: a", "a\na\n"),
    (NO, "CHECK-DAG: a\nCHECK-DAG: a", "a\nb\n"),
    (NO, "CHECK-DAG: ab\nCHECK-DAG: bc", "abc\n"),
    (YES, "CHECK-DAG: ab\nCHECK-DAG: bc", "abc bc\n"),
    (YES, "CHECK-DAG: a\nCHECK-DAG: b\nCHECK: c", "b\na\nc\n"),
    (NO, "CHECK-DAG: a\nCHECK-DAG: b\nCHECK: c", "b\nc\na\n"),
    (YES, "CHECK: x\nCHECK-DAG: a\nCHECK-DAG: b", "x\nb\na\n"),
    (NO, "CHECK: x\nCHECK-DAG: a\nCHECK-DAG: b", "a\nx\nb\n"),
    (YES, "CHECK-DAG: a\nCHECK-NOT: z\nCHECK-DAG: b", "a\nb\nz\n"),
    (NO, "CHECK-DAG: a\nCHECK-NOT: z\nCHECK-DAG: b", "a\nz\nb\n"),
    (NO, "CHECK-DAG: a\nCHECK-NOT: z\nCHECK-DAG: b", "b\na\n"),
    (NO, "CHECK-NOT: z\nCHECK-DAG: a", "z\na\n"),
    (YES, "CHECK-NOT: z\nCHECK-DAG: a", "a\nz\n"),
    (NO, "CHECK-DAG: a\nCHECK-NOT: z", "a\nz\n"),
    (YES, "CHECK-DAG: [[X:v[0-9]+]] = a\nCHECK-DAG: use [[X]]", "use v3\nv3 = a\nuse v3\n"),
    (NO, "CHECK-DAG: use [[X]]\nCHECK-DAG: [[X:v[0-9]+]] = a", "v3 = a\nuse v3\n"),
    (NO, "CHECK-DAG: a\nCHECK-SAME: b", "a b\n"),
    # CHECK-LABEL
    (YES, "CHECK-LABEL: f\nCHECK: a\nCHECK-LABEL: g\nCHECK: b", "f\na\ng\nb\n"),
    (NO, "CHECK-LABEL: f\nCHECK: b\nCHECK-LABEL: g\nCHECK: b", "f\na\ng\nb\n"),
    (NO, "CHECK-LABEL: f\nCHECK: a\nCHECK-LABEL: h", "f\na\ng\nb\n"),
    (NO, "CHECK-LABEL: g\nCHECK-LABEL: f", "f\na\ng\nb\n"),
    (YES, "CHECK: a\nCHECK-LABEL: f", "a\nf\n"),
    (NO, "CHECK: a\nCHECK-LABEL: f", "f\na\n"),
    (YES, "CHECK-LABEL: f\nCHECK-NEXT: a\nCHECK-LABEL: g", "f\na\ng\n"),
    (NO, "CHECK-LABEL: f\nCHECK-NOT: a\nCHECK-LABEL: g", "f\na\ng\n"),
    (YES, "CHECK-LABEL: f\nCHECK-NOT: a\nCHECK-LABEL: g", "f\ng\na\n"),
    (YES, "CHECK-LABEL: f\nCHECK-DAG: a\nCHECK-DAG: b\nCHECK-LABEL: g", "f\nb\na\ng\n"),
    (NO, "CHECK-LABEL: f\nCHECK-DAG: a\nCHECK-DAG: b\nCHECK-LABEL: g", "f\nb\ng\na\n"),
    (NO, "CHECK-LABEL: f[[X:.*]]", "f1\n"),
    (YES, "CHECK-LABEL: {{^}}f{{$}}\nCHECK: a", "ff\nf\na\n"),
    # CHECK-COUNT
    (YES, "CHECK-COUNT-2: a", "a\na\n"),
    (NO, "CHECK-COUNT-3: a", "a\na\n"),
    (YES, "CHECK-COUNT-2: a\nCHECK-NOT: a", "aa\n"),
    (NO, "CHECK-COUNT-2: a\nCHECK-NOT: a", "aaa\n"),
    (NO, "CHECK-COUNT-0: a", "b\n"),
    (NO, "CHECK-COUNT-x: a", "a\n"),
    (NO, "CHECK-COUNT: a\nCHECK: b", "c\n"),
    (YES, "CHECK-COUNT-2: {{[ab]}}\nCHECK: c", "a b c\n"),
    # endings that do not combine
    (NO, "CHECK: a\nCHECK-NOT-NEXT: b", "a\nc\n"),
    (NO, "CHECK: a\nCHECK-NEXT-NOT: b", "a\nc\n"),
    (NO, "CHECK: a\nCHECK-DAG-NOT: b", "a\nc\n"),
    # regular expressions
    (YES, "CHECK: a{{[0-9]+}}b", "a12b\n"),
    (NO, "CHECK: a{{[0-9]+}}b", "ab\n"),
    (NO, "CHECK: a{{.*}}b", "a\nb\n"),
    (NO, "CHECK: a{{[^x]*}}b", "a\nb\n"),
    (YES, "CHECK: {{^}}a{{$}}", "b\na\n"),
    (NO, "CHECK: {{^}}a{{$}}", "ab\nba\n"),
    (YES, "CHECK: a\nCHECK: {{^}}b", "ab\n"),
    (YES, "CHECK: x{{(a|b)+}}y", "xabay\n"),
    (YES, "CHECK: x{{a|ab}}y", "xaby\n"),
    (YES, "CHECK: {{a|ab}}\nCHECK-SAME: {{^}}c", "abc\n"),
    (YES, "CHECK: x{{a|b}}{{c|d}}y", "xbcy\n"),
    (YES, "CHECK: {{[[:alpha:]]+}}1", "ab1\n"),
    (YES, "CHECK: {{[]x]+}}1", "]]1\n"),
    (YES, "CHECK: {{[a-]+}}1", "a-1\n"),
    (YES, "CHECK: {{\\.}}", "a.b\n"),
    (NO, "CHECK: {{\\.}}", "ab\n"),
    (NO, "CHECK: {{a{2,3}}}b", "aab\n"),
    (YES, "CHECK: {{(a{2,3})}}b", "aab\n"),
    (NO, "CHECK: {{(a{2,3})b}}", "xab\n"),
    (NO, "CHECK: {{\\d}}", "1\n"),
    (YES, "CHECK: {{\\d}}", "d\n"),
    (NO, "CHECK: {{[\\d]}}1", "21\n"),
    (NO, "CHECK: {{*}}", "*\n"),
    (NO, "CHECK: {{(}}", "(\n"),
    (NO, "CHECK: {{a", "a\n"),
    (NO, "CHECK: {{a|}}", "a\n"),
    (NO, "CHECK: {{}}a", "a\n"),
    (NO, "CHECK: {{a+?}}", "a\n"),
    (NO, "CHECK: {{(?:a)}}", "a\n"),
    (NO, "CHECK: {{[b-a]}}", "a\n"),
    (YES, "CHECK: a.b*c", "a.b*c\n"),
    (NO, "CHECK: a.b", "axb\n"),
    (YES, "CHECK: {a} [b] (c) |d|", "{a} [b] (c) |d|\n"),
    (YES, "CHECK{LITERAL}: a{{b}}[[c", "a{{b}}[[c\n"),
    (NO, "CHECK{LITERAL}: a{{b}}", "ab\n"),
    (YES, "CHECK: a\nCHECK-NEXT{LITERAL}: {{", "a\n{{\n"),
    (YES, "CHECK-COUNT-2{LITERAL}: {{", "{{\n{{\n"),
    # variables
    (YES, "CHECK: [[X:v[0-9]+]] = a\nCHECK: use [[X]];", "v12 = a\nuse v12;\n"),
    (NO, "CHECK: [[X:v[0-9]+]] = a\nCHECK: use [[X]];", "v12 = a\nuse v1;\n"),
    (YES, "CHECK: [[X:[a-z]+]] [[X]]", "ab ab\n"),
    (NO, "CHECK: [[X:[a-z]+]] [[X]]", "ab cd\n"),
    (YES, "CHECK: [[X:[a-z]+]] = [[X]]{{$}}", "ab = a\nc = c\n"),
    (YES, "CHECK: [[X:a*]][[Y:a]]b\nCHECK: [[X]]c", "aaab\naac\n"),
    (NO, "CHECK: {{^}}[[X:a|ab]][[Y:c|bcd]]\nCHECK: {{^}}[[Y]]$", "abcd\nc\n"),
    (YES, "CHECK: {{^}}[[X:a|ab]][[Y:c|bcd]]\nCHECK: {{^}}[[Y]]{{$}}", "abcd\nbcd\n"),
    (YES, "CHECK: [[X:.*]];\nCHECK: [[X]]!", "a.b*;\na.b*!\n"),
    (NO, "CHECK: [[X:a.b]];\nCHECK: [[X]]!", "a.b;\naxb!\n"),
    (NO, "CHECK: [[X]]", "a\n"),
    (NO, "CHECK: a\nCHECK-NOT: [[X]]", "a\n"),
    (YES, "CHECK: [[X:a]]\nCHECK: [[X:b]]\nCHECK: [[X]]", "a\nb\nb\n"),
    (NO, "CHECK: [[X:a]]\nCHECK: [[X:b]]\nCHECK: [[X]]", "a\nb\na\n"),
    (YES, "CHECK: [[X:b*]]a\nCHECK-NOT: [[X]]", "a\n"),
    (NO, "CHECK: [[X:b*]]a\nCHECK: [[X]]", "ac\n"),
    (NO, "CHECK: [[1:a]]", "a\n"),
    (NO, "CHECK: [[X:a", "a\n"),
    (NO, "CHECK: [[X Y]]", "a\n"),
    (YES, "CHECK: [[X:[[:digit:]]+]];[[X]]", "12;12\n"),
    (NO, "CHECK: [[X:[]]+]]a", "]]a\n"),
    (YES, "CHECK: [[X]]", "abc\n", "-DX=b"),
    (NO, "CHECK: a[[X]]c", "axc\n", "-DX=."),
    (YES, "CHECK: line [[@LINE]]", "line 1\n"),
    (NO, "CHECK: line [[@LINE+1]]", "line 1\n"),
    (YES, "nothing\nCHECK: line [[#@LINE-1]]", "line 1\n"),
    (YES, "CHECK: [[X:a+]]\nCHECK-LABEL: f\nCHECK: [[X]]", "aa\nf\naa\n"),
    (NO, "CHECK-LABEL: e\nCHECK: [[X:a+]]\nCHECK-LABEL: f\nCHECK: [[X]]", "e\naa\nf\naa\n", "--enable-var-scope"),
    (YES, "CHECK-LABEL: e\nCHECK: [[$X:a+]]\nCHECK-LABEL: f\nCHECK: [[$X]]", "e\naa\nf\naa\n", "--enable-var-scope"),
    # prefixes
    (YES, "FOO: a\nCHECK: nothing", "a\n", "--check-prefix=FOO"),
    (NO, "FOO: b", "a\n", "-check-prefix FOO"),
    (YES, "FOO: a\nBAR-NEXT: b", "a\nb\n", "--check-prefixes=FOO,BAR"),
    (NO, "FOO: a", "a\n", "--check-prefixes=FOO,BAR"),
    (YES, "FOO: a", "a\n", "--check-prefixes=FOO,BAR --allow-unused-prefixes"),
    (NO, "FOO: a\nFOO-BAR: b", "a\n", "--check-prefixes=FOO,FOO-BAR"),
    (YES, "FOO: a\nFOO-BAR: b", "a\nb\n", "--check-prefixes=FOO,FOO-BAR"),
    # other options
    (NO, "CHECK: a", "a\nwarning\n", "--implicit-check-not=warning"),
    (NO, "CHECK: a\nCHECK: b", "a\nwarning\nb\n", "--implicit-check-not=warning"),
    (YES, "CHECK: a\nCHECK: warning", "a\nwarning\n", "--implicit-check-not=warning"),
    (YES, "CHECK: a b", "  a b  \n", "--match-full-lines"),
    (NO, "CHECK: a b", "a b c\n", "--match-full-lines"),
    (NO, "CHECK: a\nCHECK-NOT: b", "a\nxbx\n", "--match-full-lines"),
    (YES, "CHECK: a{{.*}}", "xa\nabc\n", "--match-full-lines"),
    (NO, "CHECK: b c", "xb c\n", "--match-full-lines --strict-whitespace"),
]


def run(command, **kwargs):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)


def verdicts(optc, case):
    wanted, directives, text, options = (*case, "")[:4]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        checks, produced = folder / "checks.txt", folder / "text"
        checks.write_bytes(directives.encode() + b"\n")
        produced.write_bytes(text.encode())
        words = shlex.split(options)
        theirs = run([FILECHECK, checks, f"--input-file={produced}", *words])
        test = folder / "case.ir"
        quoted = shlex.join(words)
        test.write_text(f"// RUN: FileCheck {checks} --input-file={produced} {quoted}\n")
        ours = run([optc, "test", test])
        if theirs.returncode not in (0, 1, 2) or ours.returncode not in (0, 1):
            raise AssertionError(f"{case}\n{theirs.stderr}{ours.stdout}{ours.stderr}")
        return wanted, theirs.returncode == 0, ours.returncode == 0, ours.stdout + theirs.stderr


def main():
    optc = pathlib.Path(sys.argv[1]).resolve()
    failures = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for case, found in zip(CASES, pool.map(lambda case: verdicts(optc, case), CASES)):
            wanted, theirs, ours, said = found
            if not wanted == theirs == ours:
                failures.append(f"{case}: wanted {wanted}, LLVM {theirs}, optc {ours}\n{said}")
    for failure in failures:
        print(failure, file=sys.stderr)
    passes = sum(case[0] for case in CASES)
    print(f"FileCheck: {len(CASES)} cases, {passes} pass and {len(CASES) - passes} fail with both, "
          f"{len(failures)} differ")
    if failures or len(CASES) < 60:
        sys.exit(1)


if __name__ == "__main__":
    main()
