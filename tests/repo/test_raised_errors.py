"""The docstring of a public function names the errors that its own body raises."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest
from pages import ROOT, name_of, nodes_of, trees

HELP_TEXTS = ROOT / "jobs" / "frazil" / "cli"
"""The docstrings of commands are their help texts, which name no classes."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def classes_of(all_trees: list[ast.Module]) -> dict[str, set[str]]:
    """Return the names of all classes with those of their bases."""
    found: dict[str, set[str]] = {}
    for tree in all_trees:
        for node in nodes_of(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(ast.unparse(base).split(".")[-1] for base in node.bases)
    return found


def ancestors(name: str, classes: Mapping[str, set[str]]) -> set[str]:
    return {name}.union(*(ancestors(base, classes) for base in classes.get(name, ())))


def protocols_of(all_trees: list[ast.Module]) -> list[set[str]]:
    """Return the names of the methods of each protocol."""
    return [
        _methods(node)
        for tree in all_trees
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    ]


def _methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, Function)}


def _of_contracts(node: ast.ClassDef, protocols: list[set[str]]) -> set[str]:
    """Return the methods of a class that belong to a protocol of which it has all methods: that one says the errors."""
    return set().union(*(methods for methods in protocols if methods <= _methods(node)))


def silent(tree: ast.Module, classes: Mapping[str, set[str]], protocols: list[set[str]]) -> list[str]:
    """Return each public function with the errors that it raises and whose docstring names none of their classes."""
    made_by = {each.name: _returned(each, classes) for each in nodes_of(tree) if isinstance(each, Function)}
    found = []
    for function in _public(tree.body, protocols):
        text = ast.get_docstring(function) or ""
        for error in sorted({name for node in _own(function) for name in _raised(node, made_by, classes)}):
            named = {each for each in ancestors(error, classes) if "FrazilError" in ancestors(each, classes)}
            if not any(name in text for name in named):
                found.append(f"{function.lineno} {function.name}: {error}")
    return found


def _public(body: list[ast.stmt], protocols: list[set[str]]) -> Iterator[Function]:
    """Yield public functions, without methods whose contract a protocol states."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            known = _of_contracts(node, protocols)
            yield from (each for each in _public(node.body, protocols) if each.name not in known)
        elif isinstance(node, Function) and not node.name.startswith("_"):
            yield node


def _own(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, without those of functions inside it."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            yield node
            left += ast.iter_child_nodes(node)


def _raised(node: ast.AST, made_by: Mapping[str, set[str]], classes: Mapping[str, set[str]]) -> set[str]:
    """Return the project's errors that a `raise` names, or that a function of the same file makes for it."""
    if not isinstance(node, ast.Raise) or node.exc is None:
        return set()
    call = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    name = ast.unparse(call).split(".")[-1]
    return {name} if _is_ours(name, classes) else made_by.get(name, set())


def _returned(function: Function, classes: Mapping[str, set[str]]) -> set[str]:
    names = [] if function.returns is None else list(ast.walk(function.returns))
    return {each.id for each in names if isinstance(each, ast.Name) and _is_ours(each.id, classes)}


def _is_ours(name: str, classes: Mapping[str, set[str]]) -> bool:
    return name in classes and "FrazilError" in ancestors(name, classes)


def test_docstrings_name_the_errors_that_are_raised() -> None:
    parsed = [(path, tree) for path, tree in trees() if not path.is_relative_to(HELP_TEXTS)]
    all_trees = [tree for _, tree in trees()]
    classes, protocols = classes_of(all_trees), protocols_of(all_trees)

    found = [f"{name_of(path)}:{each}" for path, tree in parsed for each in silent(tree, classes, protocols)]

    assert _is_ours("SettingError", classes)
    assert found == [], "add `Raises …` to the docstring"


CLASSES = {"FrazilError": {"Exception"}, "SettingError": {"FrazilError"}, "Port": {"Protocol"}}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('def act():\n    raise SettingError("x")', 1),
        ('def act():\n    """Do it. Raises SettingError."""\n    raise errors.SettingError("x")', 0),
        ('def act():\n    """Raises FrazilError."""\n    if x:\n        raise SettingError("x")', 0),
        ("def act():\n    raise _refusal()\n\n\ndef _refusal() -> SettingError: ...", 1),
        ('def _act():\n    raise SettingError("x")', 0),
        ('class A:\n    def act(self):\n        raise SettingError("x")', 1),
        ("class A:\n    def act(self):\n        raise self._no()\n\n    def _no(self) -> SettingError: ...", 1),
        ('class A:\n    def read(self):\n        raise SettingError("x")\n\n    def close(self): ...', 0),
        ('class A:\n    def read(self):\n        raise SettingError("x")', 1),
        ('def act():\n    def inner():\n        raise SettingError("x")\n    raise ValueError', 0),
    ],
)
def test_a_function_that_does_not_name_its_error_is_found(source: str, count: int) -> None:
    assert len(silent(ast.parse(source), CLASSES, [{"read", "close"}])) == count
