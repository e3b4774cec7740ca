"""What is done in Redis for processes that serve together, in its own language, each script as a whole or not.

Their keys, below the prefix of a store; its tasks have others. Times are milliseconds by the clock of Redis.

    secret           what all processes know
    numbers          hash: the number of the last process, and what Redis has given it
    member:N         hash: the lease of a process, which expires; its address, the generation of its connection,
                     and that of the one in which it came, or came back
    members          sorted set: processes by when their sessions are removed, if they do not renew their lease
    session:ID       hash: owner, data, turn, who had lost it; without data, it was forgotten, and expires
    sessions:N       set: the sessions of a process
    released         sorted set: sessions that any process can take, by when they are removed
    events:ID        hash: the events of a session by their place, which is the stream and the number
    event-index:ID   sorted set: the same places, in the order of the numbers of each stream
    event-order:ID   list: the same places, the oldest first
    event-sizes      sorted set: sessions by what their events weigh; and, as `all`, the sum
    event-expiry     sorted set: sessions by when their events are removed

What is kept true:

* Who writes names itself and the generation of its connection. Where its lease is gone, or a later connection of
  it has come, it writes nothing. So what was under way in a connection that was given up is never done later.
* A process is gone when it has no lease. Only then, or when it has released them, others take its sessions.
* A Redis that is full refuses what needs room, if nothing has been written before. So that is written first where
  it may be refused, and last where it must not: by who lives, and by who takes a session.
* Each script can be sent again, for an answer may be lost: it finds what it has done, and does no more.
* A number is given once. When Redis was emptied or started again, it may have forgotten what it gave last, and so
  each time: it begins anywhere among 900 million, and leaves out what processes have that are there.
* Sums are kept beside their parts, in one key: they are lost together or not at all.
"""

from __future__ import annotations

import hashlib
from typing import Final

from .._endpoint._event_store import EVENT_BYTES
from .._server._redis_scripts import Script

_COMMON: Final = """
local P, me, generation = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local members, released = P .. 'members', P .. 'released'
local sizes, event_expiry = P .. 'event-sizes', P .. 'event-expiry'
local function key(kind, name) return P .. kind .. ':' .. name end
local function whole(number) return string.format('%.0f', number) end
local function lives(number) return call('EXISTS', key('member', number)) == 1 end
local function is_fenced() return call('HGET', key('member', me), 'generation') ~= generation end
local function leave(number, max_age)
  call('DEL', key('member', number))
  if call('EXISTS', key('sessions', number)) == 1 then
    call('ZADD', members, whole(now + max_age), number)
  else
    call('ZREM', members, number)
  end
end
local function weigh(session, more)
  call('ZINCRBY', sizes, whole(more), 's' .. session)
  call('ZINCRBY', sizes, whole(more), 'all')
end
local function size_of(member) return tonumber(call('ZSCORE', sizes, member) or 0) end
local function drop_events(session)
  call('UNLINK', key('events', session), key('event-index', session), key('event-order', session))
  call('ZREM', event_expiry, session)
  weigh(session, -size_of('s' .. session))
  call('ZREM', sizes, 's' .. session)
  if call('ZCARD', sizes) == 1 then call('DEL', sizes) end
end
local function drop_session(id)
  call('DEL', key('session', id))
  drop_events(id)
end
local function purge_events(most)
  local old = call('ZRANGEBYSCORE', event_expiry, '-inf', whole(now), 'LIMIT', 0, most)
  for _, session in ipairs(old) do drop_events(session) end
  return #old == most
end
"""


def _script(body: str) -> Script:
    source = _COMMON + body
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


# Processes.

GREET: Final = _script("""
local lease, max_age, secret, address = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local known, server, first, since = ARGV[8], ARGV[9], ARGV[10], '0'
local info = redis.pcall('INFO', 'server')
local this = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
local given = call('HMGET', P .. 'numbers', 'last', 'server')
local state, last = 'ok', tonumber(given[2] == this and given[1] or first)
if me == '0' then
  repeat last = last + 1 until not call('ZSCORE', members, whole(last))
  me = whole(last)
else
  local before = call('HMGET', key('member', me), 'generation', 'since')
  if before[1] and tonumber(before[1]) > tonumber(generation) then return {'late'} end
  since = before[2] or generation
  if tonumber(since) > tonumber(known) or server ~= this then state = 'doubt' end
end
call('PERSIST', key('member', me))
call('HSET', P .. 'numbers', 'last', whole(last), 'server', this)
call('HSET', key('member', me), 'generation', generation, 'since', since, 'address', address)
call('PEXPIRE', key('member', me), lease)
call('ZADD', members, whole(now + lease + max_age), me)
call('SETNX', P .. 'secret', secret)
return {state, me, call('GET', P .. 'secret'), this}
""")
"""For how long its lease is and sessions are kept, a secret if there is none, its address, the last generation
that was answered, and what Redis it was; and after what number those of processes begin.

The number is 0 for a process that has none. Returns `doubt` if it may have been taken for gone, until it knows
that; its number, the secret, and what Redis this is: another one after each start, which may lack what was last.
"""

