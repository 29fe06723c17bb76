"""From what a URL says to the servers that it means."""

from headrace.stores.redis.cluster import Cluster
from headrace.stores.redis.options import Options
from headrace.stores.redis.sentinel import Sentinel
from headrace.stores.redis.topology import Single, Topology


def topology_of(options: Options) -> Topology:
    """The servers of a URL; nothing is asked yet."""
    match options.kind:
        case "single":
            return Single(options)
        case "sentinel":
            return Sentinel(options)
        case "cluster":
            return Cluster(options)
