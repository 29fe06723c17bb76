"""Faults that can be planted in the functions of the Redis store: each a change of text in the assembled source.

The conformance suite must notice every one of them: see tests/conformance/test_planted_faults.py.
"""

from headrace.stores.redis import library

FAULTS: dict[str, tuple[tuple[str, str], str]] = {
    "lua_claims_ignore_priority": (("text_of((9 - own) * TIER + number)", "text_of(number)"), "claim"),
    "lua_a_token_is_not_checked": (("elseif find(packed, token, 8, true) ~= 8 then", "elseif false then"), "settle"),
    "lua_an_expired_lease_is_accepted": (
        ("elseif end_ms and tonumber(end_ms) <= s.now then", "elseif false then"),
        "settle",
    ),
    "lua_a_lease_still_holds_at_its_end": (
        ("elseif end_ms and tonumber(end_ms) <= s.now then", "elseif end_ms and tonumber(end_ms) < s.now then"),
        "settle",
    ),
    "lua_a_lease_is_not_repaired_at_its_end": (
        ("call('ZRANGE', s.names.x, '-inf', s.now,", "call('ZRANGE', s.names.x, '-inf', '(' .. s.now,"),
        "repair",
    ),
    "lua_promotion_has_no_bound": (
        ("handing.promote(s, LIMITS.promotions)", "handing.promote(s, 1000000)"),
        "claim",
    ),
    "lua_a_paused_queue_hands_out": (
        ("if not s.cfg.paused then\n    items, n", "if true then\n    items, n"),
        "queues",
    ),
    "lua_a_repeated_nonce_hands_out_more": (
        ("return call('HGET', s.names.w, request.worker) == request.nonce", "return false"),
        "claim",
    ),
    "lua_attempts_are_counted_twice": (
        ("local failed, cfg = body.failed(packed, 1, 0,", "local failed, cfg = body.failed(packed, 2, 0,"),
        "settle",
    ),
    "lua_the_budget_is_one_too_large": (
        (
            "if attempts >= body.rule(packed, 'max_attempts', cfg)",
            "if attempts > body.rule(packed, 'max_attempts', cfg)",
        ),
        "settle",
    ),
    "lua_a_stall_is_not_counted": (
        ("body.failed(packed, 0, 1, s.now, STALLED.class", "body.failed(packed, 0, 0, s.now, STALLED.class"),
        "repair",
    ),
    "lua_a_twin_is_lost_on_retry": (("    packed = twins.applied(twin, packed)\n", ""), "twins"),
    "lua_a_twin_is_lost_when_its_namesake_ends": (
        ("function twins.free(s, id)\n", "function twins.free(s, id)\n  if true then\n    return\n  end\n"),
        "twins",
    ),
    "lua_a_key_holds_at_its_end": (
        ("if used and s.now < cut('>I6', used, 33) then", "if used and s.now <= cut('>I6', used, 33) then"),
        "idempotency",
    ),
    "lua_an_asked_cancel_is_forgotten": (("local asked = byte(delivery) == 49", "local asked = false"), "cancel"),
    "lua_a_replayed_letter_stays": (
        ("  letters.drop(s, letter.number, id)\n  ending.drop(s, id)\n", "  ending.drop(s, id)\n"),
        "dead",
    ),
    "lua_a_letter_is_replayed_beside_its_namesake": (
        ("  if waiting.body(s, id) then\n    return 'u'", "  if false then\n    return 'u'"),
        "dead",
    ),
    "lua_claims_are_told_as_releases": (('{"event":"claimed","id":"', '{"event":"released","id":"'), "journal"),
    "lua_the_journal_has_gaps": (
        ("local seq, at = head.seq + s.count, head.at", "local seq, at = head.seq + s.count + 1, head.at"),
        "journal",
    ),
    "lua_the_time_of_the_journal_goes_back": (
        ("  if s.now > at then\n    at = s.now\n  end\n", "  at = s.now\n"),
        "journal",
    ),
    "lua_nobody_waits_for_a_holding_consumer": (("if hold == '1' and", "if false and"), "journal"),
    "lua_a_full_queue_takes_more": (("= s.cfg.waiting_max - waiting.held(s)", "= 1000000"), "queues"),
    "lua_an_old_ending_outlives_a_new_job": (("if endings and endings[i] then", "if false then"), "enqueue"),
    "lua_a_list_starts_anew_on_every_page": (
        ("local is_wanted = is_before(args[5], id) and", "local is_wanted ="),
        "reads",
    ),
    "lua_another_number_of_shards_is_accepted": (
        ("if known and shards ~= '' and known ~= shards then", "if false then"),
        "queues",
    ),
    "lua_deleting_leaves_the_keys": (
        (
            "erase_ordered(named.ws, named.w, erase_ordered(named.kx, named.k, left))",
            "erase_ordered(named.ws, named.w, left)",
        ),
        "queues",
    ),
    "lua_a_configuration_stays_on_the_first_shard": (
        ("local is_newer = s and s.cfg.version", "local is_newer = index == 1 and s and s.cfg.version"),
        "queues",
    ),
    "lua_the_oldest_due_job_is_looked_for_in_one_priority": (("for rank = 0, 9 do", "for rank = 0, 0 do"), "queues"),
    "lua_the_end_of_a_job_is_not_told": (("  telling.publish(s.names.ends, concat(ids, '\\n'))\n", ""), "signals"),
    "lua_a_snapshot_leaves_out_what_is_later": (("ipairs({ named.r, named.l })", "ipairs({ named.r })"), "reads"),
}
"""What is replaced by what, and where the fault is looked for first, which saves time and decides nothing."""


def planted(name: str, source: str) -> str:
    """The source with the named fault; what it replaces must be there exactly once."""
    (right, wrong), _ = FAULTS[name]
    if source.count(right) != 1:
        raise ValueError(f"{name} replaces a text that is there {source.count(right)} times; bring it up to date")
    return source.replace(right, wrong)


def plant(name: str) -> None:
    """Break the functions that this process will load in the named way."""
    source = planted(name, library._assembled())
    library._assembled = lambda: source  # type: ignore[assignment]
