"""Finding Spark, choosing the jar, and adding the agent to what a user has configured: all without a JVM."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from headgate.cli.main import run
from headgate.errors import ConfigError
from headgate.spark import find, launch, properties
from headgate.spark.compose import LISTENER, REDACTION, Server, with_agent, with_key
from headgate.spark.formats import written
from headgate.spark.jar import jar_path, scala_of
from headgate.spark.submit import Submission

JAR = Path("/opt/headgate-spark_2.13.jar")
SERVER = Server("http://lineage:8642", "hg_live_secret", "nightly", "/var/spool/headgate")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    for scala in ("2.12", "2.13"):
        (folder / f"headgate-spark_{scala}.jar").touch()
    return folder


def a_spark(folder: Path, version: str = "4.2.0", scala: str = "2.13") -> Path:
    """A folder that looks like a Spark installation."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_{scala}-{version}.jar").touch()
    (folder / "jars" / f"scala-library-{scala}.18.jar").touch()
    (folder / "bin").mkdir()
    submit = folder / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o755)
    return folder


def no_defaults() -> dict[str, str]:
    return {}


@pytest.mark.parametrize(
    ("version", "scala", "name"),
    [
        ("3.5.9", None, "headgate-spark_2.12.jar"),
        ("3.5.1-amzn-0", "2.12", "headgate-spark_2.12.jar"),
        ("4.0", None, "headgate-spark_2.13.jar"),
        ("4.3.0", "2.13", "headgate-spark_2.13.jar"),
        ("4.10.0-SNAPSHOT", None, "headgate-spark_2.13.jar"),
    ],
)
def test_jar_follows_the_version_of_a_spark(jars: Path, version: str, scala: str | None, name: str) -> None:
    assert jar_path(version, scala, folder=jars) == jars / name


@pytest.mark.parametrize(
    ("version", "scala", "said"),
    [
        ("3.4.4", None, "Spark 3.4.4 is older than what the agent supports"),
        ("2.4.8", "2.11", "Spark 2.4.8 is older than what the agent supports"),
        ("four", None, "'four' is not a version of Spark"),
        ("", None, "'' is not a version of Spark"),
        ("4", None, "'4' is not a version of Spark"),
        ("4.2.0", "2.12", "the agent does not serve Spark 4.2.0 with Scala '2.12'"),
        ("3.5.9", "2.13", "the agent does not serve Spark 3.5.9 with Scala '2.13'"),
    ],
)
def test_spark_without_a_jar_is_refused(jars: Path, version: str, scala: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")) as refused:
        jar_path(version, scala, folder=jars)
    assert refused.value.hint


def test_missing_jars_say_how_to_build_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are none") as refused:
        jar_path("4.2.0", folder=tmp_path)
    assert "make agent" in (refused.value.hint or "")


def test_spark_is_known_by_its_own_jars(tmp_path: Path) -> None:
    home = a_spark(tmp_path / "spark", "3.5.1", "2.13")
    assert find.spark_at(home) == find.Spark(home, "3.5.1", "2.13")
    assert scala_of(home / "jars") == "2.13"


def test_folder_without_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no Spark"):
        find.spark_at(tmp_path)


def test_connect_client_is_told_to_configure_the_server(tmp_path: Path) -> None:
    (tmp_path / "sql" / "connect").mkdir(parents=True)
    with pytest.raises(ConfigError, match="Spark Connect client") as refused:
        find.spark_at(tmp_path)
    assert "server" in (refused.value.hint or "")


def test_spark_home_comes_before_the_path_and_the_interpreter(tmp_path: Path) -> None:
    named = a_spark(tmp_path / "named", "3.5.9", "2.12")
    on_path = a_spark(tmp_path / "path", "4.0.5")
    environ = {"SPARK_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find.spark_of_submit(environ).home == named
    assert find.spark_of_python(None, environ).home == named
    assert find.spark_of_submit({"PATH": str(on_path / "bin")}).home == on_path


def test_linked_spark_submit_leads_to_its_spark(tmp_path: Path) -> None:
    home = a_spark(tmp_path / "spark")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").symlink_to(home / "bin" / "spark-submit")
    assert find.spark_of_submit({"PATH": str(tmp_path / "bin")}).home == home


def test_interpreter_without_pyspark_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\n")
    bare.chmod(0o755)
    with pytest.raises(ConfigError, match="has no pyspark"):
        find.spark_of_python(bare, {})


def test_unknown_interpreter_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no interpreter 'python9'"):
        find.python_for("python9", {"PATH": "/nowhere"})


@pytest.mark.parametrize("environ", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}])
def test_missing_java_is_said(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Spark needs Java"):
        find.java_of(environ)


def test_agent_joins_what_the_user_has_set() -> None:
    own = {"spark.jars": "/a.jar,/b.jar", "spark.extraListeners": "com.acme.Audit", "spark.headgate.url": "http://own"}
    assert with_agent(own, JAR, SERVER.settings) == {
        "spark.jars": f"/a.jar,/b.jar,{JAR}",
        "spark.extraListeners": f"com.acme.Audit,{LISTENER}",
        "spark.headgate.url": "http://own",
        "spark.headgate.namespace": "nightly",
        "spark.headgate.spoolDir": "/var/spool/headgate",
    }


def test_adding_the_agent_twice_is_adding_it_once() -> None:
    once = with_agent({"spark.jars": " /a.jar , "}, JAR, SERVER.settings)
    assert with_agent(once, JAR, SERVER.settings) == once
    assert once["spark.jars"] == f"/a.jar,{JAR}"


def test_key_is_in_no_setting_and_no_repr_unless_it_is_asked_for() -> None:
    assert "hg_live_secret" not in repr(SERVER)
    assert "hg_live_secret" not in str(SERVER.settings)
    assert SERVER.environment["HEADGATE_API_KEY"] == "hg_live_secret"
    assert with_key(SERVER)["spark.headgate.apiKey"] == "hg_live_secret"
    assert with_key(SERVER)["spark.redaction.regex"] == REDACTION


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("spark.jars /a.jar", {"spark.jars": "/a.jar"}),
        ("spark.jars=/a.jar", {"spark.jars": "/a.jar"}),
        ("spark.jars : /a.jar  ", {"spark.jars": "/a.jar"}),
        ("\t spark.jars\t=  /a b.jar", {"spark.jars": "/a b.jar"}),
        ("# spark.jars /a.jar\n! x y\n\n", {}),
        ("spark.jars /a.jar,\\\n   /b.jar", {"spark.jars": "/a.jar,/b.jar"}),
        ("spark.x a\\\\", {"spark.x": "a\\"}),
        ("spark.x a=b:c", {"spark.x": "a=b:c"}),
        ("spark.x", {"spark.x": ""}),
        ("spark\\ x\\=y 1", {"spark x=y": "1"}),
        ("spark.x \\u00e4\\n\\q", {"spark.x": "ä\nq"}),
        ("spark.x 1\nspark.x 2", {"spark.x": "2"}),
        ("spark.x 1\\", {"spark.x": "1"}),
    ],
)
def test_properties_are_read_as_spark_reads_them(text: str, read: dict[str, str]) -> None:
    assert properties.parse(text) == read


