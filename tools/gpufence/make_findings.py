#!/usr/bin/env python3
"""From findings.toml, the texts of `gpufence explain`: the data of the command, and the page findings.md.

  make_findings.py                the page, beside this file
  make_findings.py --data FILE    the data of the command
  make_findings.py --verify       the page is the one that would be made; the codes are those of the sources
  make_findings.py --programs FILE.cu   the programs in CUDA, to be compiled
"""
import pathlib
import re
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PAGE = HERE / "findings.md"
# Where findings are made: the preloaded library, and the simulator, which shares nothing with it.
MAKERS = ("interpose", "tests/sim")


def findings():
    texts = tomllib.loads((HERE / "findings.toml").read_text())
    for code, text in texts.items():
        missing = {"severity", "title", "meaning", "program", "remedy", "harmless"} - text.keys()
        assert not missing, f"{code} lacks {missing}"
        text.setdefault("language", "cuda")
        text.setdefault("planned", False)
    return texts


def flowing(text):
    return " ".join(text.split())


def data():
    def literal(text):
        assert ')~"' not in text
        return f'R"~({text})~"'
    lines = ["// Made by make_findings.py from findings.toml."]
    for code, text in findings().items():
        fields = [code, text["severity"], text["title"], flowing(text["meaning"]), text["program"].strip("\n"),
                  flowing(text["remedy"]), flowing(text["harmless"])]
        lines.append("{" + ", ".join(literal(field) for field in fields) + f", {str(text['planned']).lower()}}},")
    return "\n".join(lines) + "\n"


def page():
    out = ["# Findings", "",
           "What gpufence says, code by code; `gpufence explain CODE` prints the same. Made by `make_findings.py` from",
           "`findings.toml`.", ""]
    for code, text in findings().items():
        out += [f"## {code}: {text['title']}", "",
                f"Severity: {text['severity']}." + (" Not made by this version yet." if text["planned"] else ""), "",
                text["meaning"].strip("\n"), "",
                f"```{'cuda' if text['language'] == 'cuda' else text['language']}", text["program"].strip("\n"), "```", "",
                "What to do: " + text["remedy"].strip("\n"), "",
                "Harmless: " + text["harmless"].strip("\n"), ""]
    return "\n".join(out)


def programs():
    out = ["#include <cstdlib>", "#include <thread>", "#include <unistd.h>", "#include <cuda_runtime.h>", ""]
    for code, text in findings().items():
        if text["language"] == "cuda":
            # In a namespace, main is an ordinary function, which would have to return something.
            out += [f"namespace {code.lower()} {{", text["program"].strip("\n").replace("int main(", "void program("), "}", ""]
    return "\n".join(out + ["int main() {}", ""])


def codes_made():
    made = set()
    for folder in MAKERS:
        for file in (SOURCE / folder).rglob("*"):
            if file.suffix not in (".h", ".cpp", ".c", ".inc") or "test" in file.relative_to(SOURCE / folder).parts:
                continue
            # Only in strings: comments speak of others.
            for string in re.findall(r'"((?:[^"\\\n]|\\.)*)"', file.read_text()):
                made |= set(re.findall(r"\bGF\d{3}\b", string))
    return made


def verify():
    texts, made = findings(), codes_made()
    assert len(made) > 10, "no codes found in the sources"
    assert not made - texts.keys(), f"findings.toml does not explain {sorted(made - texts.keys())}"
    planned = {code for code, text in texts.items() if text["planned"]}
    assert not made & planned, f"made by the sources: take `planned` out of {sorted(made & planned)} in findings.toml"
    silent = texts.keys() - made - planned
    assert not silent, f"no source makes {sorted(silent)}: say `planned = true` in findings.toml"
    assert PAGE.read_text() == page(), "findings.md is of another findings.toml: run tools/gpufence/make_findings.py"


def main():
    words = sys.argv[1:]
    if words == ["--verify"]:
        try:
            verify()
        except AssertionError as error:
            sys.exit(f"gpufence: findings: {error}")
    elif len(words) == 2 and words[0] == "--data":
        pathlib.Path(words[1]).write_text(data())
    elif len(words) == 2 and words[0] == "--programs":
        pathlib.Path(words[1]).write_text(programs())
    elif not words:
        PAGE.write_text(page())
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
