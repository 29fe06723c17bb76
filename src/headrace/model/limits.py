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
"""Far more than a nonce, a dot and a fence: a wrong token is told to be one, a megabyte is not sent to find out."""

ECHO_CHARS_MAX: Final = 40
"""What a message shows of a value that was found: enough to know it again, not a second copy of it."""

USAGE_CHARS_MAX: Final = 400
"""A complaint about wrong usage, whose words are another library's and quote what was typed whole."""

ECHO_ITEMS_MAX: Final = 3
ECHO_DEPTH_MAX: Final = 2
"""Items of a collection, and collections within each other, that a message shows of such a value."""

NEAREST_CHARS_MAX: Final = 200
"""A longer name is no misspelt one: looking for the nearest costs the square of its length."""

CONSUMER_CHARS_MAX: Final = 128
"""The name under which a journal reader is remembered."""

PAYLOAD_BYTES_MAX: Final = 256 * 1024
"""Larger things belong into object storage, with their address in the payload."""

FACT_BYTES_MAX: Final = 4 * PAYLOAD_BYTES_MAX
"""What a settlement may say of a payload's size: a fail job's holds another payload as base64, and its error."""

RESULT_BYTES_MAX: Final = 256 * 1024
"""A result is kept beside the finished job of its job; the same reason as for payloads."""

RESULT_LOOK_BYTES_MAX: Final = 2_048
"""Of a result that is not as annotated, whose beginning an error shows: secrets are looked for in no more than this."""

HEADERS_MAX: Final = 32
HEADERS_BYTES_MAX: Final = 4 * 1024
"""Trace context and the like, not a second payload."""

ERROR_CLASS_CHARS_MAX: Final = 128
ERROR_MESSAGE_CHARS_MAX: Final = 1_024
"""What a person reads first; a stack trace belongs into the worker's log. Longer texts are cut, not refused."""

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
"""Jobs that a claim may find too late (`expires_at_ms`) per shard and call; each becomes a dead letter."""

SWEEP_PER_CALL_MAX: Final = 1_000
"""Finished jobs, keys, dead letters and workers whose time is over, dropped per shard and call, each kind by itself."""

JOURNAL_TRIM_PER_CALL_MAX: Final = 4
"""Journal entries that one appending call may drop: more than the one it adds, so the bounds are reached."""

ATTEMPTS_MAX: Final = 1_000_000
"""Upper bound of `max_attempts` and `max_stalls`: a job that failed a million times needs a person."""

DURATION_MS_MAX: Final = 366 * 24 * 3_600_000
"""A year: longer leases, delays, backoffs and retentions are mistakes in the unit."""

VERSION_MAX: Final = 2**53 - 1
"""Of a configuration: what every reader of JSON tells exactly."""

FEED_NUMBER_MAX: Final = 2**63 - 1
"""Of an epoch or a `seq` in a feed's cursor: what the columns of every store hold."""

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
"""Added to a shard's fence when its epoch rises and the clock was put back: more deliveries than a lost tail can have
held. A clock that goes on is taken itself, in microseconds: a jump from what was lost twice would end in one place."""

CURSOR_CHARS_MAX: Final = 1_024
"""A cursor is a shard and an id."""

PAGE_MAX: Final = 1_000
"""Rows in one page of a list."""

WORKER_SEEN_MS: Final = 10_000
"""An idle worker's claim writes its presence this often and otherwise only looks."""

WORKER_KEEP_MS: Final = 24 * 3_600_000
"""Workers not seen for a day are forgotten."""

CONSUMER_SILENT_MS: Final = 7 * 24 * 3_600_000
"""A journal consumer that has not advanced for a week no longer holds anything back."""

JOURNAL_PAGE_BYTES: Final = 8 * 1024 * 1024
"""A page of journal entries ends after this many bytes, never before one entry."""

INSPECT_JOURNAL_BYTES: Final = 1024 * 1024
"""Lines of a journal that one look at a shard decodes, never below one entry: some milliseconds."""

UNREADABLE_CHARS_MAX: Final = 200
"""What is said of a line that cannot be read: a decoder may quote all of it."""

JOURNAL_PAGE_MAX: Final = 10_000
"""Entries in one page of a journal: calls of one job each write entries of one line, and a thousand would be little."""

SCAN_PER_CALL_MAX: Final = 1_000
"""Ids that a list looks at in one step on a store without an index by id."""

LIST_IDS_KEPT_MAX: Final = 250_000
"""Ids that a store without an index by id keeps for the next pages of lists under way: some 20 MB. A walk through a
million jobs looks at all of them five times, not a thousand times."""

SCAN_PART_BYTES: Final = 4 * 1024 * 1024
"""A part of a scan ends once its payloads and results hold this many bytes, never before one row; as a claim does."""

