"""Credentials never travel: refused by file name and by the shape of a key, without showing the value."""

from pathlib import Path

import pytest

from builder.bundle import gather_model, make_bundle
from builder.errors import RefusedHereError
from builder.secrets import FILE_NAMES, KEYS, refuse_keys
from builder.spec import RunSpec

ENTRY = "class UserOptimizedTransformer: ...\n"

# Put together here, so that no scanner takes this file for a leak.
TOKENS = {
    "a Kaggle token": "KGAT" + "_0123456789abcdef0123456789abcdef",
    "a Kaggle key": "export KAGGLE" + "_KEY=0123456789abcdef0123456789abcdef",
    "an AWS access key": "AKIA" + "IOSFODNN7EXAMPLE",
    "an AWS secret key": "aws_secret" + "_access_key = " + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "a GitHub token": "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345",
    "a GitLab token": "glpat" + "-0123456789abcdefghij",
    "a Hugging Face token": "hf" + "_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "an OpenAI or Anthropic key": "sk" + "-proj-0123456789abcdefghijABCDEFGHIJ",
    "a Google key": "AIza" + "0123456789abcdefghijABCDEFGHIJ01234",
    "an NVIDIA key": "nvapi" + "-0123456789abcdefghijABCDEFGHIJ",
    "a Slack token": "xoxb" + "-0123456789-abcdefghij",
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
}

HARMLESS = {
    "a checksum": "5529c96a80799b51f68092e1444a30b17994554dffdf52da98ba701489a7f36e",
    "a key that is no user's": '{"key": "0123456789abcdef0123456789abcdef"}',
    "a word that only begins like a key": "task-parallel_attention_and_normalisation-2",
    "reading a key": 'key = os.environ["KAGGLE_KEY"]',
    "a short word": "sk-learn hf_hub ghp_",
}


@pytest.mark.parametrize("kind", KEYS)
def test_each_kind_of_key_is_refused_with_its_line(kind: str) -> None:
    """A key in any text is refused with file, line and kind; the value is not repeated."""
    with pytest.raises(RefusedHereError) as caught:
        refuse_keys(f"# first\nTOKEN = '{TOKENS[kind]}'\n", "entry.py")
    assert caught.value.message == f"entry.py:2 holds what looks like {kind}"
    assert TOKENS[kind][-12:] not in f"{caught.value.message} {caught.value.hint}"


def test_content_of_kaggle_json_is_refused_under_any_name() -> None:
    """A user name and a key of 32 hex digits in one text are a Kaggle key."""
    text = '{\n "username": "somebody",\n "key": "' + "0123456789abcdef" * 2 + '"\n}\n'
    with pytest.raises(RefusedHereError, match=r"settings\.toml:3 holds what looks like a Kaggle key"):
        refuse_keys(text, "settings.toml")


@pytest.mark.parametrize("what", HARMLESS)
def test_what_only_resembles_a_key_passes(what: str) -> None:
    """Checksums, words and code that reads a key are no credentials."""
    refuse_keys(HARMLESS[what], "entry.py")


@pytest.mark.parametrize("pattern", FILE_NAMES)
def test_credential_files_are_refused_by_name(tmp_path: Path, pattern: str) -> None:
    """A file with a credential's name in the model's package stops the build, whatever is in it."""
    package = tmp_path / "entry"
    package.mkdir()
    (package / "__init__.py").write_text(ENTRY)
    name = pattern.replace("*", "x")
    (package / name).write_text("")
    with pytest.raises(RefusedHereError, match="has the name of a credential file") as caught:
        gather_model(str(package), ())
    assert name in caught.value.message


@pytest.mark.parametrize("name", ["entry.py", "helper.py"])
def test_keys_in_any_travelling_file_stop_the_build(tmp_path: Path, name: str) -> None:
    """The model and a helper beside it are both looked through."""
    files = {"entry.py": f"import helper\n{ENTRY}", "helper.py": "x = 1\n"}
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    with (tmp_path / name).open("a") as stream:
        stream.write(f"TOKEN = '{TOKENS['a GitHub token']}'\n")
    with pytest.raises(RefusedHereError, match=rf"{name}:\d holds what looks like a GitHub token"):
        make_bundle(RunSpec("smoke", (), model_path=str(tmp_path / "entry.py")))


def test_key_in_somebodys_harness_stops_the_build(tmp_path: Path) -> None:
    """The harness file travels, so it is looked through as well."""
    (tmp_path / "theirs.py").write_text(f"x = '{TOKENS['a Hugging Face token']}'\n")
    with pytest.raises(RefusedHereError, match=r"theirs\.py:1 holds what looks like a Hugging Face token"):
        make_bundle(RunSpec("smoke", (), harness_path=str(tmp_path / "theirs.py")))
