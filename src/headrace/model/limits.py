"""Every limit of the system, each with its reason; a number with a meaning lives here and nowhere else."""

from typing import Final

TENANT_CHARS_MAX: Final = 63
"""A DNS label, so that a tenant's name can also be a host name or a bucket name."""

QUEUE_CHARS_MAX: Final = 120
"""Leaves room for the fail queue's `.fail` within 128 characters, the usual width of a name column."""

ID_CHARS_MAX: Final = 256
"""Long enough for a URL-like id or two joined UUIDs, short enough to be an index key everywhere."""

FAIL_QUEUE_ID_CHARS_MAX: Final = ID_CHARS_MAX + 20
"""The id of a failed job, `#`, and the dead letter number (at most 2^63, 19 digits)."""

KIND_CHARS_MAX: Final = 128
"""A dotted path of a handler; it is a label in metrics, so it stays short."""

TAG_CHARS_MAX: Final = 128
"""Searchable, so it is indexed as text."""

KEY_CHARS_MAX: Final = 256
"""An idempotency key may be an id of the caller's."""

WORKER_CHARS_MAX: Final = 128
"""host:pid:name, written once per journal entry."""

NONCE_CHARS_MIN: Final = 8
NONCE_CHARS_MAX: Final = 64
"""A nonce is half of a lease's token: too short could be guessed, too long is stored with every active job."""

TOKEN_CHARS_MAX: Final = 1_024
"""Far more than a nonce, a dot and a fence; a longer token is refused before it is sent."""

ECHO_CHARS_MAX: Final = 40
"""How much of a value an error shows: enough to recognize it, not a second copy."""

USAGE_CHARS_MAX: Final = 400
"""A usage error of the command line, which another library words and which quotes the whole argument."""

ECHO_ITEMS_MAX: Final = 3
ECHO_DEPTH_MAX: Final = 2
"""Items of a collection, and levels of nesting, that an error shows of such a value."""

NEAREST_CHARS_MAX: Final = 200
"""The search for the nearest name takes quadratic time, and a longer name is no misspelling."""

CONSUMER_CHARS_MAX: Final = 128
"""The name under which a journal reader is remembered."""

PAYLOAD_BYTES_MAX: Final = 256 * 1024
"""Larger things belong into object storage, with their address in the payload."""

FACT_BYTES_MAX: Final = 4 * PAYLOAD_BYTES_MAX
"""The payload size in a settlement: the payload of a fail job holds another payload as base64, and an error."""

RESULT_BYTES_MAX: Final = 256 * 1024
"""A result is kept with the finished job; the same reason as for payloads."""

RESULT_LOOK_BYTES_MAX: Final = 2_048
"""The part of a result that is searched for secrets before an error shows its beginning."""

HEADERS_MAX: Final = 32
HEADERS_BYTES_MAX: Final = 4 * 1024
"""Trace context and the like, not a second payload."""

ERROR_CLASS_CHARS_MAX: Final = 128
ERROR_MESSAGE_CHARS_MAX: Final = 1_024
"""For people; a stack trace belongs into the worker's log. Longer texts are cut, not refused."""

PRIORITY_MIN: Final = 0
PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 5
"""Ten tiers, higher first; the default leaves room on both sides."""

NUMBER_BITS: Final = 48
"""Ready jobs are ordered by (9 - priority) * 2^48 + number: below 2^52, so exact in a double as well."""

SHARDS_MAX: Final = 256
"""A claim may have to visit every shard of a queue."""

QUEUES_PER_CLAIM_MAX: Final = 64
"""A claim tries its queues one after the other inside one call."""

BATCH_MAX: Final = 1_000
"""Items in one call: keeps the store's exclusive step within tens of milliseconds."""