RENEW: Final = _script("""
local lease, max_age = ARGV[4], ARGV[5]
if is_fenced() then return {'fenced'} end
call('PEXPIRE', key('member', me), lease)
call('ZADD', members, whole(now + lease + max_age), me)
local is_more = purge_events(100)
local old = call('ZRANGEBYSCORE', released, '-inf', whole(now), 'LIMIT', 0, 100)
for _, id in ipairs(old) do
  drop_session(id)
  call('ZREM', released, id)
end
is_more = is_more or #old == 100
for _, number in ipairs(call('ZRANGEBYSCORE', members, '-inf', whole(now), 'LIMIT', 0, 1)) do
  local ids = call('SRANDMEMBER', key('sessions', number), 100)
  for _, id in ipairs(ids) do
    if call('HGET', key('session', id), 'owner') == number then drop_session(id) end
    call('SREM', key('sessions', number), id)
  end
  if #ids == 0 then call('ZREM', members, number) end
  is_more = true
end
return {'ok', is_more and 1 or 0}
""")
"""For how long its lease is, and how long sessions are kept. Returns whether more is to be removed."""

LEAVE: Final = _script("""
if is_fenced() then return {'fenced'} end
leave(me, ARGV[4])
return {'ok'}
""")
"""How long sessions are kept."""

GONE: Final = _script("""
if is_fenced() then return {'fenced'} end
if ARGV[5] ~= me and lives(ARGV[5]) then leave(ARGV[5], ARGV[4]) end
return {'ok'}
""")
"""How long sessions are kept, and who is gone."""

ANNOUNCE: Final = _script("""
if is_fenced() then return {'fenced'} end
call('HSET', key('member', me), 'address', ARGV[4])
return {'ok'}
""")

OTHERS: Final = _script("""
local found = {}
for _, number in ipairs(call('ZRANGE', members, 0, -1)) do
  local address = call('HGET', key('member', number), 'address')
  if number ~= me and address and address ~= '' then
    found[#found + 1] = number
    found[#found + 1] = address
  end
end
return found
""")

ADDRESS: Final = _script("return {call('HGET', key('member', ARGV[4]), 'address') or ''}")


# Sessions.

KEEP: Final = _script("""
local id, data, turn, most = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local function make_room()
  for _, number in ipairs(call('ZRANGE', members, 0, -1)) do
    local oldest = not lives(number) and call('SPOP', key('sessions', number))
    if oldest then drop_session(oldest) return true end
  end
  local oldest = call('ZPOPMIN', released)[1]
  if oldest then drop_session(oldest) end
  return oldest
end
if is_fenced() then return {'fenced'} end
local old = call('HMGET', key('session', id), 'owner', 'data', 'lost')
if old[1] and old[1] ~= me then
  local has_lost = string.find(old[3] or '', ' ' .. me .. ' ', 1, true)
  if old[2] or has_lost then return {'taken'} end
end
if not old[2] then
  local count = call('ZCARD', released)
  for _, number in ipairs(call('ZRANGE', members, 0, -1)) do
    count = count + call('SCARD', key('sessions', number))
  end
  for _ = 1, 100 do
    if count < most or not make_room() then break end
    count = count - 1
  end
  if count >= most then return {'full', count} end
  call('HSET', key('session', id), 'turn', turn, 'lost', '')
  call('PERSIST', key('session', id))
end
call('HSET', key('session', id), 'owner', me, 'data', data)
call('SADD', key('sessions', me), id)
call('ZREM', released, id)
return {'ok'}
""")
"""A session, what is kept of it, its turn if Redis has forgotten it, and how many sessions there may be.

Beyond, those go first that nobody has.
"""

FIND: Final = _script("""
local data = call('HGET', key('session', ARGV[4]), 'data')
return data and {data} or {}
""")

