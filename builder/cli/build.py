"""Write the kernel and its metadata; nothing is sent and no run is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from builder.build import write_build
from builder.cli._options import PATH, ConfiguredCommand, make_spec, spec_options
from builder.cli._output import envelope, say
from builder.errors import Exit
from builder.for_script import write_folder


@click.command("build", cls=ConfiguredCommand)
@spec_options
@click.option("-o", "--output", type=PATH, required=True, help="The folder to write into.")
@click.option("--for-script", type=PATH, help="A benchmark script of your own that is to run the model.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(output: Path, for_script: Path | None, as_json: bool, **options: Any) -> Exit:
    """Write the kernel, as a notebook and as a script, and say what went in and what was left out.

    \b
    Examples:  ferry build --suite official -o kernel/
               ferry build --for-script torch_transformer_benchmark.py -o folder/
    """
    if for_script:
        names = write_folder(for_script, output, options["model"], options["device_packages"])
        files = [output / name for name in names]
        lines = [*map(str, files), f"next: cd '{output}' && python run.py [the script's own flags]"]
        content: dict[str, Any] = {}
    else:
        built = write_build(make_spec(**options), output)
        files, lines, content = built.files, built.describe(), built.facts()
    if as_json:
        click.echo(envelope(content, files=files))
    for line in () if as_json else lines:
        say(line)
    return Exit.OK
