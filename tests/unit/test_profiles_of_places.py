"""The tables `[backends.NAME.PROFILE]` of ferry.toml: how a place is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from builder import backends, config
from builder.errors import UsageError


@dataclass(frozen=True)
class Profile:
    """What some place may be told."""

    host: str = ""
    throttle: int = 0
    setup: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    limit_s: float = field(default=0.0, metadata=config.DURATION)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's file, and the user's own beneath it."""
    monkeypatch.chdir(tmp_path)
    user = Path.home() / ".config" / "gpuferry"
    user.mkdir(parents=True)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    (user / "config.toml").write_text('[backends.slurm.short]\nhost = "login"\nthrottle = 2\n')
    return tmp_path / "ferry.toml"


def test_the_nearer_file_wins_key_by_key(project: Path) -> None:
    """A profile's keys come from both files; those of the project's go before the user's."""
    project.write_text(
        '[backends.slurm.short]\nthrottle = 4\nsetup = ["module load cuda"]\nlimit-s = "1.5h"\n'
        'types = {h200 = "h200_141gb"}\n[backends.slurm.long]\n'
    )
    found = config.profile("slurm", "short", Profile)
    assert found == Profile("login", 4, ("module load cuda",), {"h200": "h200_141gb"}, 5400.0)
    assert config.profiles("slurm") == ["long", "short"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[backends.slurm.short]\nhots = 'x'", "sets 'hots', which is no key of it"),
        ("[backends.slurm.short]\nthrottle = 'two'", "sets throttle to 'two'"),
        ("[backends.slurm.short]\nsetup = 'module'", "sets setup to 'module'"),
        ("[backends.slurm.short]\nlimit_s = 'soon'", "sets limit_s to 'soon'"),
        ("[backends.slurm]\nhost = 'x'", "holds more than profiles"),
        ("backends = 1", "holds more than profiles"),
    ],
)
def test_a_wrong_profile_is_named(project: Path, content: str, said: str) -> None:
    """An unknown key, a value of another kind and a table in the wrong place say which file they are in."""
    project.write_text(content)
    with pytest.raises(UsageError) as caught:
        config.profile("slurm", "short", Profile)
    assert said in caught.value.message
    assert str(project) in caught.value.message


def test_an_unknown_profile_lists_the_known_ones(project: Path) -> None:
    """A wrong name is a usage error with the right ones in its hint, and a place may take none at all."""
    with pytest.raises(UsageError) as caught:
        config.profile("slurm", "shrot", Profile)
    assert "profiles: short" in caught.value.hint
    with pytest.raises(UsageError, match="backend manual takes no profile"):
        backends.load("manual:short")
