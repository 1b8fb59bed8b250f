"""What the pages say exists: commands, folders, links; and what exists is in the pages."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from commands import DEPLOY_OPTIONS, DEPLOY_VERBS, SCRIPT, TARGETS, problem_of_deploy, problem_of_verb
from pages import (
    GENERATED,
    ROOT,
    SOURCES,
    WRITTEN,
    Fence,
    fences,
    name_of,
    prose,
    section,
    spans,
    text_of,
    texts_in,
    trees,
)

from frazil.model.dead_letter import Reason
from frazil.proof.verification import FindingKind

OPERATE = ROOT / "docs/operate.md"
DECISIONS = ROOT / "docs/decisions"
FOLDERS = (
    "jobs",
    "docs",
    "tests",
    "bench",
    "native",
    "tables",
    "exports",
    "examples",
    "transforms",
    "scripts",
    "infra",
    "lambdas",
    "shared",
    "devcloud",
)
OF_OTHERS = {"git", "cat", "cd", "head", "source", "export", "unset", "aws", "chmod", "confluent", "openssl",
             "spark-submit", "terraform"}  # fmt: skip
each_page = pytest.mark.parametrize("page", WRITTEN, ids=name_of)


def _problem_of_command(line: str, page: Path) -> str | None:
    bare = re.sub(r"^(\w+=\S* )+", "", line.replace(".venv/bin/", ""))
    match shlex.split(bare, comments=True):
        case [script, *words] if script == SCRIPT:
            return problem_of_deploy(words)
        case ["make", *targets]:
            return ", ".join(f"make has no target {each}" for each in targets if each not in TARGETS) or None
        case ["frazil", *_]:
            return problem_of_verb(bare)
        case ["python", *arguments]:
            return _problem_of_python(arguments, page)
        case [command, *_] if command not in OF_OTHERS and not (ROOT / command).is_file():
            return f"there is no command {command}"
    return None


def _problem_of_python(arguments: list[str], page: Path) -> str | None:
    match arguments:
        case ["-m", module, *_]:
            path = ROOT / module.replace(".", "/")
            return None if path.is_dir() or path.with_suffix(".py").is_file() else f"there is no module {module}"
        case ["-c", code]:
            compile(code, "<page>", "exec")
        case [script, *_] if f"`{script}`" not in prose(page):
            return f"the page does not say what {script} is"
    return None


def _commands(fence: Fence) -> list[str]:
    return [line.strip() for line in fence.body.replace("\\\n", " ").splitlines()]


@each_page
def test_fenced_commands_exist(page: Path) -> None:
    lines = [line for fence in fences(page) if fence.language == "bash" for line in _commands(fence)]

    problems = [f"{line}: {problem}" for line in lines if (problem := _problem_of_command(line, page))]

    assert problems == []


@each_page
def test_commands_in_sentences_exist(page: Path) -> None:
    mentioned = [span for span in spans(page) if re.match(r"(frazil|make|scripts/deploy\.sh) [a-z]", span)]

    problems = [f"{span}: {problem}" for span in mentioned if (problem := _problem_of_command(span, page))]

    assert problems == []


def _saved_by_readers(page: Path) -> set[str]:
    return set(re.findall(r"Save this as `([^`]+)`", prose(page)))


@each_page
def test_named_files_and_folders_exist(page: Path) -> None:
    paths = [span for span in spans(page) if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]*", span)]
    made_by_the_reader = {"tables/orders.yaml", "tables/people.yaml", *_saved_by_readers(page)}

    missing = [path for path in paths if path not in made_by_the_reader and not (ROOT / path).exists()]

    assert missing == []


def test_pages_can_be_followed_one_after_another_in_one_folder() -> None:
    """A page that saves a file of another page, or fills its topic, would meet the table that this one left."""
    made = Counter(
        name
        for page in WRITTEN
        for name in _saved_by_readers(page) | set(re.findall(r"NewTopic\((\S+),", text_of(page)))
    )

    assert made
    assert [name for name, pages in made.items() if pages > 1] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/architecture.md"], ids=name_of)
def test_boxes_of_the_diagram_are_files_and_folders(page: Path) -> None:
    diagram = next(fence.body for fence in fences(page) if fence.language == "mermaid")
    boxes = re.findall(r"[\w/]+\.py|[\w/]+/(?=[\"<\s])", diagram)
    there = [f"/{name_of(path)}" for path in (*SOURCES, *{path.parent for path in SOURCES}, *ROOT.iterdir())]

    missing = [box for box in boxes if not any(path.endswith(f"/{box.rstrip('/')}") for path in there)]

    assert boxes
    assert missing == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*WRITTEN, *GENERATED], ids=name_of)
def test_links_resolve(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in link]
    broken = []

    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("page", [page for page in (*WRITTEN, *GENERATED) if page.parent != ROOT], ids=name_of)
def test_a_page_begins_with_what_the_reader_can_do_after_it(page: Path) -> None:
    if re.match(r"\d{4}-", page.name):
        assert [line for line in text_of(page).splitlines() if line.startswith("## ")] == [
            "## Context",
            "## Decision",
            "## Consequences",
        ]
    else:
        opening = re.sub(r"<!--.*?-->", "", text_of(page)).split("\n\n")
        assert any(paragraph.lstrip().startswith("After this page") for paragraph in opening[:3])


def _error_classes() -> set[str]:
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for _, tree in trees()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    found = {"FrazilError"}
    while more := {name for name, of in bases.items() if found & set(of)} - found:
        found |= more
    return found


def test_every_error_has_an_entry_in_operate() -> None:
    entries = re.findall(r"^### (\w+)$", section(OPERATE, "Errors"), re.MULTILINE)

    assert sorted(entries) == sorted(_error_classes())


def test_what_operate_quotes_is_what_is_printed() -> None:
    quoted = re.findall(r"\*(\"[^*]+\")\.?\*", section(OPERATE, "Errors").replace("\n", " "))
    phrases = [phrase for line in quoted for phrase in re.findall(r"\"([^\"]+)\"", line)]
    printed = "\n".join(re.sub(r"\s+", " ", text) for _, tree in trees() for text in texts_in(tree))

    unknown = [phrase for phrase in phrases if not _as_pattern(phrase).search(printed)]

    assert len(phrases) > 30
    assert unknown == []


def _as_pattern(phrase: str) -> re.Pattern[str]:
    pieces = [re.escape(piece) for piece in re.split(r"…|\d+", phrase)]
    return re.compile(".*?".join(pieces))


def test_warnings_in_operate_are_logged() -> None:
    events = re.findall(r"^\| `(\w+)`", section(OPERATE, "Events in the log"), re.MULTILINE)
    logged = {text.split(" ")[0] for _, tree in trees() for text in texts_in(tree)}

    assert events
    assert [event for event in events if event not in logged] == []


def test_every_reason_is_in_operate() -> None:
    table = section(OPERATE, "Why a record is a dead letter")

    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [reason.value for reason in Reason]


def test_every_kind_of_finding_is_in_operate() -> None:
    first_cells = "".join(re.findall(r"^\|([^|]+)\|", section(OPERATE, "What `verify` finds"), re.MULTILINE))

    assert sorted(re.findall(r"`(\w+)`", first_cells)) == sorted(kind.value for kind in FindingKind)


def test_every_decision_is_listed() -> None:
    pages = sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))

    assert re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", text_of(DECISIONS / "README.md")) == pages
    assert [name[:4] for name in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]


def test_the_heading_of_the_script_tells_its_verbs_and_options() -> None:
    code = text_of(ROOT / SCRIPT).partition("\nset -e")[2]

    assert set(re.findall(r"^ +(--[a-z-]+)(?:=\?\*)?(?:\)| \|)", code, re.MULTILINE)) <= DEPLOY_OPTIONS
    assert {"create", "delete", "plan", "check", "outputs", "rotate"} == set(DEPLOY_VERBS)


def test_every_make_target_has_a_help_text() -> None:
    makefile = text_of(ROOT / "Makefile")

    silent = [target for target in sorted(TARGETS) if not re.search(rf"^{target}:.* ## \S", makefile, re.MULTILINE)]

    assert silent == []


def test_every_command_that_a_hint_names_exists() -> None:
    named = {
        (name_of(path), match)
        for path, tree in trees()
        for text in texts_in(tree)
        for match in re.findall(r"(?:`|run: |with: |run )(frazil (?:--)?[a-z][a-z -]*[a-z])", text)
    }

    problems = [f"{path}: {problem}" for path, line in sorted(named) if (problem := problem_of_verb(line))]

    assert problems == []