CLAIM_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bodies handed out by one claim, so that a reply fits into ordinary buffers; one job is always handed out."""

REPAIRS_PER_CALL_MAX: Final = 100
"""Leases repaired per shard and call; repair may decode a body, so it is dearer than a promotion."""

PROMOTIONS_PER_CALL_MAX: Final = 1_000
"""Later jobs that become ready per shard and call."""

EXPIRIES_PER_CALL_MAX: Final = 100
"""Jobs past their `expires_at_ms` that a claim handles per shard and call; each becomes a dead letter."""

SWEEP_PER_CALL_MAX: Final = 1_000
"""Rows past their retention that one call drops per shard, for each of finished jobs, keys, dead letters, workers."""

JOURNAL_TRIM_PER_CALL_MAX: Final = 4
"""Journal entries that one appending call may drop: more than the one it adds, so the bounds are reached."""

ATTEMPTS_MAX: Final = 1_000_000
"""Upper bound of `max_attempts` and `max_stalls`: a job that failed a million times needs a person."""

DURATION_MS_MAX: Final = 366 * 24 * 3_600_000
"""A year: longer leases, delays, backoffs and retentions are mistakes in the unit."""

VERSION_MAX: Final = 2**53 - 1
"""Of a configuration: the largest integer that every JSON reader keeps exact."""

QUARANTINE_MAX: Final = 1_000
"""Records that calls have missed and a shard of Redis remembers, the newest: one repair deals with all."""

FUNCTION_CACHE_MAX: Final = 4_096
"""Key names, configurations and digits that the functions of Redis keep between calls, each: some megabytes."""

FEED_NUMBER_MAX: Final = 2**63 - 1
"""Of an epoch or a `seq` in a feed's cursor: the width of the columns in every store."""

RETENTION_MAX: Final = 100_000_000
"""Upper bound for what is counted (finished jobs, dead letters, waiting jobs, journal events)."""

TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: what every calendar can show, and below 2^53."""

JITTER_PPM: Final = 1_000_000
"""Jitter is a whole number of millionths: times a backoff of a year it stays below 2^63, so all stores round alike."""

LEASE_MS_DEFAULT: Final = 30_000
LEASE_MS_MIN: Final = 1
"""A lease of zero would have ended before it is granted."""

FENCE_JUMP: Final = 2**20
"""Added to a shard's fence when its epoch rises and the clock went back: more deliveries than a lost tail can hold.
Otherwise the fence is set to the clock in microseconds, since two losses of the same tail would jump to the same
fence."""

CURSOR_CHARS_MAX: Final = 1_024
"""A cursor is a shard and an id."""

PAGE_MAX: Final = 1_000
"""Rows in one page of a list."""

WORKER_SEEN_MS: Final = 10_000
"""An idle worker's claim writes its presence this often and otherwise only reads."""

WORKER_KEEP_MS: Final = 24 * 3_600_000
"""Workers not seen for a day are forgotten."""

CONSUMER_SILENT_MS: Final = 7 * 24 * 3_600_000
"""A journal consumer that has not advanced for a week no longer holds anything back."""

JOURNAL_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of journal entries ends after this many bytes, but has at least one entry."""

INSPECT_JOURNAL_BYTES: Final = 1024 * 1024
"""Lines of a journal that one call of `check` decodes, but at least one entry: some milliseconds."""

UNREADABLE_CHARS_MAX: Final = 200
"""The error of an unreadable line: a decoder may quote the whole line."""

JOURNAL_PAGE_MAX: Final = 10_000
"""Entries in one page of a journal: calls with one job write entries of one line, so a thousand would be small."""

SCAN_PER_CALL_MAX: Final = 1_000
"""Ids that a list reads in one step on a store without an index by id."""

LIST_IDS_KEPT_MAX: Final = 250_000
"""Ids that a store without an index by id caches for the next pages of a list: some 20 MB. A list of a million jobs
reads all ids five times then, not a thousand times."""

PARK_WAIT_MS_MAX: Final = 60_000
"""How long a claim may wait for work: below the idle time-outs of most proxies."""

PARK_PAUSE_MS_MAX: Final = 250
"""Between hints that lead to no job, which others take first."""

AHEAD_MAX: Final = 10_000
"""Jobs counted ahead of one: PostgreSQL and SQLite read an index entry for each."""

AHEAD_IDS_MAX: Final = 20
"""Ids of a call that counts the jobs ahead of each."""

SCAN_PART_BYTES: Final = 4 * 1024 * 1024
"""A part of a scan ends at this many bytes of payloads and results, but has at least one row; as a claim does."""

CONFIGURE_TRIES_MAX: Final = 100
"""Retries of a change of configuration that lost a race; each of the winners made progress."""

INBOX_PER_ROUND_MAX: Final = 1_000
"""Calls whose journal lines are numbered in one step, where numbering is a step of its own (PostgreSQL)."""

NEARLY_FULL_PERCENT: Final = 80
"""The threshold of warnings about memory, connections and the bounds of queues: a fifth leaves time to act."""

CLOCK_SKEW_MS_MAX: Final = 1_000
"""A larger difference of clocks makes times in logs and lists misleading; leases go by the store's clock alone."""

