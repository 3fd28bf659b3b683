"""The kernel's text: literals that come back as they were, the order, the notebook's form, the size limit."""

import ast
import json
from dataclasses import replace

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder import kernel
from builder.bundle import Bundle
from builder.errors import RefusedHereError, UsageError
from builder.spec import RunSpec
from harness.events import Order, RunRef, Terms, from_plain
from harness.shapes import SHAPES, Case

BUNDLE = Bundle(
    {
        "__main__.py": b"import harness.driver\n",
        "entry.py": b'"""Ends without a newline, in a quote."""\nNAME = \'caf\xc3\xa9 \\\\ \'',
        "harness/__init__.py": b"",
        "harness/driver.py": b'"""Reads as it was written."""\n\nprint("a\\tb", \'it\\\'s\')\n',
    },
    left_out=(),
    model="entry",
    own_harness=False,
)
SPEC = RunSpec("smoke", (Case(SHAPES["t01"]), Case(SHAPES["t05"], "sdpa", {"LEVER_CHUNK": "16"})))
ORDER = kernel.make_order(SPEC, BUNDLE)
REF = RunRef("20261130-120000-abcdef", 2, "0123abc", True)

TRAPS = {
    "ends_in_a_quote": "x = '''a'''\ny = 'b'",
    "ends_in_double_quotes": 'x = """a"""',
    "both_triple_quotes": "'''\n\"\"\"\n",
    "ends_in_a_backslash": "a\nb\\",
    "only_backslashes": "\\\\\\\n",
    "no_final_newline": "a\nb",
    "crlf": "a\r\nb\r\n",
    "lone_cr": "a\rb\n",
    "byte_order_mark": "\ufeffimport os\n",
    "nul": "a\0\nb\n",
    "non_ascii": "é ß 日本 🚢\n",
    "unseen": "a\u00a0b\u2028c\u200bd\n\x0c\x1b[31m\n",
    "empty": "",
    "one_newline": "\n",
    "begins_with_a_quote": "'a'\n'''\n",
    "looks_like_jupyter": "%timeit x\n!ls\nwhat?\n%%bash\n",
    "looks_like_jinja": "{{ x }} {% raw %} {# no #}\n{%- endif %}\n",
    "escapes": r"\n \x41 \u1234 \N{BULLET}" + "\n",
}


@pytest.mark.parametrize("trap", TRAPS)
def test_literals_survive_known_traps(trap: str) -> None:
    """Each text that is known to break in quotes comes back as it was."""
    assert ast.literal_eval(kernel.literal(TRAPS[trap])) == TRAPS[trap]


@given(st.text(st.sampled_from("'\"\\\n\r\ta{%é\0\u2028\ufeff") | st.characters(codec="utf-8")))
def test_literals_survive_any_text(text: str) -> None:
    """Whatever the text, its literal means the same, also after a file's line ends are translated."""
    source = f"x = {kernel.literal(text)}\n".encode()
    assert ast.literal_eval(ast.parse(source).body[0].value) == text  # type: ignore[attr-defined]


def test_ordinary_sources_read_as_they_were_written() -> None:
    """A source with docstrings and backslashes stands in the kernel letter by letter."""
    text = '"""Docstring."""\n\nprint("a\\n")\n'
    assert kernel.literal(text) == f"r'''{text}'''"


def test_order_carries_the_spec_and_the_hashes() -> None:
    """Terms hold the bundle's hashes and what was asked; Kaggle's name becomes a pattern of the device's."""
    spec = replace(SPEC, accelerator="NvidiaTeslaT4", devices=1, seeds=3, timeout_s=60.0, allow_mismatch=True)
    order = kernel.make_order(spec, BUNDLE)
    assert order.cases == SPEC.cases
    assert order.terms == Terms(
        BUNDLE.sha256,
        BUNDLE.harness_sha256,
        BUNDLE.model_sha256,
        model="entry",
        asked_accelerator="Tesla T4",
        asked_count=2,
        asked_capability="7.5",
        allow_mismatch=True,
        devices=1,
        seeds=3,
        timeout_s=60.0,
    )
    assert kernel.make_order(replace(SPEC, accelerator="h200"), BUNDLE).terms.asked_accelerator == "h200"
    with pytest.raises(UsageError):
        kernel.make_order(replace(SPEC, accelerator="NvidiaTeslaT5"), BUNDLE)


