"""Credentials must not travel: a pushed kernel is stored by the service as plain text.

Known by the file's name, or by the shape of a key in its text. A message says file, line and kind, never the
value.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch

from builder.errors import RefusedHereError

FILE_NAMES = (
    "kaggle.json",
    "access_token",
    "access_token.txt",
    "credentials.json",
    "client_secret*.json",
    ".env",
    ".netrc",
    ".pypirc",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.pem",
    "*.p12",
    "*.pfx",
)

# A key's characters go on to its end, so that a longer word which only begins like a key is none.
KEYS = {
    "a Kaggle token": r"\bKGAT_[0-9A-Za-z_-]{8,}",
    "a Kaggle key": r"""\bKAGGLE_(?:KEY|API_TOKEN)["'\]\s]*[:=]\s*["']?[0-9A-Za-z_-]{20,}""",
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "an AWS secret key": r"(?i:aws_secret_access_key)\W{1,6}[0-9A-Za-z/+=]{40}",
    "a GitHub token": r"\b(?:gh[pousr]_[0-9A-Za-z]{36,}|github_pat_[0-9A-Za-z_]{22,})",
    "a GitLab token": r"\bglpat-[0-9A-Za-z_-]{20,}",
    "a Hugging Face token": r"\bhf_[0-9A-Za-z]{30,}",
    "an OpenAI or Anthropic key": r"\bsk-(?=[A-Za-z_-]*\d)[0-9A-Za-z_-]{20,}",
    "a Google key": r"\bAIza[0-9A-Za-z_-]{35}",
    "an NVIDIA key": r"\bnvapi-[0-9A-Za-z_-]{20,}",
    "a Slack token": r"\bxox[abeprs]-[0-9A-Za-z-]{10,}",
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----",
}
_ANY_KEY = re.compile("|".join(f"({pattern})" for pattern in KEYS.values()))

# The content of kaggle.json, whatever the file is called: a key alone could be any checksum.
_KAGGLE_USER = re.compile(r"""["']username["']\s*:""")
_KAGGLE_KEY = re.compile(r"""["']key["']\s*:\s*["'][0-9a-f]{32}["']""")


def refuse_file_name(name: str, shown: str) -> None:
    """Raise RefusedHereError when files called `name` hold credentials; `shown` says where it lies."""
    if any(fnmatch(name.lower(), pattern) for pattern in FILE_NAMES):
        raise RefusedHereError(
            f"{shown} has the name of a credential file", "move it out of the folder that is bundled"
        )


def refuse_keys(text: str, shown: str) -> None:
    """Raise RefusedHereError when `text`, shown as `shown`, holds what looks like a key."""
    if found := _ANY_KEY.search(text):
        kind = list(KEYS)[(found.lastindex or 1) - 1]
    elif _KAGGLE_USER.search(text) and (found := _KAGGLE_KEY.search(text)):
        kind = "a Kaggle key"
    else:
        return
    line = text.count("\n", 0, found.start()) + 1
    raise RefusedHereError(
        f"{shown}:{line} holds what looks like {kind}",
        "take it out of the file: a kernel is stored as plain text where it runs",
    )
