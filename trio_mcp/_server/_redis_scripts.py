"""What is done to tasks in Redis, in its own language: each script is done as a whole, or not at all.

Their keys, below the prefix of a store:

    task:ID         hash: data, runner, tool, version, expires, size; what is empty is not there
    expiry          sorted set: tasks by when they expire; seconds since 1970
    tasks:RUNNER    set: what a process runs
    todo:TOOL       sorted set: calls that wait to be run again
    messages:ID     hash: messages for a task, by number
    waiting:RUNNER  sorted set: the same for all tasks of a process, in order
    runner:RUNNER   hash: the lease of a process, which expires; the generation of its connection; its last claim
    runners         hash: all processes; 0 for one that was found dead, and whose tasks are being ended
    totals          hash: how many tasks and bytes there are, and the number of the last message

What is kept true:

* Who writes names itself and the generation of its connection. Where its lease is gone, or a later connection of
  it has come, it writes nothing. So what was under way in a connection that was given up is never done later.
* A process that is 0 in `runners`, or not there, gets no lease again. Only then are its tasks touched by others.
* A script looks first and writes then, and each can be sent again: an answer may be lost.
"""

from __future__ import annotations

import hashlib
from typing import Final, final

import attrs

from ._task_rows import ROW_BYTES

_COMMON: Final = """
local P, me, generation, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local totals, expiry, runners = P .. 'totals', P .. 'expiry', P .. 'runners'
local call = redis.call
local function key(kind, name) return P .. kind .. ':' .. name end
local function lives(runner) return call('EXISTS', key('runner', runner)) == 1 end
local function is_fenced() return call('HGET', key('runner', me), 'generation') ~= generation end
local function weigh(more) if more ~= 0 then call('HINCRBY', totals, 'bytes', more) end end
local function has_room(more, most)
  return tonumber(call('HGET', totals, 'bytes') or 0) + more <= tonumber(most)
end
local function full(more) return {'full', tonumber(call('HGET', totals, 'bytes') or 0), more} end
local function waiting(number, id) return number .. ' ' .. id end
local function unsend(id, runner)
  local found = call('HGETALL', key('messages', id))
  for i = 1, #found, 2 do
    weigh(-(#found[i + 1] + ROW_BYTES))
    if runner ~= '' then call('ZREM', key('waiting', runner), waiting(found[i], id)) end
  end
  call('DEL', key('messages', id))
end
local function drop(id)
  local old = call('HMGET', key('task', id), 'size', 'runner', 'tool')
  if not old[1] then return end
  unsend(id, old[2])
  if old[2] ~= '' then call('SREM', key('tasks', old[2]), id) end
  if old[3] ~= '' then call('ZREM', key('todo', old[3]), id) end
  call('ZREM', expiry, id)
  call('DEL', key('task', id))
  weigh(-tonumber(old[1]))
  call('HINCRBY', totals, 'tasks', -1)
end
local function purge()
  for _, id in ipairs(call('ZRANGEBYSCORE', expiry, '-inf', now, 'LIMIT', 0, 100)) do drop(id) end
end
local function move(id, runner, tool, created)
  local old = call('HMGET', key('task', id), 'runner', 'tool')
  local before = old[1] or ''
  if old[2] and old[2] ~= '' then call('ZREM', key('todo', old[2]), id) end
  if tool ~= '' and runner == '' then call('ZADD', key('todo', tool), created, id) end
  if before ~= runner then
    if before ~= '' then call('SREM', key('tasks', before), id) end
    if runner ~= '' then call('SADD', key('tasks', runner), id) end
    for _, number in ipairs(call('HKEYS', key('messages', id))) do
      if before ~= '' then call('ZREM', key('waiting', before), waiting(number, id)) end
      if runner ~= '' then call('ZADD', key('waiting', runner), number, waiting(number, id)) end
    end
  end
  call('HSET', key('task', id), 'runner', runner, 'tool', tool)
  call('HINCRBY', key('task', id), 'version', 1)
end
local function put(id, runner, tool, created, expires, size, data)
  weigh(tonumber(size) - tonumber(call('HGET', key('task', id), 'size') or 0))
  move(id, runner, tool, created)
  call('HSET', key('task', id), 'created', created, 'expires', expires, 'size', size, 'data', data)
  if expires ~= '' then call('ZADD', expiry, expires, id) else call('ZREM', expiry, id) end
end
local function has_expired(expires) return expires and expires ~= '' and tonumber(expires) <= now end
""".replace("ROW_BYTES", str(ROW_BYTES))


