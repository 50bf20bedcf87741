"""The `twinlane` command. Only wiring: each command lives in a module of its own."""

import typer

from cli.admin import admin
from cli.check_config import check_config
from cli.errors import CommandGroup
from cli.generate import generate
from cli.job.command import job
from cli.jobs import jobs
from cli.top.command import top
from cli.up import up

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Serve one LLM to live and batch callers at once.",
)
app.command()(up)
app.command()(job)
app.command()(generate)
app.command()(top)
app.command("check-config")(check_config)
app.add_typer(admin, name="admin")
app.add_typer(jobs, name="jobs")

if __name__ == "__main__":
    app()