def test_defaults_come_from_the_configuration_folder(tmp_path: Path) -> None:
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "conf" / "spark-defaults.conf").write_text("spark.a 1")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "spark-defaults.conf").write_text("spark.a 2")
    assert properties.spark_defaults(tmp_path / "home", {}) == {"spark.a": "1"}
    assert properties.spark_defaults(tmp_path / "home", {"SPARK_CONF_DIR": str(tmp_path / "own")}) == {"spark.a": "2"}
    assert properties.spark_defaults(tmp_path, {}) == {}


def test_submission_ends_its_options_at_the_application() -> None:
    read = Submission.parse(["--master", "yarn", "-v", "--conf=spark.a=1", "job.py", "--jars", "x", "-c", "y"])
    assert read.options == [("--master", "yarn"), ("-v", None), ("--conf", "spark.a=1")]
    assert read.application == ["job.py", "--jars", "x", "-c", "y"]
    assert read.conf == {"spark.a": "1"}


def test_submission_gets_the_agent_before_the_application() -> None:
    given = ["--jars", "/a.jar", "-c", "spark.extraListeners=com.acme.Audit", "job.py", "--jars", "not.ours"]
    assert Submission.parse(given).with_agent(JAR, {"spark.headgate.url": "http://h"}, no_defaults) == [
        *("--jars", "/a.jar", "-c", "spark.extraListeners=com.acme.Audit"),
        *("--jars", f"/a.jar,{JAR}"),
        *("--conf", "spark.headgate.url=http://h"),
        *("--conf", f"spark.extraListeners=com.acme.Audit,{LISTENER}"),
        *("job.py", "--jars", "not.ours"),
    ]


def test_submission_without_an_application_gets_the_agent_at_its_end() -> None:
    given = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    assert Submission.parse(given).with_agent(JAR, {}, no_defaults) == [
        *given,
        *("--jars", str(JAR), "--conf", f"spark.extraListeners={LISTENER}"),
    ]


def test_submission_adds_to_what_the_defaults_say() -> None:
    defaults = {"spark.jars": "/d.jar", "spark.extraListeners": "com.acme.Audit", "spark.headgate.url": "http://own"}
    command = Submission.parse(["job.py"]).with_agent(JAR, {"spark.headgate.url": "http://h"}, lambda: defaults)
    assert command == [
        *("--jars", f"/d.jar,{JAR}", "--conf", f"spark.extraListeners=com.acme.Audit,{LISTENER}"),
        "job.py",
    ]