LATE_MS: Final = 60_000
"""A job due, or a lease expired, for longer than this shows that no worker is there: one claims every few seconds."""

CONSUMER_QUIET_MS: Final = 24 * 3_600_000
"""A journal reader that holds back retention and has not advanced for a day is probably abandoned."""

QUEUES_LISTED_MAX: Final = 10
"""Queues with the same finding that `doctor` lists; more are only counted, since they have one cause."""

INSPECT_PARTS_MAX: Final = 10
"""Parts of a shard, of 1,000 records each, that `doctor` checks without `--full`: some tenths of a second each."""

CAPACITY_MAX: Final = 10_000
"""Units of a worker: more handlers than this on one event loop are slower than two workers."""

CAPACITY_DEFAULT: Final = 400
"""A claim asks for half of it, and its cost is shared by so many jobs: with 100 units a job costs a worker 1.4 times as
much as with 1,000, with 400 a tenth more. Handlers with two sockets each stay below the usual limit of 1,024 open
files."""

COLLECT_AFTER: Final = 50_000
COLLECT_OLDER_AFTER: Final = 20
"""Thresholds of the garbage collector in a worker: new objects, and collections of the younger generation. A job leaves
some twenty objects that reference counting frees: at Python's own 700 the collector took a fifth of a worker's time, at
50,000 it takes a twentieth for 15 MB, and without it the worker would be no faster."""

THREADS_MAX: Final = 1_000
PROCESSES_MAX: Final = 512
"""What one machine can reasonably start."""

PROCESS_START_MS: Final = 60_000
"""How long a process of a worker may take until it is ready: a loaded machine needs seconds."""

PROCESS_EXIT_MS: Final = 2_000
"""How long an idle process of a worker may take to end by itself (its exit functions run) before it is killed."""

PROCESS_RESTART_MS: Final = 200
PROCESS_RESTART_MS_MAX: Final = 30_000
"""The pause between the death of a worker process and its restart, doubled with each death in a row: a process that
dies at once takes less than a hundredth of a core, and is back half a minute after its cause is gone."""

PROCESS_CALM_MS: Final = 60_000
"""A worker process that has run for this long was healthy: its death counts as the first one again."""

PROCESS_DEATHS_MAX: Final = 5
"""Deaths in a row after which a run with `--until-idle` gives up, since it would never end. A run without end keeps
trying, since its other processes work."""

PROCESS_STOP_MARGIN_MS: Final = 15_000
"""The time beyond its grace after which a worker process is killed: to cancel handlers (2 s), to settle (5 s), and
some seconds for a loaded machine."""

REPORT_BYTES_MAX: Final = 16 * 1024 * 1024
"""One report of a worker process: 10,000 running jobs and as many time series, each some hundred bytes."""

PROCESS_MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""A message between a worker and its process: a payload or a result, with headers, texts and names to spare."""

TRACE_CHARS_MAX: Final = 8 * 1024
"""The end of a stack trace that a process sends to the worker's log."""

SCRAPE_SECONDS_MAX: Final = 5
"""How long a client of a worker's metrics may take to send its request, and to read the response."""

LOG_PAYLOAD_CHARS_MAX: Final = 1_024
"""How much of a payload a worker's log shows, where it is set to: enough to recognize it, not a second store."""

LOG_WRITE_BYTES_MAX: Final = 4_096
"""Lines of a worker's log that are written at once: what Linux writes to a pipe atomically (PIPE_BUF), so that lines of
several processes do not mix."""

LOG_LAYOUTS_MAX: Final = 1_000
"""Layouts of log lines that a worker caches, two for each kind and queue; each takes some 2 KB."""