TAKE: Final = _script("""
local id = ARGV[4]
if is_fenced() then return {'fenced'} end
local old = call('HMGET', key('session', id), 'owner', 'data', 'lost')
if not old[2] then return {'none'} end
if old[1] ~= me and lives(old[1]) and not call('ZSCORE', released, id) then return {'owner', old[1]} end
call('SREM', key('sessions', old[1]), id)
call('ZREM', released, id)
call('SADD', key('sessions', me), id)
if old[1] ~= me then
  call('HSET', key('session', id), 'owner', me, 'lost', string.sub(old[3] or '', -200) .. ' ' .. old[1] .. ' ')
end
return {'taken', old[2], call('HINCRBY', key('session', id), 'turn', 1)}
""")

RELEASE: Final = _script("""
local id, max_age = ARGV[4], ARGV[5]
if is_fenced() then return {'fenced'} end
local old = call('HMGET', key('session', id), 'owner', 'data')
if old[1] ~= me or not old[2] or call('ZSCORE', released, id) then return {'ok'} end
call('SREM', key('sessions', me), id)
call('ZADD', released, whole(now + max_age), id)
return {'ok'}
""")
"""A session, and how long it is kept."""

FORGET: Final = _script("""
local id, max_age = ARGV[4], ARGV[5]
if is_fenced() then return {'fenced'} end
local old = call('HMGET', key('session', id), 'owner', 'data', 'turn')
if old[1] ~= me or not old[2] or call('ZSCORE', released, id) then return {'ok'} end
call('SREM', key('sessions', me), id)
if old[3] == '0' then
  call('DEL', key('session', id))
else
  call('HDEL', key('session', id), 'data')
  call('PEXPIRE', key('session', id), max_age)
end
return {'ok'}
""")
"""A session, and how long one from which it was taken learns that it is no more."""


# Events. The place of one is its stream and its number, each with 20 digits: places of a stream sort as numbers.

APPEND: Final = _script(
    """
local session, stream, max_age = ARGV[4], ARGV[5], ARGV[6]
local max_events, max_session_bytes, max_bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
if is_fenced() then return {'fenced'} end
local function shed(session, most_events, most_bytes)
  local data, order = key('events', session), key('event-order', session)
  local count, size, gone = call('LLEN', order), size_of('s' .. session), 0
  while count > 0 and (count > most_events or size - gone > most_bytes) do
    local place = call('LPOP', order)
    gone = gone + call('HSTRLEN', data, place) + EVENT_BYTES
    call('HDEL', data, place)
    call('ZREM', key('event-index', session), place)
    count = count - 1
  end
  if count == 0 then drop_events(session) elseif gone > 0 then weigh(session, -gone) end
end
purge_events(10)
local index, more = key('event-index', session), 0
if #ARGV < 11 or call('ZSCORE', index, stream .. ARGV[#ARGV - 1]) then return {'ok'} end
for i = 10, #ARGV, 2 do
  local place, data = stream .. ARGV[i], ARGV[i + 1]
  if call('ZADD', index, 0, place) == 1 then
    call('HSET', key('events', session), place, data)
    call('RPUSH', key('event-order', session), place)
    more = more + #data + EVENT_BYTES
  end
end
if more > 0 then
  weigh(session, more)
  call('ZADD', event_expiry, whole(now + max_age), session)
  shed(session, max_events, max_session_bytes)
end
while size_of('all') > max_bytes do
  local largest = ''
  for _, member in ipairs(call('ZREVRANGE', sizes, 0, 1)) do
    if member ~= 'all' then largest = string.sub(member, 2) end
  end
  shed(largest, math.huge, math.floor(size_of('s' .. largest) / 2))
end
return {'ok'}
""".replace("EVENT_BYTES", str(EVENT_BYTES))
)
"""A session, a stream, how long events are kept, the three bounds, and numbers and messages.

The last of them goes last: if it is there, all this was done. The first may have gone, and must not come again.

If all have too much, half of those of the session that has most of them go: so those of others make no room for
a session that has more, and this is not done each time.
"""

READ: Final = _script("""
local stream, after, found = ARGV[5], ARGV[6], {}
local first, last = '(' .. stream .. after, '(' .. stream .. ':'
for _, place in ipairs(call('ZRANGEBYLEX', key('event-index', ARGV[4]), first, last, 'LIMIT', 0, ARGV[7])) do
  local data = call('HGET', key('events', ARGV[4]), place)
  if data then
    found[#found + 1] = string.sub(place, 21)
    found[#found + 1] = data
  end
end
return found
""")
"""A session, a stream, a number after which, and at most how many."""

FORGET_EVENTS: Final = _script("""
if is_fenced() then return {'fenced'} end
drop_events(ARGV[4])
return {'ok'}
""")
