"""Messages, hints, help texts, docstrings and the docs use no word that plain English avoids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from pages import ROOT, nodes_of, parsed

FOLDERS = ("jobs", "infra", "lambdas", "shared", "devcloud")
"""Folders that keep all rules. This list only grows."""
QUOTES_WORDS = "test_plain_english.py"
"""Its samples have the words that are banned."""
PAGES = (
    "*.md",
    "docs/**/*.md",
    "tables/**/*",
    "exports/**/*",
    "transforms/**/*",
    "infra/environments/*",
    "worksheets/*",
    "frazil.yaml",
    "scripts/*.sh",
)
"""Files of which every line keeps the rule."""
WORDS = (
    r"who(m)?ever|somebody|someone|nobody|no one|that which|besides|fares?|mend(s|ed|ing)?|there yet|taken away|thereof"
    r"|stands?|stood|lies?|sick|in vain|hence|thereby|told"
)
BANNED_IN_PAGES = re.compile(rf"(?<![-\w`])({WORDS})(?![-\w`])", re.IGNORECASE)
BANNED = re.compile(rf"(?<![-\w`])({WORDS}|of it|tells?|went on|go(es|ing)? on)(?![-\w`])", re.IGNORECASE)
"""Messages and the first lines of docstrings are stricter. A word in backticks or with a hyphen is a name."""
READ_BY_USERS = re.compile(r"Error$|^(Misuse|Problem|Finding|NotYet|Violation|Wildcard)$")
"""The names of calls whose arguments a user reads."""
TEXTS = {"hint", "help", "epilog", "meaning", "reason", "description", "what", "why", "fix", "says", "note"}
"""Arguments and variables with texts that a user reads."""
CLAUSE = re.compile(
    r"(Also|Always|As|At|By|For|From|How|If|None|Nothing|Of|On|Raises|Since|That|To|Until|What|Whatever|Where|Whether|Which"
    r"|Who|Whose|Why|With)\b"
)
"""What the docstring of a function does not begin with: it says what the function returns or does."""
RUST_COMMENT = re.compile(r"(?:(?<=\s)|^)//.*")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def offences(source: str) -> list[str]:
    """Return the number and text of each line that a banned word is in."""
    tree = parsed(source)
    texts = (*_messages(tree), *_first_lines(tree), *_comments_of_values(tree))
    found = {each for each in texts if BANNED.search(each[1])} | set(_rest_of_docstrings(tree))
    return [f"{line}: {text}" for line, text in sorted(found)]


def _messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the string constants in errors, and in arguments and variables with the names of `TEXTS`."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            read = [*node.args, *(each.value for each in node.keywords)] if READ_BY_USERS.search(name) else []
            for argument in (*read, *(each.value for each in node.keywords if each.arg in TEXTS)):
                yield from _constants(argument)
        elif isinstance(node, ast.Assign) and TEXTS.issuperset(ast.unparse(each) for each in node.targets):
            yield from _constants(node.value)


def _constants(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value


def _rest_of_docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the later lines of docstrings with one of the words that pages do without, too."""
    for node in nodes_of(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            rest = enumerate(text.splitlines()[1:], start=node.body[0].lineno + 1)
            yield from ((number, line) for number, line in rest if BANNED_IN_PAGES.search(line))


def _first_lines(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in nodes_of(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text.partition("\n")[0]


def _comments_of_values(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the first lines of the strings below constants and fields, which document them."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    yield each.lineno, str(each.value.value).partition("\n")[0]


@pytest.mark.parametrize("folder", [*FOLDERS, "tests"])
def test_messages_and_docstrings_are_plain(folder: str) -> None:
    paths = [path for path in sorted((ROOT / folder).rglob("*.py")) if path.name != QUOTES_WORDS]
    assert paths

    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in offences(path.read_text())]

    assert found == [], "use the plain word: see the patterns at the top of this file"


def rust_comments(source: str) -> list[str]:
    """Return the number and text of each comment in Rust code that a banned word is in."""
    found = ((number, RUST_COMMENT.search(line)) for number, line in enumerate(source.splitlines(), start=1))
    return [f"{number}: {text[0]}" for number, text in found if text and BANNED_IN_PAGES.search(text[0])]


def test_comments_of_the_native_decoder_are_plain() -> None:
    paths = sorted((ROOT / "native" / "src").rglob("*.rs"))
    assert paths

    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in rust_comments(path.read_text())]

    assert found == [], "use the plain word: see the patterns at the top of this file"


def test_a_banned_word_in_a_comment_of_rust_is_found() -> None:
    source = '/// What nobody reads.\nlet url = "http://lies"; // fine\nlet nobody = 1; // told'

    assert rust_comments(source) == ["1: /// What nobody reads.", "3: // told"]


def clauses(source: str) -> list[str]:
    """Return the number and first line of each function's docstring that begins with a clause."""
    functions = (each for each in nodes_of(parsed(source)) if isinstance(each, ast.FunctionDef))
    texts = ((each.lineno, ast.get_docstring(each) or "") for each in functions)
    return [f"{line}: {text.splitlines()[0]}" for line, text in texts if CLAUSE.match(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_of_functions_say_what_they_return_or_do(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths

    found = [f"{path.relative_to(ROOT)}:{each}" for path in paths for each in clauses(path.read_text())]

    assert found == [], "begin with a verb (`Return …`, `Write …`), or for a property with a noun"


@pytest.mark.parametrize("begin", ["Of all keys.", "Whether it is open.", "Raises SettingError.", "If so, stop."])
def test_a_docstring_that_begins_with_a_clause_is_found(begin: str) -> None:
    assert len(clauses(f'def act():\n    """{begin}"""')) == 1
    assert clauses(f'def act():\n    """Return x. {begin}"""\n\n\nclass A:\n    """{begin}"""') == []


@pytest.mark.parametrize("pattern", PAGES)
def test_pages_are_plain(pattern: str) -> None:
    paths = [path for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    assert paths

    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if BANNED_IN_PAGES.search(line)
    ]

    assert found == [], "use the plain word: see the patterns at the top of this file"


@pytest.mark.parametrize(
    "source",
    [
        '"""What somebody reads."""',
        'def act():\n    """Say what a name stands for.\n\n    More.\n    """',
        'def act():\n    """Do it.\n\n    Nobody else does.\n    """',
        'FIELD = 1\n"""Where the files lie."""\nLIES = 2',
        'raise SettingError("it is not there yet", hint="wait")',
        'raise SettingError(f"{1} cannot be read", hint="mend it")',
        'raise errors.Misuse("x" if y else f"{z} was told nothing", hint="")',
        'Option("--once", help="For whoever waits.")',
        'AlarmSpec(meaning=f"{x} has failed, or nobody looked")',
        'Call("s3", reason="a missing one is told apart")',
        'Violation(path, "tables lie here", "move them")',
        'what = f"{x}: all copies of it"',
    ],
)
def test_a_banned_word_is_found(source: str) -> None:
    assert len(offences(source)) == 1


def test_names_and_words_that_only_contain_a_banned_one_pass() -> None:
    source = '"""Amend a file\'s name with `tell`, for a stand-in."""\nNAME = "nobody"\nraise KeyError("recommended")'

    assert offences(source) == []
