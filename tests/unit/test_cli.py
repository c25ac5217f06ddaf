"""The command line: what it prints, how it fails, and which server and secrets it uses."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate import client as client_module
from headgate.cli import console, keys, logs, replay
from headgate.cli.delivery import Tally
from headgate.cli.main import app, run
from headgate.errors import ConfigError, Conflict, NotFound
from headgate.local import claim, credentials
from headgate.local.credentials import Credentials

COMMANDS = [
    "",
    "up",
    "serve",
    "worker",
    "migrate",
    "replay",
    "keys",
    "keys create",
    "keys list",
    "keys revoke",
    "version",
]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command or "headgate")
def test_help_fits_80_columns(command: str) -> None:
    result = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [*command.split(), "--help"])

    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_the_commands_are_those_of_the_manual() -> None:
    result = CliRunner().invoke(app, ["--help"])

    for name in ("up", "serve", "worker", "migrate", "replay", "keys", "version"):
        assert f" {name} " in result.output


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out == "headgate 0.1.0\n"


def test_version_loads_neither_the_server_nor_an_http_client() -> None:
    script = (
        "import sys; from headgate.cli.main import run; run(['version']); "
        "print([m for m in ('headgate.server', 'httpx', 'asyncpg', 'rich', 'fastapi') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["headgate 0.1.0", "[]"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["upp"], "error[usage]: No such command 'upp'", id="unknown command"),
        pytest.param(["up", "--port", "70000"], "error[usage]: Invalid value for '--port'", id="bad value"),
        pytest.param(["replay"], "error[usage]: Missing argument", id="missing argument"),
        pytest.param(["replay", "x", "--frobnicate"], "error[usage]: No such option", id="unknown option"),
        pytest.param(["replay", "x"], "error[config.invalid]: no server is named", id="no server"),
        pytest.param(
            ["replay", "x", "--url", "http://127.0.0.1:1"], "error[not_found]: 'x' does not exist", id="no file"
        ),
        pytest.param(["serve"], "error[config.invalid]: HEADGATE_DATABASE_URL is not set", id="serve"),
        pytest.param(["worker"], "error[config.invalid]: HEADGATE_DATABASE_URL is not set", id="worker"),
        pytest.param(["migrate"], "error[config.invalid]: HEADGATE_DATABASE_URL is not set", id="migrate"),
    ],
)
def test_a_user_error_is_one_line_with_a_hint_and_code_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2

    printed = capsys.readouterr()
    first, hint, *rest = printed.err.splitlines()
    assert first.startswith(expected)
    assert hint.startswith("hint: ")
    assert (rest, printed.out) == ([], "")


@pytest.mark.parametrize(
    ("name", "value"),
    [("HEADGATE_RATE_KEY", "plenty"), ("HEADGATE_LOG_LEVEL", "loud"), ("HEADGATE_DATABASE_POOL_SIZE", "many")],
)
def test_a_bad_setting_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)

    assert run(["serve"]) == 2

    printed = capsys.readouterr().err
    assert name in printed
    assert "Traceback" not in printed


def test_a_bug_is_shown_whole_with_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(credentials, "read", lambda data_dir: 1 / 0)

    assert run(["keys", "list"]) == 1

    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "error[internal]: ZeroDivisionError: division by zero\nhint: " in printed


def test_ctrl_c_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(data_dir: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(credentials, "read", interrupt)

    assert run(["keys", "list"]) == 130


def test_a_server_that_is_not_there_is_told_with_its_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ndjson").write_text("{}\n")

    assert run(["replay", "a.ndjson", "--url", "http://127.0.0.1:1", "--api-key", "k", "--wait", "0"]) == 2

    printed = capsys.readouterr().err
    assert "error[unavailable]: the server took no more events: cannot reach 'http://127.0.0.1:1'" in printed
    assert "run the same command again" in printed


def test_credentials_are_private_from_the_first_byte_and_stay(tmp_path: Path) -> None:
    first = credentials.ensure(tmp_path, "http://127.0.0.1:1")
    again = credentials.ensure(tmp_path, "http://127.0.0.1:2")

    path = tmp_path / "credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(json.loads(path.read_text())) == ["url", "organization", "email", "password", "api_key"]
    assert first.api_key.startswith("hg_live_")
    assert (again.url, again.password, again.api_key) == ("http://127.0.0.1:2", first.password, first.api_key)
    assert [entry.name for entry in tmp_path.iterdir()] == ["credentials.json"]


def test_credentials_are_made_private_again(tmp_path: Path) -> None:
    known = credentials.ensure(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "credentials.json").chmod(0o644)

    credentials.ensure(tmp_path, known.url)

    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600


def test_secrets_are_not_in_the_repr(tmp_path: Path) -> None:
    known = credentials.ensure(tmp_path, "http://127.0.0.1:1")
    target = credentials.target(None, None, tmp_path)

    assert target.api_key == known.api_key
    for shown in (repr(known), repr(target)):
        assert known.api_key not in shown
        assert known.password not in shown


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"url": 1}'])
def test_a_damaged_credentials_file_is_never_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "credentials.json").write_text(content)

    with pytest.raises(ConfigError, match="cannot be used"):
        credentials.ensure(tmp_path, "http://127.0.0.1:1")

    assert (tmp_path / "credentials.json").read_text() == content


def test_the_key_of_the_file_goes_to_no_other_server(tmp_path: Path) -> None:
    known = credentials.ensure(tmp_path, "http://127.0.0.1:8642")

    def key(url: str | None, given: str | None = None) -> str | None:
        return credentials.target(url, given, tmp_path).api_key

    assert key(None) == key("http://127.0.0.1:8642/") == known.api_key
    assert key("http://lineage.example") is None
    assert key("http://lineage.example", "hg_live_other") == "hg_live_other"


def test_a_data_directory_is_held_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "PATIENCE_S", 0.05)

    with claim.data_directory(tmp_path / "new" / "dir") as held:
        with pytest.raises(Conflict, match=f"in use by process {os.getpid()}") as caught, claim.data_directory(held):
            pass
        assert caught.value.hint == f"stop it with `kill {os.getpid()}`, or choose another with --data-dir"
    with claim.data_directory(held):
        pass


def test_a_path_that_cannot_be_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be a data directory"), claim.data_directory(tmp_path / "file"):
        pass


def test_a_taken_port_is_told_and_zero_finds_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "PATIENCE_S", 0.05)
    with claim.port("127.0.0.1", 0) as listener:
        listener.listen()
        taken = listener.getsockname()[1]

        assert not claim.is_free("127.0.0.1", taken)
        with pytest.raises(Conflict, match=f"port {taken} on '127.0.0.1' is taken") as caught:
            claim.port("127.0.0.1", taken)
        assert "--port" in str(caught.value.hint)
        with claim.port("127.0.0.1", 0) as other:
            assert other.getsockname()[1] != taken


@pytest.mark.parametrize("host", ["nowhere.invalid", "203.0.113.7", "x" * 70], ids=["name", "address", "label"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        claim.port(host, 0)

    assert "--host" in str(caught.value.hint)


def test_a_server_that_listens_everywhere_has_a_local_url() -> None:
    with claim.port("0.0.0.0", 0) as listener:
        assert claim.url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


KEYS = [
    {"id": "1", "name": "old", "prefix": "hg_live_aaaa", "revoked_at": "2026-01-01T00:00:00Z"},
    {"id": "2", "name": "spark", "prefix": "hg_live_aaaa", "scopes": ["ingest"], "expires_at": "2027-05-01T00:00:00Z"},
    {"id": "3", "name": "dbt", "prefix": "hg_live_abcd", "scopes": ["ingest", "read"], "last_used_at": None},
]


class FakeServer:
    """Stands in for `HeadgateClient`: accounts in memory, and what was asked of them."""

    calls: list[tuple[Any, ...]]

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.calls.append(("open", url))

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def login(self, email: str, password: str) -> None:
        self.calls.append(("login", email, password))

    def create_key(self, name: str, scopes: list[str], *, expires_in_days: int | None) -> dict[str, Any]:
        self.calls.append(("create", name, scopes, expires_in_days))
        return {"id": "9", "name": name, "scopes": scopes, "key": "hg_live_shown_once"}

    def list_keys(self) -> list[dict[str, Any]]:
        return KEYS

    def revoke_key(self, key_id: str) -> None:
        self.calls.append(("revoke", key_id))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    FakeServer.calls = []
    monkeypatch.setattr(client_module, "HeadgateClient", FakeServer)
    (tmp_path / ".headgate").mkdir()
    credentials.write(
        tmp_path / ".headgate", Credentials("http://127.0.0.1:1", "Org", "ada@example.org", "word", "hg_live_x")
    )
    return FakeServer.calls


def test_a_new_key_is_alone_on_stdout(server: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "create", "spark", "--scope", "ingest", "--scope", "read", "--expires-in-days", "30"]) == 0

    printed = capsys.readouterr()
    assert printed.out == "hg_live_shown_once\n"
    assert "not shown again" in printed.err
    assert server == [
        ("open", "http://127.0.0.1:1"),
        ("login", "ada@example.org", "word"),
        ("create", "spark", ["ingest", "read"], 30),
    ]


def test_a_new_key_may_only_ingest_unless_told_otherwise(server: list[tuple[Any, ...]]) -> None:
    assert run(["keys", "create", "spark"]) == 0
    assert server[-1] == ("create", "spark", ["ingest"], None)


def test_keys_are_listed_for_people_and_for_machines(
    server: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert run(["keys", "list"]) == 0
    table = capsys.readouterr().out
    assert run(["keys", "list", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == KEYS
    assert max(len(line) for line in table.splitlines()) <= 80
    for word in ("spark", "hg_live_abcd", "revoked 2026-01-01", "until 2027-05-01", "active", "never"):
        assert word in table


@pytest.mark.parametrize(
    ("wanted", "key_id"), [("hg_live_aaaa", "2"), ("3", "3"), ("hg_live_ab", "3")], ids=["prefix", "id", "beginning"]
)
def test_a_key_is_revoked_by_its_prefix_or_id(server: list[tuple[Any, ...]], wanted: str, key_id: str) -> None:
    assert run(["keys", "revoke", wanted]) == 0
    assert server[-1] == ("revoke", key_id)


def test_a_key_that_is_not_clear_is_not_revoked() -> None:
    with pytest.raises(Conflict, match="fits 2 keys: hg_live_aaaa, hg_live_abcd"):
        keys._chosen(KEYS, "hg_live_a")
    with pytest.raises(NotFound, match="'1'"):
        keys._chosen(KEYS, "1")


def test_the_password_of_the_file_goes_to_no_other_server(
    server: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_PASSWORD", "theirs")

    assert run(["keys", "list", "--url", "http://lineage.example", "--email", "bob@example.org"]) == 0
    assert server == [("open", "http://lineage.example"), ("login", "bob@example.org", "theirs")]


def test_the_report_of_a_replay_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headgate.cli.delivery import Refusal

    monkeypatch.setenv("COLUMNS", "80")
    tally = Tally(stored=12_345, duplicates=2, refused=25)
    tally.refusals = [
        Refusal(f"a/long/folder/of/events-{n}.ndjson:{n}", "is not JSON: " + "why " * 30) for n in range(25)
    ]

    replay._report(tally, files=2, refused_file=None)

    printed = capsys.readouterr().out
    assert max(len(line) for line in printed.splitlines()) <= 80
    assert "and 5 more; --refused FILE keeps all of them" in printed
    assert "2 files: 12,372 events, 12,345 stored, 2 duplicate, 25 refused" in printed


def test_a_log_line_for_machines_is_json_with_what_came_along() -> None:
    import logging

    record = logging.LogRecord("headgate.x", logging.WARNING, __file__, 1, "took %d", (3,), None)
    record.correlation_id = "c-1"

    line = json.loads(logs.JsonFormatter().format(record))

    assert (line["message"], line["level"], line["correlation_id"]) == ("took 3", "warning", "c-1")
    assert line["time"].endswith("+00:00")


def test_what_a_server_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.pairs([("name", "orders\x1b]0;owned\x07\x1b[31m")])
    console.table(("name",), [("a\x1b[2Jb",)])
    console.note("c\x1bd")

    shown = "".join(capsys.readouterr())
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "owned" in shown