def test_a_session_that_could_measure_nothing_is_refused() -> None:
    """Cases on a TPU are refused before they cost quota; a probe of one is not."""
    with pytest.raises(UsageError, match="no route runs on a TPU"):
        kernel.make_order(replace(SPEC, accelerator="TpuV5E8"), BUNDLE)
    assert kernel.make_order(replace(SPEC, accelerator="TpuV5E8", cases=()), BUNDLE).cases == ()


def names_of(source: str) -> dict[str, object]:
    """The constants that a kernel's text assigns."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
    }


@pytest.mark.parametrize("form", ["script", "notebook"])
def test_both_forms_carry_order_run_and_files(form: str) -> None:
    """What the driver reads from either form is what went in."""
    text = kernel.FORMS[form](ORDER, BUNDLE, REF)
    if form == "notebook":
        cells = json.loads(text)["cells"]
        text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "code")
    names = names_of(text)
    assert from_plain(Order, json.loads(str(names["ORDER"]))) == ORDER
    assert from_plain(RunRef, json.loads(str(names["RUN"]))) == REF
    assert names["FILES"] == {name: data.decode() for name, data in BUNDLE.files.items()}
    assert names["BUNDLE_SHA256"] == BUNDLE.sha256


@pytest.mark.parametrize("form", ["script", "notebook"])
def test_built_kernel_has_an_empty_run_and_its_hash_ignores_the_push(form: str) -> None:
    """RUN is empty in a build; the kernel's hash is that of the built text."""
    text = kernel.FORMS[form](ORDER, BUNDLE)
    assert "RUN = '{}'" in text
    assert kernel.FORMS[form](ORDER, BUNDLE, REF) != text
    assert kernel.FORMS[form](ORDER, BUNDLE) == text
    assert kernel.kernel_sha256(ORDER, BUNDLE, form) == kernel.kernel_sha256(ORDER, BUNDLE, form)


def test_notebook_is_valid_and_only_code_has_outputs() -> None:
    """The notebook obeys nbformat 4.5, names its kernel and language, and stays ASCII."""
    text = kernel.notebook(ORDER, BUNDLE)
    notebook = json.loads(text)
    nbformat.validate(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook["metadata"]["language_info"]["name"] == "python"
    assert [("outputs" in cell) for cell in notebook["cells"]] == [False, True, True, True]
    assert [cell["id"] for cell in notebook["cells"]] == ["about", "order", "files", "start"]
    assert text.isascii()


def test_kernel_text_is_python_3_10_without_magics() -> None:
    """The script and every code cell compile as Python 3.10, and no cell ends the process."""
    ast.parse(kernel.script(ORDER, BUNDLE), feature_version=(3, 10))
    for cell in json.loads(kernel.notebook(ORDER, BUNDLE))["cells"][1:]:
        ast.parse(cell["source"], feature_version=(3, 10))
        assert "sys.exit" not in cell["source"]


def test_size_limit_counts_the_escaped_notebook_and_names_the_largest() -> None:
    """A notebook that is too large is refused with its size and its three largest files."""
    files = {f"part_{n}.py": ("é" * 100 * n + "\n").encode() for n in range(1, 6)}
    large = Bundle(files, (), "part_1", False)
    text = kernel.notebook(ORDER, large)
    assert text.count("\\u00e9") == 1500
    kernel.check_size(text, large, len(text))
    with pytest.raises(RefusedHereError, match=r"part_5\.py \(1,001\), part_4\.py \(801\), part_3") as caught:
        kernel.check_size(text, large, len(text) - 1)
    assert f"{len(text):,} bytes" in caught.value.message
