"""The commands: where each is, and what it is for. A command's module is imported when it is asked for."""

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command in its module, which has either a function `command` or a group of commands, `commands`."""

    module: str
    help: str


COMMANDS: Final = {
    "init": Command("headrace.cli.init", "Write a first app into the current folder, and say what to run."),
    "worker": Command("headrace.cli.worker", "Run the jobs of an app."),
    "enqueue": Command("headrace.cli.enqueue", "Send a job, or many from a file."),
    "jobs": Command("headrace.cli.jobs", "List, search, show, cancel and remove jobs."),
    "queues": Command("headrace.cli.queues", "Show queues; pause, resume, purge, configure and delete them."),
    "dead": Command("headrace.cli.dead", "List, show, replay and purge dead letters."),
    "feeds": Command("headrace.cli.feeds", "List, create, fill, sort and delete feeds, and follow what changes."),
    "workers": Command("headrace.cli.workers", "Show the workers that were seen lately, and what they hold."),
    "doctor": Command("headrace.cli.doctor", "Check the store and everything in it, and say what to fix."),
    "migrate": Command("headrace.cli.migrate", "Bring the store's tables or scripts to this version."),
    "pipeline": Command("headrace.cli.pipeline", "History, tables, statistics, audit and report of what happened."),
    "demo": Command("headrace.cli.demo.command", "Run jobs through SQLite and let Spark tell what happened."),
}