ENQUEUE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payloads that a client sends in one call, but at least one job: a thousand of the largest would be 256 MiB."""

ENQUEUES_IN_FLIGHT_MAX: Final = 4
"""Concurrent calls of one `enqueue_many`: enough to keep a server busy while the next jobs are packed."""

RESULT_LOOK_MS: Final = 30_000
"""A caller that waits for a result polls at least this often: the cost of a lost signal."""

RESULT_NAP_MS: Final = 50
RESULT_NAP_MS_MAX: Final = 1_000
"""Pauses between reads of a job that was signalled as ended and has not ended: doubled each time, so no busy loop."""

FORK_WAIT_MS: Final = 5_000
"""How long a fork waits for the calls that other threads have under way."""

CTRL_C_MS: Final = 500
"""How often a waiting thread checks for a signal of the system that came just before it slept."""

ID_CANDIDATES_MAX: Final = 5
"""Ids that a refusal lists for an ambiguous prefix: enough to see the difference."""

LOOKS_AT_ONCE: Final = 50
"""Queues that a command reads concurrently: a distant server answers a thousand in a second, none is flooded."""

SEARCH_SCAN_MAX: Final = 10_000
"""Records that a search on the command line reads by default: some seconds on the slowest store."""

TIMELINE_SCAN_MAX: Final = 200_000
"""Events of the journal that are read for the history of one job by default: a second or two."""

TIMELINE_WINDOW_EVENTS: Final = 5_000
"""Events in one page of a journal that is read backwards: about a megabyte."""

WORKER_LATELY_MS: Final = 60_000
"""A worker that was not seen for this long is probably gone: an idle one claims several times a minute."""

WORKER_SECOND_LOOK_MS: Final = 250
"""Workers leave no trace on a queue that never had a job: they get this long to claim the first one."""

LINES_CHECKED_MAX: Final = 10_000
LINES_CHECKED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Lines of a file of jobs that are checked before the first job is sent: the whole file, unless it is large."""

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A line of a file of jobs: the largest payload with every character escaped, with room to spare."""

PATH_BYTES_MAX: Final = 4_095
FILE_NAME_BYTES_MAX: Final = 255
"""The limits of Linux: each system call has another error for a longer path."""

PATH_CHARS_SHOWN_MAX: Final = 200
"""How much of a path a refusal shows."""

LINES_REFUSED_SHOWN_MAX: Final = 20
"""Refused lines of a file of jobs that are shown; more are only counted."""

PAUSED_LOOKS_MAX: Final = 20
"""Queues of a file of jobs that are checked for a pause: each check is a call, and a file may name a thousand."""

ITEM_BYTES_MAX: Final = 256 * 1024
"""An item of a feed; larger things belong into object storage, with their address in the item."""

INSTANCE_CHARS_MAX: Final = 128
"""The name of a process that changes feeds: written with every change, so it stays short."""

EVICT_PER_CALL_MAX: Final = 2_000
"""Items that one call may evict from a feed: twice what it may add, so the bounds are reached."""

CHANGES_TRIM_PER_CALL_MAX: Final = 2 * EVICT_PER_CALL_MAX
"""Changes that one call may drop from a feed's log: more than a call can write (an item and an eviction each)."""

CHANGES_SLACK: Final = 64
"""A log may exceed its retention by a 64th before it is trimmed, else every publication would have to trim it."""

CHANGES_PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page of changes or items ends at this many bytes, but has at least one."""

RANK_CHARS_MAX: Final = 128
"""Instead of a longer rank, the ranks around it are redistributed: 30 levels of 24 bits below the first."""

RERANK_MAX: Final = 500
"""Items on either side of a position whose ranks one call redistributes."""

FEED_LOOK_MS: Final = 5_000
"""A subscription polls its feed at least this often, and then has aged items evicted: the cost of a lost signal."""

FEED_RETRY_MS: Final = 100
FEED_RETRY_MS_MAX: Final = 5_000
"""Pauses of a subscription whose store is unavailable: doubled each time, with jitter."""

HUB_CHANGES_MAX: Final = 4_000
HUB_BYTES_MAX: Final = 8 * 1024 * 1024
"""The last changes of a feed that subscribers in one process share; a subscriber further behind reads alone."""

SNAPSHOT_TRIES: Final = 3
"""How often the pages of a changing feed are read from the start before all items are read in one step."""

CHANGES_PER_BATCH_MAX: Final = 1_000
"""Changes that a subscription hands out in one batch."""

PUBLISH_BYTES_MAX: Final = 4 * 1024 * 1024
"""Items that one call of a `publish_many` carries, but at least one."""

QUEUE_EVENTS_NAP_MS: Final = 20
QUEUE_EVENTS_NAP_MS_MAX: Final = 1_000
"""Pauses between reads of a queue's journal: short while it is busy, doubled while it is idle."""

PARTITIONS_MAX: Final = 10_000
"""Tasks of one read through Spark: more than any cluster runs at once, and a minute of scheduling alone."""

KEY_KEEP_MS: Final = 30 * 24 * 3_600_000
"""How long a row written by Spark is remembered as written: a write is repeated within days, if at all."""

WRITE_KEYS_MAX: Final = 20_000_000
"""Rows of one write through Spark that are counted exactly, with eight bytes each on the driver: 160 MB; beyond that
the count is a lower bound."""

