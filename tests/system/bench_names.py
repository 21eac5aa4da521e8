#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_names.py FOLDER BUILD: do the benchmarks in FOLDER call only what there is? Hardly anybody runs them all, so
that a name which moved stays unnoticed: names that nobody defines, what they take from each other and from the
Python package, programs of BUILD, scripts and C files of tests."""

import ast
import builtins
import glob
import os
import re
import symtable
import sys

PACKAGE = "merger/python/packrack/__init__.py"
GIVEN = {"__file__", "__name__", "__doc__"}


def defined(table):
    """names of a module: what it assigns, imports, defines, and what its functions declare global"""
    names = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    for child in table.get_children():
        names |= {s.get_name() for s in child.get_symbols() if s.is_declared_global() and s.is_assigned()}
    return names


def unknown_names(table, known):
    for s in table.get_symbols():
        outer = s.is_global() or table.get_type() == "module"
        if outer and s.is_referenced() and s.get_name() not in known and not hasattr(builtins, s.get_name()):
            yield s.get_name()
    for child in table.get_children():
        yield from unknown_names(child, known)


def text_of(node, constants):
    """What is known of a string: b.BUILD and its like by their names, what else it is made of as ?"""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr in ("BUILD", "TOP"):
        return node.attr
    if isinstance(node, ast.Name):
        return constants.get(node.id, node.id if node.id in ("BUILD", "TOP") else "?")
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(v.value if isinstance(v, ast.FormattedValue) else v, constants) for v in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        return "/".join(text_of(a, constants) for a in node.args)
    return "?"


def constants_of(tree):
    out = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name not in ("BUILD", "TOP"):
                out[name] = text_of(node.value, out)
    return out


def missing_files(tree, folder, build):
    constants = constants_of(tree)
    for node in ast.walk(tree):
        text = text_of(node, constants)
        for where, name in re.findall(r"tests/(bench|system)/([\w.-]+)", text):
            path = os.path.join(folder if where == "bench" else "tests/system", name)
            if not any(map(os.path.exists, (path, path + ".c", path.removesuffix(".o") + ".c"))):
                yield path
        for name in re.findall(r"BUILD/(packrack[\w-]*|python)(?:$|/)", text):
            if not os.path.exists(os.path.join(build, name)):
                yield os.path.join(build, name)


def missing_attributes(tree, modules):
    alias = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            alias.update({a.asname or a.name: a.name for a in node.names if a.name in modules})
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            for a in node.names:
                if a.name not in modules[node.module]:
                    yield f"{node.module}.{a.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in alias:
            module = alias[node.value.id]
            if node.attr not in modules[module] | GIVEN:
                yield f"{module}.{node.attr}"


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main():
    folder, build = sys.argv[1:]
    sources = {p: read(p) for p in sorted(glob.glob(f"{folder}/*.py"))}
    modules = {os.path.basename(p)[:-3]: defined(symtable.symtable(s, p, "exec")) for p, s in sources.items()}
    modules["packrack"] = defined(symtable.symtable(read(PACKAGE), PACKAGE, "exec"))
    faults = [] if sources else [f"no benchmarks in {folder}"]
    for path, source in sources.items():
        tree, table = ast.parse(source, path), symtable.symtable(source, path, "exec")
        known = modules[os.path.basename(path)[:-3]] | GIVEN
        missing = {*unknown_names(table, known), *missing_attributes(tree, modules), *missing_files(tree, folder, build)}
        faults += [f"{path}: there is no {name}" for name in sorted(missing)]
    print("\n".join(faults))
    sys.exit(bool(faults))


main()