CONFIGURE_TRIES_MAX: Final = 100
"""How often a change of configuration is decided anew when others are faster; each of them made progress."""

INBOX_PER_ROUND_MAX: Final = 1_000
"""Calls whose journal lines are given their numbers in one go, where that is a step of its own (PostgreSQL)."""

NEARLY_FULL_PERCENT: Final = 80
"""From here on a person is warned that memory, connections or a queue's bounds are running out: a fifth is time to act
in."""

CLOCK_SKEW_MS_MAX: Final = 1_000
"""Clocks that differ by more than this make times in logs and lists misleading; leases go by the store's alone."""

LATE_MS: Final = 60_000
"""What is due, or whose lease ran out, for longer than this has nobody who cares: a worker looks every few seconds."""

CONSUMER_QUIET_MS: Final = 24 * 3_600_000
"""A journal reader that holds back retention and was not heard of for a day has probably been forgotten."""

QUEUES_LISTED_MAX: Final = 10
"""Queues with the same finding that `doctor` lists one by one; more are counted: a person acts on their one cause."""

INSPECT_PARTS_MAX: Final = 10
"""Parts of a shard, of 1,000 records each, that `doctor` looks at unless it is told to look at all: a blink each."""

CAPACITY_MAX: Final = 10_000
"""Units of a worker: more handlers than this on one event loop are slower than two workers."""

CAPACITY_DEFAULT: Final = 400
"""Half of it is a claim, whose price is shared by so many jobs: 100 cost a worker 1.4 times as much a job as 1,000, and
400 a tenth more. Handlers that hold two sockets each stay below the 1,024 files that a process may usually open."""

COLLECT_AFTER: Final = 50_000
COLLECT_OLDER_AFTER: Final = 20
"""Objects made, and collections of younger ones, before the garbage collector of a worker's program looks again. A job
leaves some twenty objects that are soon freed without it: at Python's own 700 it took a fifth of a worker's time, at
50,000 it takes a twentieth for 15 MB, and turned off it would save no more than that."""

THREADS_MAX: Final = 1_000
PROCESSES_MAX: Final = 512
"""What one machine can reasonably start."""

PROCESS_START_MS: Final = 60_000
"""How long a process of a worker may take to say that it is ready: a loaded machine needs seconds."""

PROCESS_EXIT_MS: Final = 2_000
"""How long an idle process of a worker may take to end by itself (its exit functions run) before it is killed."""

PROCESS_RESTART_MS: Final = 200
PROCESS_RESTART_MS_MAX: Final = 30_000
"""Between the death of a worker process and the next start: doubled with each that follows, so that one which dies at
once takes less than a hundredth of a core, and is there half a minute after its cause is gone."""

PROCESS_CALM_MS: Final = 60_000
"""A worker process that has worked for this long was well: its death is the first one again."""

PROCESS_DEATHS_MAX: Final = 5
"""Deaths in a row after which a run that is to end by itself (`--until-idle`) gives up: it would never end. A run that
goes on for ever goes on trying, since its other processes work."""

PROCESS_STOP_MARGIN_MS: Final = 15_000
"""What a worker process has beyond its grace before it is killed: to cancel handlers (2 s), to settle (5 s), and to be
slow on a loaded machine."""

REPORT_BYTES_MAX: Final = 16 * 1024 * 1024
"""What a worker process reports at once: 10,000 jobs in hand and as many series, each some hundred bytes."""

PROCESS_MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""A message between a worker and its process: a payload or a result, with headers, texts and names to spare."""

TRACE_CHARS_MAX: Final = 8 * 1024
"""The end of a stack trace that a process sends to the worker's log."""

SCRAPE_SECONDS_MAX: Final = 5
"""How long whoever asks for a worker's metrics may take to say so, and to read the answer."""

LOG_PAYLOAD_CHARS_MAX: Final = 1_024
"""What a worker's log shows of a payload, if it is asked to: enough to know it again, not a second store."""

LOG_WRITE_BYTES_MAX: Final = 4_096
"""Lines of a worker's log that are written at once: what Linux puts into a pipe as a whole (PIPE_BUF), so that the
lines of several processes stay whole."""

LOG_LAYOUTS_MAX: Final = 1_000
"""Layouts of lines about jobs that a worker keeps, two for each kind and queue; each takes some 2 KB."""