def test_submission_with_a_properties_file_leaves_the_defaults_out(tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    own.write_text("spark.jars /own.jar\n")
    defaults = {"spark.jars": "/d.jar", "spark.extraListeners": "com.acme.Audit"}
    alone = Submission.parse(["--properties-file", str(own), "job.py"])
    both = Submission.parse(["--properties-file", str(own), "--load-spark-defaults", "job.py"])
    assert alone.effective(lambda: defaults) == {"spark.jars": "/own.jar"}
    assert both.effective(lambda: defaults) == {"spark.jars": "/own.jar", "spark.extraListeners": "com.acme.Audit"}


@pytest.mark.parametrize("given", [["--version"], ["--help"], ["--kill", "driver-1"], ["--status", "driver-1"]])
def test_questions_to_spark_are_known(given: list[str]) -> None:
    assert Submission.parse(given).is_question


@pytest.mark.parametrize(
    ("given", "is_in_cluster"),
    [
        (["--deploy-mode", "cluster", "job.py"], True),
        (["--deploy-mode=cluster", "job.py"], True),
        (["--conf", "spark.submit.deployMode=cluster", "job.py"], True),
        (["--deploy-mode", "client", "job.py", "--deploy-mode", "cluster"], False),
    ],
)
def test_driver_on_another_machine_is_known(given: list[str], is_in_cluster: bool) -> None:
    assert Submission.parse(given).is_in_cluster is is_in_cluster


def test_command_line_never_holds_the_key(tmp_path: Path) -> None:
    environ = {"SPARK_HOME": str(a_spark(tmp_path / "spark")), "JAVA_HOME": str(a_java(tmp_path))}
    job = tmp_path / "job.py"
    job.touch()
    for launched in (
        launch.submission(["--master", "local", str(job)], SERVER, environ=environ),
        launch.script(str(job), ["a"], SERVER, python=None, environ=environ),
    ):
        assert "hg_live_secret" not in " ".join(launched.command)
        assert "hg_live_secret" not in repr(launched)
        assert launched.environment["HEADGATE_API_KEY"] == "hg_live_secret"


def a_java(folder: Path) -> Path:
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(0o755)
    return home


def test_job_without_a_server_is_launched_as_it_is(tmp_path: Path) -> None:
    environ = {"SPARK_HOME": str(a_spark(tmp_path / "spark", "2.4.8", "2.11")), "JAVA_HOME": str(a_java(tmp_path))}
    job = tmp_path / "job.py"
    job.touch()
    launched = launch.script(str(job), ["--x", "1"], None, python=sys.executable, environ=environ)
    assert launched.command == [sys.executable, str(job), "--x", "1"]
    assert launched.environment == environ


def test_hook_keeps_the_path_of_the_user() -> None:
    environment = launch.watched({"PYTHONPATH": "/own"}, SERVER)
    assert environment["PYTHONPATH"].split(":") == [str(launch.HOOK), "/own"]


def test_forms_of_the_configuration_say_the_same() -> None:
    conf = {"spark.jars": "/a b.jar", "spark.x": 'q"\\d'}
    assert shlex.split(written(conf, "submit").replace("\\\n", " ")) == [
        "--jars",
        "/a b.jar",
        "--conf",
        'spark.x=q"\\d',
    ]
    assert properties.parse(written(conf, "defaults")) == conf
    assert json.loads(written(conf, "json")) == conf
    assert written(conf, "python").splitlines() == [
        '.config("spark.jars", "/a b.jar")',
        '.config("spark.x", "q\\"\\\\d")',
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "missing.py"], "there is no job 'missing.py'"),
        (["run", "."], "'.' is a folder, not a job"),
        (["run"], "no job is named"),
        (["submit"], "nothing to submit"),
        (["run", "--url", "lineage:8642", "job.py"], "'lineage:8642' is not the address of a server"),
        (["run", "--require-server", "job.py"], "no server is named"),
        (["run", "--require-server", "--url", "http://127.0.0.1:1", "job.py"], "no server answers at"),
        (["run", "--bogus", "job.py"], "there is no option '--bogus'"),
        (["jar", "--spark-version", "3.2.1"], "Spark 3.2.1 is older"),
        (["jar", "--spark-version", "new"], "'new' is not a version of Spark"),
        (["jar", "--spark-version", "4.2", "--scala", "3"], "does not serve Spark"),
        (["conf", "--format", "xml"], "xml"),
    ],
)
def test_bad_input_is_a_user_error(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.py").touch()
    monkeypatch.chdir(tmp_path)
    assert run(["spark", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error[")
    assert said in printed.err
    assert "hint: " in printed.err


def test_conf_leaves_the_key_out_until_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [
        "spark",
        "conf",
        "--format",
        "json",
        "--url",
        "http://h:1",
        "--api-key",
        "hg_live_secret",
        "--jar",
        "/x.jar",
    ]
    assert run(given) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "spark.headgate.url": "http://h:1",
        "spark.extraListeners": LISTENER,
        "spark.jars": "/x.jar",
    }
    assert "HEADGATE_API_KEY" in printed.err
    assert run([*given, "--with-key"]) == 0
    assert json.loads(capsys.readouterr().out)["spark.headgate.apiKey"] == "hg_live_secret"


@pytest.mark.parametrize("url", ["not a url", "localhost:8642", "ftp://host", "http://"])
def test_address_that_leads_nowhere_is_refused_before_the_job(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server"):
        Server(url)