WRITES_IN_FLIGHT: Final = 2
"""Concurrent calls of a writing task: the store works on one while the other is packed; more would only queue."""

REFUSED_ROWS_BUFFERED: Final = 1_000
REFUSED_BYTES_BUFFERED: Final = 8 * 2**20
"""Refused rows, and their bytes, that a writing task buffers before it writes them to its file: whole columns are quick
to write, and the memory of a task with many refused rows must be bounded."""

WRITE_TRIES_MAX: Final = 6
WRITE_RETRY_MS: Final = 100
"""Retries of a call by a writing task, with doubling pauses: three seconds in all, then Spark retries the task."""

PAGE_BUCKETS_MAX: Final = 120
"""Points of a curve in the report: as many as fit into a narrow chart; longer periods get longer buckets."""

PAGE_TENANTS_MAX: Final = 8
PAGE_QUEUES_MAX: Final = 12
"""Tenants and queues with a view of their own in the report: each adds 50 KB to the page, or 200 with long names."""

PAGE_FAILURES_MAX: Final = 8
PAGE_KINDS_MAX: Final = 10
PAGE_DAYS_MAX: Final = 14
PAGE_SAMPLES_MAX: Final = 3
"""Lines of a list in the report: as many as people read; the tables have the rest."""

PAGE_TEXT_CHARS_MAX: Final = 300
"""Characters of a text from a program, such as an error message, in the report."""

STATS_WINDOW_MS_MIN: Final = 1_000
STATS_WINDOW_MS_MAX: Final = 24 * 3_600_000
"""Windows of statistics: whole seconds, and a day at most."""

AUDIT_ROUNDS: Final = 5
"""How often an audit rereads a job that changes during the audit, in ever smaller batches: a job that changed five
times is at work."""

AUDIT_LOOKS_MAX: Final = 50_000
"""Jobs that an audit checks a second time, with their histories in memory: some 100 MB. Where more differ, the first
ones are enough."""

AUDIT_FLAWS_MAX: Final = 1_000
"""Findings of one type in the journal itself that an audit shows: more would have the same cause."""

HISTORY_EVENTS_MAX: Final = 200_000
"""Events of one batch of the history: a few seconds of work, which a failure repeats."""

HISTORY_EVERY_MS: Final = 10_000
"""The pause between batches of the history: every batch writes a file for each day and task."""

TABLE_GROUP_ROWS: Final = 131_072
TABLE_GROUP_BYTES: Final = 128 * 2**20
"""A row group of a table's file: engines skip by it, and a task keeps one in memory."""

TABLE_SMALL_BYTES: Final = 64 * 2**20
TABLE_MERGE_ROWS: Final = 1_000_000
"""Files of tables below this are merged, to files of so many rows: engines read larger ones at full speed, and a merge
holds the rows of one in memory."""

MAP_NAME_CHARS_MAX: Final = 96
"""The name of a map is part of its queue's name, of its keys and of every id."""

MAP_SAMPLES: Final = 20
"""First rows of a map that are checked against the handler before any is sent: if none fits, hardly any other will."""

MAP_POLL_MS: Final = 500
"""The pause between polls of a map's queue whose jobs run elsewhere: each poll is one call."""

FLEET_WORKERS_MAX: Final = 1_000
"""Workers of a fleet: each is a job of Spark and a thread on the driver."""

FLEET_CRASHES_MAX: Final = 10
"""Crashes in a row of a fleet's worker while the whole fleet ends no job: after ten, an eleventh is certain."""

FLEET_STOP_POLL_MS: Final = 1_000
"""How often a worker of a fleet polls the store for a stop request."""

FLEET_DRAINED_POLL_MS: Final = 500
"""How often an idle worker of a fleet checks whether any job is left."""

FLEET_LEFTOVER_MS: Final = 5_000
"""How long remaining handlers of a fleet's worker may take to end before its process is killed: Spark would reuse the
process with a handler still running in it."""

FLEET_MARGIN_MS: Final = 10_000
"""The time beyond the grace of its workers after which Spark cancels a fleet."""

HEAD_BYTES_MAX: Final = 16 * 1024
"""The request line and headers of a request to the service: a token of 8 KiB, and as much again."""

BEARER_BYTES_MAX: Final = 8 * 1024
BEARER_HEADER_BYTES_MAX: Final = 512
BEARER_CLAIMS_BYTES_MAX: Final = 6 * 1024
BEARER_DEPTH_MAX: Final = 8
"""A token, its decoded parts, and the nesting of its claims: those of identity providers are far smaller."""

