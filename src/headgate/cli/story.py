"""`headgate story`: what happened in a run, as one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import ask, console
from headgate.errors import ConfigError, NotFound
from headgate.local import credentials

if TYPE_CHECKING:
    from headgate.pipelines.home import Home
    from headgate.pipelines.record import RunRecord


def story(
    what: Annotated[
        str, typer.Argument(metavar="FILE|RUN", help="A pipeline file, for its latest run, or the id of a run.")
    ] = "pipeline.yaml",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it here.", show_default=False)] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    url: ask.Url = None,
    api_key: ask.ApiKey = None,
    data_dir: ask.DataDir = credentials.DEFAULT_DATA_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print where it is as JSON.")] = False,
) -> None:
    """Write the story of a run and print where it is.

    It is told from the record beside the pipeline file; a run that is not recorded here is asked of the server.
    """
    from headgate.pipelines.resume import home_of

    file = Path(what)
    if file.is_file():
        written = _told(home_of(file), _latest(file), output)
    elif file.suffix in (".yaml", ".yml"):
        raise NotFound(f"{what!r} does not exist", hint="name a pipeline file or the id of a run")
    else:
        written = _of_run(what, output, url, api_key, data_dir)
    _show(written, as_json=as_json)
    if open_it:
        webbrowser.open(written.resolve().as_uri())


def _latest(file: Path) -> RunRecord:
    from headgate.pipelines.resume import latest

    found = latest(file)
    if found is None:
        raise NotFound(f"no run of {str(file)!r} is recorded beside it", hint=f"`headgate run {file}` first")
    return found


def _of_run(run_id: str, output: Path | None, url: str | None, api_key: str | None, data_dir: Path) -> Path:
    from headgate.pipelines.home import FOLDER, Home
    from headgate.pipelines.watchers import story_path

    home = Home(Path(FOLDER))
    try:
        return _told(home, home.load_record(run_id), output)
    except NotFound:
        # Then a server may know it, if there is one to be asked.
        if url is None and credentials.read(data_dir) is None:
            raise
    from headgate.client import HeadgateClient

    to = credentials.target(url, api_key, data_dir)
    with HeadgateClient(to.url, to.api_key, timeout_s=60, attempts=2) as client:
        text = client.pipeline_story(run_id)
    return _written(output or story_path(home, run_id), text)


def _told(home: Home, run: RunRecord, output: Path | None) -> Path:
    from headgate.pipelines.watchers import story_of, story_path

    return _written(output or story_path(home, run.run_id), story_of(home, run))


def _written(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written: {error.strerror}", hint="name another file with --output"
        ) from error
    return path


def _show(path: Path, *, as_json: bool) -> None:
    if as_json:
        ask.show_json({"story": str(path)})
    else:
        console.say(str(path))