@final
@attrs.frozen
class Script:
    """A script, and the name under which Redis knows it."""

    source: str
    name: str


def _script(body: str) -> Script:
    source = _COMMON + body
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


# Processes.

GREET: Final = _script("""
local milliseconds, is_new = ARGV[5], ARGV[6]
local state = call('HGET', runners, me)
if state ~= '1' then
  if state or is_new ~= '1' then return 'lost' end
  call('HSET', runners, me, '1')
end
local before = call('HGET', key('runner', me), 'generation')
if before and tonumber(before) > tonumber(generation) then return 'late' end
call('HSET', key('runner', me), 'generation', generation)
call('PEXPIRE', key('runner', me), milliseconds)
return 'ok'
""")
"""For how long its lease is; whether its name was never there. Says if it is lost."""

RENEW: Final = _script("""
if is_fenced() then return {'fenced'} end
call('PEXPIRE', key('runner', me), ARGV[5])
purge()
local dead, all = {'ok'}, call('HGETALL', runners)
for i = 1, #all, 2 do
  if all[i + 1] == '0' or not lives(all[i]) then dead[#dead + 1] = all[i] end
end
return dead
""")
"""For how long its lease is. Returns who is dead."""

MOURN: Final = _script("""
local runner, is_own = ARGV[5], ARGV[6] == '1'
if is_own then call('DEL', key('runner', runner)) end
if lives(runner) then return {} end
if call('HEXISTS', runners, runner) == 1 then call('HSET', runners, runner, '0') end
local ids, left = {}, {}
if #ARGV > 6 then
  for i = 7, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  ids = call('SRANDMEMBER', key('tasks', runner), 100)
  if #ids == 0 then
    call('HDEL', runners, runner)
    call('DEL', key('waiting', runner))
  end
end
for _, id in ipairs(ids) do
  local task = call('HMGET', key('task', id), 'data', 'version', 'runner')
  if task[1] and task[3] == runner then
    left[#left + 1] = id
    left[#left + 1] = task[1]
    left[#left + 1] = task[2]
  elseif not task[1] then
    call('SREM', key('tasks', runner), id)
  end
end
return left
""")
"""A process; whether it is this one; tasks of it, or none for up to a hundred. Returns them, as they are."""

LEAVE: Final = _script("""
local runner, id, version = ARGV[5], ARGV[6], ARGV[7]
local task = call('HMGET', key('task', id), 'runner', 'version')
if task[1] ~= runner or task[2] ~= version then return {} end
if lives(runner) or call('HGET', runners, runner) == '1' then return {} end
if ARGV[12] == '' then
  drop(id)
else
  if ARGV[13] == '1' then unsend(id, runner) end
  put(id, '', ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12])
end
return {}
""")
"""A task of a dead process, as it was and as it is from now on."""


# Tasks. How one is written: id, runner, tool, created, expires, size, data.

ADD: Final = _script("""
local id, size = ARGV[5], ARGV[10]
if is_fenced() then return {'fenced'} end
if call('HGET', key('task', id), 'runner') == me then return {'ok'} end
purge()
if not has_room(tonumber(size), ARGV[13]) then return full(tonumber(size)) end
local count = tonumber(call('HGET', totals, 'tasks') or 0)
if count >= tonumber(ARGV[12]) then return {'tasks', count} end
put(id, me, ARGV[7], ARGV[8], ARGV[9], size, ARGV[11])
call('HINCRBY', totals, 'tasks', 1)
return {'ok'}
""")

REPLACE: Final = _script("""
local id, size = ARGV[5], ARGV[10]
if is_fenced() then return {'fenced'} end
local old = call('HMGET', key('task', id), 'runner', 'size')
if old[1] ~= me then return {'ok'} end
local more = tonumber(size) - tonumber(old[2])
if ARGV[13] ~= '1' and more > 0 and not has_room(more, ARGV[12]) then return full(more) end
if ARGV[14] == '1' then unsend(id, me) end
put(id, ARGV[6], ARGV[7], ARGV[8], ARGV[9], size, ARGV[11])
return {'ok'}
""")
"""And how many bytes there may be, whether it is small enough to have room always, whether it has ended."""

REMOVE: Final = _script("""
local task = call('HMGET', key('task', ARGV[5]), 'runner', 'expires')
if is_fenced() then return {'fenced'} end
if task[1] == '' or task[1] == me or has_expired(task[2]) then drop(ARGV[5]) end
return {'ok'}
""")

