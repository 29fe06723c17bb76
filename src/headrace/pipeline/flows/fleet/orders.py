"""Orders: what each worker of a fleet is told, wherever it stands."""

from typing import Any, Literal

from msgspec import Struct

from headrace.pipeline.flows.fleet.app_bundle import Cargo

Until = Literal["drained", "idle"]
FEED = "spark.fleets"
"""The feed in which a fleet that is to stop has an item under its id."""


class Orders(Struct, frozen=True):
    """Made on the driver, and the same for all workers of a fleet."""

    fleet: str
    url: str
    cargo: Cargo
    config: dict[str, Any]
    """The fields of `WorkerConfig`, without the name."""
    until: Until | None
    feed_tenant: str
    planned_on: str

    def name_of(self, slot: int, begun: int, attempt: int) -> str:
        """How the worker on a slot is called in the journal: each process that ever stood there has a name."""
        return f"{prefix_of(self.fleet)}{slot}.{begun}.{attempt}"

    def __repr__(self) -> str:
        return f"<Orders of fleet {self.fleet}>"  # the URL may hold a password


def prefix_of(fleet: str) -> str:
    """What the names of all workers of a fleet begin with, and no other's."""
    return f"fleet-{fleet}/"
