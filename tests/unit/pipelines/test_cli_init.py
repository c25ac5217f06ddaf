"""A new project: what is written, that it is valid, and that nothing of the user's is touched."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from headgate.cli.main import run

EXAMPLES = ["taxi", "retail", "minimal"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_new_project_is_valid(example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "new"), "--example", example]) == 0
    assert run(["validate", str(tmp_path / "new" / "pipeline.yaml")]) == 0

    assert "is valid" in capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_new_project_has_all_that_it_needs(example: str, tmp_path: Path) -> None:
    run(["init", str(tmp_path), "--example", example])

    assert {"pipeline.yaml", "cleaning.py", "README.md", ".gitignore"} <= {each.name for each in tmp_path.iterdir()}
    ast.parse((tmp_path / "cleaning.py").read_text(encoding="utf-8"))
    assert list(tmp_path.glob("data/landing/*.csv"))
    assert ".headgate/" in (tmp_path / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_what_was_written_is_listed_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(["init", "new", "--example", "minimal"])
    told = capsys.readouterr()
    run(["init", "other", "--example", "minimal", "--json"])
    answer = json.loads(capsys.readouterr().out)

    assert "new/pipeline.yaml" in told.out.splitlines()
    assert "cd new && headgate run" in told.err
    assert sorted(answer["files"]) == sorted(
        str(each.relative_to("other")) for each in Path("other").rglob("*") if each.is_file()
    )


def test_nothing_that_is_there_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")

    assert run(["init", str(tmp_path)]) == 2

    told = capsys.readouterr().err
    assert "error[conflict]" in told
    assert "README.md" in told
    assert [each.name for each in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    assert run(["init", str(tmp_path / "file" / "new")]) == 2
    assert "cannot be written" in capsys.readouterr().err