BEARER_SKEW_S: Final = 30
"""How far clocks of an issuer and the service may differ."""

BEARER_LIFETIME_S: Final = 24 * 3_600
BEARER_LIFETIME_S_MAX: Final = 31 * 24 * 3_600
"""The longest life of a token, by default and at most: a stolen one must end some day."""

BEARER_CACHE_MAX: Final = 10_000
BEARER_CACHE_MS: Final = 60_000
"""Accepted tokens that the service remembers, and for how long: a removed key is unknown after a minute."""

SUBJECT_CHARS_MAX: Final = 128
"""Of a token's `sub`; it begins the names of workers."""

QUEUE_PATTERNS_MAX: Final = 100
"""Queues and feeds that a token may be limited to."""

REQUEST_PATH_BYTES_MAX: Final = 4 * 1024
REQUEST_QUERY_BYTES_MAX: Final = 8 * 1024
REQUEST_BYTES_MAX: Final = 1024 * 1024
REQUEST_BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bodies of requests: a payload as base64 with everything around it; a thousand small jobs, or thirty large ones."""

GZIP_RATIO_MAX: Final = 100
GZIP_BYTES_MIN: Final = 1024
"""How far a request may expand, and the size from which answers are compressed."""

JSON_DEPTH_MAX: Final = 64
"""Levels of JSON in a request: deeper than any payload, and far from the recursion limit of every reader."""

REQUEST_RECEIVE_S: Final = 10
REQUEST_SEND_S: Final = 30
KEEP_ALIVE_S: Final = 75
"""A whole request must arrive, and an answer must be taken, within these; a longer idle connection is closed."""

POLL_MS_MAX: Final = 30_000
RESULT_POLL_MS_MAX: Final = 60_000
"""How long a request may wait for a job or a result: proxies cut connections that are silent for longer."""

POLLS_PER_TENANT_MAX: Final = 256
POLLS_MAX: Final = 4_096
STREAMS_PER_TENANT_MAX: Final = 100
STREAMS_MAX: Final = 4_000
REQUESTS_MAX: Final = 2_048
"""Waiting, streaming and other requests of one process: each holds some 20 KiB."""

STREAM_TOPICS_MAX: Final = 8
STREAM_KEEP_ALIVE_S: Final = 15
"""Topics of one stream, and the pause after which a silent one sends a comment, so that proxies keep it."""

HTTP_SCAN_MAX: Final = 10_000
HTTP_SEARCH_MS_MAX: Final = 2_000
"""Jobs that a search over HTTP looks at, and how long; then it says how far it came."""

QUEUE_CACHE_MAX: Final = 10_000
QUEUE_CACHE_MS: Final = 10_000
"""Queues whose number of shards the service remembers, and for how long: a deleted queue may come back with another."""

REQUEST_ID_CHARS_MAX: Final = 64
"""Of a caller's request id; a longer one is replaced."""

AUTH_FAILURES_PER_MINUTE: Final = 20
ADDRESSES_MAX: Final = 10_000
"""Refused tokens of one address before it has to wait, and addresses that are remembered."""

JWKS_BYTES_MAX: Final = 256 * 1024
JWKS_KEYS_MAX: Final = 100
JWKS_TIMEOUT_S: Final = 5
JWKS_REFRESH_S: Final = 600
JWKS_PAUSE_S: Final = 60
JWKS_STALE_S: Final = 24 * 3_600
"""An issuer's keys: size and number, how long a fetch may take, how often they are fetched, the pause between two
fetches for unknown keys, and how long known ones stay valid while the issuer is away."""

SNAPSHOT_ROWS_MAX: Final = 100_000
"""Rows of a shard in one answer; larger shards are scanned in parts."""

QUEUE_METRICS_MAX: Final = 200
"""Queues in the metrics of a service or worker: each is nine series for Prometheus."""

QUEUE_METRICS_AGE_MS: Final = 1_000
"""How old the counts in metrics may be: several scrapers cost the store one reading a second."""

QUEUE_METRICS_WAIT_S: Final = 2
"""How long a scrape waits for the counts; after that it shows the last ones."""

BACKLOG_CACHE_MS: Final = 1_000
"""How long the backlog of a queue is remembered: an autoscaler must not become the load that it scales for."""

DRAIN_S: Final = 15
"""How long a service that was stopped waits for requests to end."""