ENQUEUE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payloads that a client puts into one call, never below one job: a thousand of the largest would be 256 MiB."""

ENQUEUES_IN_FLIGHT_MAX: Final = 4
"""Calls of one `enqueue_many` under way at once: enough to keep a server busy while the next jobs are packed."""

RESULT_LOOK_MS: Final = 30_000
"""Whoever waits for a result looks at least this often: what a lost wake-up may cost."""

RESULT_NAP_MS: Final = 50
RESULT_NAP_MS_MAX: Final = 1_000
"""Pauses between looks at a job that was said to have ended and has not: doubled each time, so never a busy loop."""

FORK_REST_MS: Final = 5_000
"""How long a fork waits for the calls that other threads have under way."""

CTRL_C_MS: Final = 500
"""How often a thread that waits for an answer looks whether a signal came while it fell asleep."""

ID_CANDIDATES_MAX: Final = 5
"""Ids that a refusal names where what was written could be the beginning of several: enough to see what differs."""

LOOKS_AT_ONCE: Final = 50
"""Queues that a command asks after at the same time: a far server answers a thousand in a second, none is flooded."""

SEARCH_SCAN_MAX: Final = 10_000
"""Records that a search on the command line looks at unless told otherwise: some seconds on the slowest store."""

JOURNEY_SCAN_MAX: Final = 200_000
"""Events of the journal that are looked at for one job's life unless told otherwise: a second or two."""

JOURNEY_WINDOW_EVENTS: Final = 5_000
"""Events that are read at once on the way back through a journal: about a megabyte."""

WORKER_LATELY_MS: Final = 60_000
"""A worker that was not seen for this long is probably not there: an idle one asks several times a minute."""

WORKER_SECOND_LOOK_MS: Final = 250
"""Workers leave no trace on a queue that has never had a job: after the first one they get this long to take it."""

LINES_CHECKED_MAX: Final = 10_000
LINES_CHECKED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Lines of a file of jobs that are all checked before the first of them is sent: a whole file, unless it is large."""

LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A line of a file of jobs: the largest payload with every character escaped, and then some."""

PATH_BYTES_MAX: Final = 4_095
FILE_NAME_BYTES_MAX: Final = 255
"""What Linux takes: a longer path is no file's, and each system call has an error of its own for it."""

PATH_CHARS_SHOWN_MAX: Final = 200
"""Of a path, in a refusal."""

LINES_REFUSED_SHOWN_MAX: Final = 20
"""Refused lines of a file of jobs that are shown; beyond that they are counted."""

PAUSED_LOOKS_MAX: Final = 20
"""Queues of a file of jobs that are looked at for being paused: each is a call, and a file may name a thousand."""

ITEM_BYTES_MAX: Final = 256 * 1024
"""An item of a feed; larger things belong into object storage, with their address in the item."""

INSTANCE_CHARS_MAX: Final = 128
"""Who made a change: written with every one, so it stays short."""

EVICT_PER_CALL_MAX: Final = 2_000
"""Items that one call may evict from a feed: twice what it may add, so the bounds are reached."""

CHANGES_TRIM_PER_CALL_MAX: Final = 2 * EVICT_PER_CALL_MAX
"""Changes that one call may drop from a feed's log: more than a call can write (an item and an eviction each)."""

CHANGES_SLACK: Final = 64
"""A log may hold a 64th more changes than it is to keep before it is cut: else every publication would have to."""

CHANGES_PAGE_BYTES: Final = 4 * 1024 * 1024
"""A page of changes or items ends once it holds this many bytes, never before one."""

RANK_CHARS_MAX: Final = 128
"""A rank that would be longer has the ranks around it drawn anew: 30 levels of 24 bits below the first."""

RERANK_MAX: Final = 500
"""Items on either side of a place whose ranks are drawn anew in one call, when one would grow too long."""

FEED_LOOK_MS: Final = 5_000
"""Whoever follows a feed looks at least this often, and then has items evicted that are over their age: what a lost
wake-up may cost."""

FEED_RETRY_MS: Final = 100
FEED_RETRY_MS_MAX: Final = 5_000
"""Pauses of whoever follows a feed of a store that is away: doubled each time, and never the same for two."""

HUB_CHANGES_MAX: Final = 4_000
HUB_BYTES_MAX: Final = 8 * 1024 * 1024
"""The last changes of a feed that its subscribers in one process share; who is further behind reads for himself."""

SNAPSHOT_TRIES: Final = 3
"""How often the pages of a feed's items are read from the start because it changed meanwhile, before all are read in
one step."""

TOLD_PER_BATCH_MAX: Final = 1_000
"""Changes that a subscription hands out in one batch."""

PUBLISH_BYTES_MAX: Final = 4 * 1024 * 1024
"""Items that one call of a `publish_many` carries, never below one."""

QUEUE_EVENTS_NAP_MS: Final = 20
QUEUE_EVENTS_NAP_MS_MAX: Final = 1_000
"""Pauses between looks at the journal of a queue: short while it is busy, doubled while nothing comes."""

PARTITIONS_MAX: Final = 10_000
"""Tasks that a read through Spark may ask for: more than any cluster runs at once, and already a minute of mere
scheduling."""

KEY_KEEP_MS: Final = 30 * 24 * 3_600_000
"""How long a row that Spark wrote is known as written: whoever runs a write again does so within days."""

