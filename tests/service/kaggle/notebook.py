"""Execute a notebook as papermill does on the service; a program of its own: `notebook.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

RULE = "-" * 75


class Shown(NotebookClient):
    """A client that shows what the cells write while they write it."""

    def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
        """Keep an output as nbclient does, and pass its text on."""
        content = msg["content"]
        if msg["msg_type"] == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            stream.write(content["text"])
            stream.flush()
        elif "text/plain" in content.get("data", {}):
            print(content["data"]["text/plain"], flush=True)
        return super().output(outs, msg, display_id, cell_index)


def main(file: Path) -> int:
    """Run the cells in order; on an exception write papermill's report to stderr and return 1."""
    notebook = nbformat.reads(file.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    name = notebook.metadata.get("kernelspec", {}).get("name")
    if not name:
        print("ValueError: No kernel name found in notebook and no override provided.", file=sys.stderr)
        return 1
    place = {"metadata": {"path": str(Path.cwd())}}
    client = Shown(notebook, kernel_name=name, resources=place, shutdown_kernel="immediate")
    try:
        client.execute()
    except CellExecutionError as error:
        report = f'{RULE}\nException encountered at "In [1]":\n{error.traceback}'
        print(f"papermill.exceptions.PapermillExecutionError: \n{report}", file=sys.stderr)
        return 1
    except DeadKernelError:
        print("nbclient.exceptions.DeadKernelError: Kernel died", file=sys.stderr)
        return 1
    finally:
        file.write_text(nbformat.writes(notebook), "utf-8")  # type: ignore[no-untyped-call]
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