FIND: Final = _script("""
local id = ARGV[5]
local task = call('HMGET', key('task', id), 'data', 'runner', 'expires')
if not task[1] then return {} end
if has_expired(task[3]) then drop(id) return {} end
if task[2] ~= '' and not lives(task[2]) then return {task[1], task[2]} end
return {task[1]}
""")
"""Returns the data of a task, and its process if that is dead."""

VERSIONS: Final = _script("""
local found = {}
for i = 5, #ARGV do
  local task = call('HMGET', key('task', ARGV[i]), 'version', 'runner', 'expires')
  if task[1] and not has_expired(task[3]) then
    local dead = task[2] ~= '' and not lives(task[2]) and task[2] or ''
    found[#found + 1] = ARGV[i]
    found[#found + 1] = task[1]
    found[#found + 1] = dead
  end
end
return found
""")
"""Returns for each task its id, its version, and its process if that is dead."""

CLAIM: Final = _script("""
local token = ARGV[5]
if is_fenced() then return {'fenced'} end
local last = call('HMGET', key('runner', me), 'claim', 'claimed')
if last[1] and tonumber(last[1]) > tonumber(token) then return {'ok'} end
if last[1] == token then
  local task = call('HMGET', key('task', last[2]), 'data', 'runner')
  if task[1] and task[2] == me then return {'ok', last[2], task[1]} end
  return {'ok'}
end
for i = 6, #ARGV do
  for _, id in ipairs(call('ZRANGE', key('todo', ARGV[i]), 0, 9)) do
    local task = call('HMGET', key('task', id), 'data', 'created', 'expires')
    if has_expired(task[3]) then
      drop(id)
    else
      call('HSET', key('runner', me), 'claim', token, 'claimed', id)
      move(id, me, ARGV[i], task[2])
      return {'ok', id, task[1]}
    end
  end
end
call('HSET', key('runner', me), 'claim', token, 'claimed', '')
return {'ok'}
""")
"""The number of this claim, and tools. Claimed again with the same number, it is the same task."""

UNCLAIM: Final = _script("""
if is_fenced() then return {'fenced'} end
local last = call('HMGET', key('runner', me), 'claim', 'claimed')
if last[1] == ARGV[5] and last[2] ~= '' then
  local task = call('HMGET', key('task', last[2]), 'runner', 'tool', 'created')
  if task[1] == me then move(last[2], '', task[2], task[3]) end
end
call('HSET', key('runner', me), 'claim', ARGV[5], 'claimed', '')
return {'ok'}
""")
"""The number of a claim of which nobody knows what it has brought."""


# Messages.

SEND: Final = _script(
    """
local id, data = ARGV[5], ARGV[6]
if is_fenced() then return {'fenced'} end
local task = call('HMGET', key('task', id), 'runner', 'tool')
if not task[1] or (task[1] == '' and task[2] == '') then return {'ok'} end
local there = call('HVALS', key('messages', id))
for _, each in ipairs(there) do
  if each == data then return {'ok'} end
end
if #there >= tonumber(ARGV[8]) then return {'waiting', #there} end
local size = #data + ROW_BYTES
if not has_room(size, ARGV[7]) then return full(size) end
local number = string.format('%d', call('HINCRBY', totals, 'messages', 1))
call('HSET', key('messages', id), number, data)
if task[1] ~= '' then call('ZADD', key('waiting', task[1]), number, waiting(number, id)) end
weigh(size)
return {'ok'}
""".replace("ROW_BYTES", str(ROW_BYTES))
)
"""A task, a message, how many bytes there may be, and how many messages may wait for a task."""

RECEIVE: Final = _script("""
if is_fenced() then return {'fenced'} end
local found = {}
for _, each in ipairs(call('ZRANGE', key('waiting', me), 0, 99)) do
  local number, id = string.match(each, '^(%d+) (.*)$')
  found[#found + 1] = number
  found[#found + 1] = id
  found[#found + 1] = call('HGET', key('messages', id), number)
end
return found
""")

DONE: Final = _script(
    """
for i = 5, #ARGV do
  for _, each in ipairs(call('ZRANGEBYSCORE', key('waiting', me), ARGV[i], ARGV[i])) do
    local number, id = string.match(each, '^(%d+) (.*)$')
    local data = call('HGET', key('messages', id), number)
    call('ZREM', key('waiting', me), each)
    if data then
      call('HDEL', key('messages', id), number)
      weigh(-(#data + ROW_BYTES))
    end
  end
end
return {'ok'}
""".replace("ROW_BYTES", str(ROW_BYTES))
)
