"""What a user installs: the wheel has the Spark agent in it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_wheel_holds_the_agent_for_both_scalas_and_its_hook(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("headgate-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for scala in ("2.12", "2.13"):
            with archive.open(f"headgate/spark/jars/headgate-spark_{scala}.jar") as jar, zipfile.ZipFile(jar) as inside:
                assert "headgate/spark/HeadgateListener.class" in inside.namelist()
                assert f"scala={scala}" in inside.read("headgate/spark/version.properties").decode().splitlines()
    assert "headgate/spark/hook/sitecustomize.py" in names
    assert not [name for name in names if name.endswith(".scala")]
