"""Bounds the rate of requests: token buckets per tenant and class, and of refused tokens per address."""

from collections import OrderedDict

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.limits import ADDRESSES_MAX
from headrace.service.operation import Header
from headrace.service.problems import RequestProblem


class Rate(Struct, frozen=True):
    """So many a second, and so many at once."""

    per_second: float
    burst: int


RATES: dict[str, Rate] = {
    "write": Rate(1_000, 2_000),
    "read": Rate(200, 400),
    "search": Rate(5, 10),
    "stream": Rate(1 / 6, 10),
}
"""The rates of a tenant by class; writes are counted in items."""


class _Bucket:
    __slots__ = ("at_ms", "left")

    def __init__(self, left: float, at_ms: int) -> None:
        self.left = left
        self.at_ms = at_ms


class Buckets:
    """Token buckets by key, the least recently used dropped first."""

    def __init__(self, keys_max: int = ADDRESSES_MAX) -> None:
        self._buckets: OrderedDict[object, _Bucket] = OrderedDict()
        self._keys_max = keys_max

    def fill(self, key: object, rate: Rate, now_ms: int) -> _Bucket:
        """The bucket of a key with what has come in since it was last used."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(rate.burst, now_ms)
            if len(self._buckets) > self._keys_max:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
            come_in = max(now_ms - bucket.at_ms, 0) / 1_000 * rate.per_second
            bucket.left, bucket.at_ms = min(rate.burst, bucket.left + come_in), now_ms
        return bucket


class RateLimits:
    """The rates of tenants; each process counts for itself."""

    def __init__(self, rates: dict[str, Rate] | None) -> None:
        self._rates = rates
        self._buckets = Buckets()

    def take(self, tenant: str, kind: str, cost: int, now_ms: int) -> tuple[Header, ...]:
        """Count a request of so many items and return its headers; refuses one beyond the rate.

        A batch larger than what is left is let in as long as anything is: it pays with the time after it.
        """
        if self._rates is None:
            return ()
        rate = self._rates[kind]
        bucket = self._buckets.fill((tenant, kind), rate, now_ms)
        policy = b'"%s";q=%d;w=%d' % (kind.encode(), _quota(rate), _window_s(rate))
        if bucket.left < 1:
            wait_s = (1 - bucket.left) / rate.per_second
            raise RequestProblem(
                "rate_limited",
                f"the tenant sends more than its rate of class {kind!r}; send fewer or larger batches, and wait",
                (
                    (b"retry-after", b"%d" % max(1, int(wait_s + 0.999))),
                    (b"ratelimit-policy", policy),
                    (b"ratelimit", b'"%s";r=0;t=%d' % (kind.encode(), max(1, int(wait_s + 0.999)))),
                ),
                retry_after_ms=max(1, round(wait_s * 1_000)),
            )
        bucket.left -= cost
        left = max(int(bucket.left), 0)
        return (
            (b"ratelimit-policy", policy),
            (b"ratelimit", b'"%s";r=%d;t=%d' % (kind.encode(), left, _window_s(rate))),
        )


def _quota(rate: Rate) -> int:
    return round(rate.per_second * _window_s(rate))


def _window_s(rate: Rate) -> int:
    return 1 if rate.per_second >= 1 else 60


class FailureCounts:
    """Refused tokens by address; an address with too many has to wait."""

    def __init__(self, per_minute: int) -> None:
        self._rate = Rate(per_minute / 60, per_minute)
        self._buckets = Buckets()

    def check(self, address: str, now_ms: int) -> None:
        """Refuse an address that has used up its failures."""
        bucket = self._buckets.fill(address, self._rate, now_ms)
        if bucket.left < 1:
            wait_s = (1 - bucket.left) / self._rate.per_second
            raise RequestProblem(
                "auth_failures",
                "too many tokens from this address were refused; wait, and use one that is accepted",
                ((b"retry-after", b"%d" % max(1, int(wait_s + 0.999))),),
                retry_after_ms=max(1, round(wait_s * 1_000)),
            )

    def add(self, address: str, now_ms: int) -> None:
        """Count a refused token."""
        self._buckets.fill(address, self._rate, now_ms).left -= 1


def read_rates(texts: list[str]) -> dict[str, Rate]:
    """The rates with those of `CLASS=PER_SECOND[:BURST]` changed."""
    rates = dict(RATES)
    for text in texts:
        kind, _, numbers = text.partition("=")
        per_second, _, burst = numbers.partition(":")
        try:
            rate = Rate(float(per_second), int(burst) if burst else max(1, round(2 * float(per_second))))
        except ValueError:
            rate = Rate(0, 0)
        if kind not in RATES or not 0 < rate.per_second <= 1e9 or not 0 < rate.burst <= 10**9:
            raise BadConfig(
                f"--rate must be CLASS=PER_SECOND or CLASS=PER_SECOND:BURST with a class of {', '.join(RATES)};"
                f" found {text[:100]!r}"
            )
        rates[kind] = rate
    return rates