WRITE_KEYS_MAX: Final = 20_000_000
"""Rows of one write through Spark that are counted exactly, by eight bytes each on the driver: 160 MB; beyond that it
says "at least"."""

WRITES_IN_FLIGHT: Final = 2
"""Calls that a writing task has under way: the store works on one while the other is packed; more only wait there."""

REFUSED_ROWS_BUFFERED: Final = 1_000
REFUSED_BYTES_BUFFERED: Final = 8 * 2**20
"""Refused rows, and bytes of them, that a writing task holds before they go to its file: whole columns are quick to
write, and a task whose every row is refused must not grow."""

WRITE_TRIES_MAX: Final = 6
WRITE_RETRY_MS: Final = 100
"""How often a writing task sends again what was not answered, with pauses that double from the first: three seconds,
then it is for Spark to run the task again."""

PAGE_BUCKETS_MAX: Final = 120
"""Points of a curve in the report: as many as a narrow chart has room for; longer times get longer buckets."""

PAGE_TENANTS_MAX: Final = 8
PAGE_QUEUES_MAX: Final = 12
"""Tenants and queues with a view of their own in the report: each adds 50 KB to the page, or 200 with long names."""

PAGE_FAILURES_MAX: Final = 8
PAGE_KINDS_MAX: Final = 10
PAGE_DAYS_MAX: Final = 14
PAGE_SAMPLES_MAX: Final = 3
"""Lines of a list in the report: what a person reads; the tables have the rest."""

PAGE_TEXT_CHARS_MAX: Final = 300
"""Characters of a text that a program wrote, such as an error message, in the report."""

STATS_WINDOW_MS_MIN: Final = 1_000
STATS_WINDOW_MS_MAX: Final = 24 * 3_600_000
"""Windows of statistics: files are named by seconds and lie in folders by day."""

STATS_RANGES_MAX: Final = 3
"""Parts of the journal that are read for one batch of statistics: each costs some tenths of a second to plan, so
windows that lie scattered are read with what is between them."""

STATS_NAMES_MAX: Final = 100
"""Queues that a batch of statistics reads by name; beyond that all are read, since each name is a comparison."""

STATS_SEEN_MAX: Final = 10_000
"""Windows of queues of which is remembered how far they were read, so that a stream that catches up reads each once."""

AUDIT_ROUNDS: Final = 5
"""How often an audit looks at a job that moves while it is looked at, with ever smaller batches: what five looks do not
catch standing still is at work."""

AUDIT_LOOKS_MAX: Final = 50_000
"""Jobs that an audit looks at a second time, with their stories in memory: some 100 MB. Where more differ, the first
of them tell enough."""

AUDIT_FLAWS_MAX: Final = 1_000
"""Findings of one sort in the journal itself that an audit shows: what is broken throughout needs no longer list."""

HISTORY_EVENTS_MAX: Final = 200_000
"""In a batch of the history: a few seconds of work, and some 10 MB on the driver while it is checked."""

HISTORY_TASK_EVENTS: Final = 20_000
"""A batch of the history up to this is written by one task: a fifth of a second of work."""

HISTORY_EVERY_MS: Final = 10_000
"""Between batches of the history: every batch makes a file for each queue that something happened in."""

HISTORY_SMALL_BYTES: Final = 64 * 2**20
"""Files of the history below this are merged: engines read larger ones at full speed."""

HISTORY_GROUP_ROWS: Final = 250_000
HISTORY_GROUP_BYTES: Final = 128 * 2**20
"""Rows that are in memory while files are merged, and their size where they are large."""

MAP_NAME_CHARS_MAX: Final = 96
"""Of the name of a map, which is part of its queue's name, of the space of its keys and of every id."""

MAP_SAMPLES: Final = 20
"""First rows of a map that are tried on the handler before any is sent: if none of them fits, no other is likely to."""

MAP_LOOK_MS: Final = 500
"""Between two looks at the queue of a map whose jobs are done by workers elsewhere: each is one call."""

FLEET_WORKERS_MAX: Final = 1_000
"""Workers of a fleet: each is a job of Spark and a thread on the driver."""

FLEET_FALLS_MAX: Final = 10
"""How often in a row a worker of a fleet may fall while the whole fleet ends no job: what falls ten times will fall an
eleventh time."""

FLEET_STOP_LOOK_MS: Final = 1_000
"""How often a worker of a fleet asks the store whether it is to stop."""

FLEET_DRAINED_LOOK_MS: Final = 500
"""How often a worker of a fleet that has nothing to do asks whether anything is left at all."""

FLEET_LEFTOVER_MS: Final = 5_000
"""How long what a worker of a fleet left behind may take to end before its process is ended: Spark would use it again,
with a handler still running in it."""

FLEET_MARGIN_MS: Final = 10_000
"""What a fleet is given beyond the grace of its workers to end, before Spark is told to end it."""
