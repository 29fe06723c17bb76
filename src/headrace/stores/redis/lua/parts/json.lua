-- JSON: quoting of text for journal lines, and a strict check of payloads that a fail handler is to read as they are.

local json = {}

local ESCAPES = {
  ['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t',
}
local UNSAFE = '[%z\1-\31"\\]'

-- A text as a JSON string. Ids, kinds and tags are printable, so mostly there is nothing to escape.
function json.quote(text)
  if find(text, UNSAFE) then
    text = string.gsub(text, UNSAFE, function(char)
      return ESCAPES[char] or format('\\u%04x', byte(char))
    end)
  end
  return '"' .. text .. '"'
end

-- A long text as a JSON string, equal to that of json.quote. The server's own encoder is many times as fast as a
-- pattern where there are many quotes, but also escapes the slash and the delete character.
function json.quote_long(text)
  if find(text, '\127', 1, true) then
    return json.quote(text)
  end
  local quoted = cjson.encode(text)
  local at = find(quoted, '\\/', 1, true)
  if not at then
    return quoted
  end
  local pieces, n, from = {}, 0, 1
  while at do
    n = n + 1
    pieces[n] = sub(quoted, from, at - 1)
    from = at + 1
    at = find(quoted, '\\/', from, true)
  end
  pieces[n + 1] = sub(quoted, from)
  return concat(pieces)
end

-- Whether no id needs escaping; two plain searches in all ids are much cheaper than a pattern for each.
function json.are_plain(ids)
  local all = concat(ids, ' ')
  return not find(all, '"', 1, true) and not find(all, '\\', 1, true)
end

local ASCII = '^[^\128-\255]*()' -- one long match: a search starts again at every character, three times as slow

-- The position behind the character of several bytes at `at`; nil when there is none.
local function after_wide(at, one, two, three, four)
  if one < 194 or one > 244 or not two then
    return nil
  end
  local least, most = 128, 191
  if one == 224 then
    least = 160
  elseif one == 237 then
    most = 159
  elseif one == 240 then
    least = 144
  elseif one == 244 then
    most = 143
  end
  if two < least or two > most then
    return nil
  elseif one < 224 then
    return at + 2
  elseif not three or three < 128 or three > 191 then
    return nil
  elseif one < 240 then
    return at + 3
  end
  return four and four >= 128 and four <= 191 and at + 4 or nil
end

-- Whether a text is valid UTF-8.
function json.is_utf8(text)
  local at = 1
  while true do
    local _, _, wide = find(text, ASCII, at)
    at = wide
    local one, two, three, four = byte(text, at, at + 3)
    if not one then
      return true
    end
    while one and one >= 128 do
      at = after_wide(at, one, two, three, four)
      if not at then
        return false
      end
      one, two, three, four = byte(text, at, at + 3)
    end
  end
end

local DEPTH_MAX = 900
local SPACE = '^[ \t\n\r]*()'
local WORDS = { t = 'true', f = 'false', n = 'null' }

-- The position behind the string that starts with the quote at `at`; nil when there is none.
local function after_string(text, at)
  at = at + 1
  while true do
    local _, stop, char = find(text, '^[^%c"\\]*(.)', at)
    if not stop then
      return nil
    end
    if char == '"' then
      return stop + 1
    elseif char == '\\' then
      local escaped = sub(text, stop + 1, stop + 1)
      if find(escaped, '^["\\/bfnrt]') then
        at = stop + 2
      elseif escaped == 'u' and find(text, '^%x%x%x%x', stop + 2) then
        at = stop + 6
      else
        return nil
      end
    elseif char == '\127' then
      at = stop + 1
    else
      return nil
    end
  end
end

local function after_number(text, at)
  local _, stop = find(text, '^%-?%d+', at)
  if not stop or find(text, '^%-?0%d', at) then
    return nil
  end
  local _, fraction = find(text, '^%.%d+', stop + 1)
  stop = fraction or stop
  local _, exponent = find(text, '^[eE][+-]?%d+', stop + 1)
  return (exponent or stop) + 1
end

local function after_scalar(text, at, char)
  if char == '"' then
    return after_string(text, at)
  end
  local word = WORDS[char]
  if word then
    return sub(text, at, at + #word - 1) == word and at + #word or nil
  end
  return after_number(text, at)
end

-- The position behind the key and colon of an object's member; nil when there is none.
local function after_key(text, at)
  local _, _, quote = find(text, SPACE, at)
  if sub(text, quote, quote) ~= '"' then
    return nil
  end
  local stop = after_string(text, quote)
  if not stop then
    return nil
  end
  local _, _, colon = find(text, '^[ \t\n\r]*:()', stop)
  return colon
end

-- Whether a text is one JSON value: strict UTF-8, no NaN, not nested deeper than readers can take. Not recursive.
function json.is_value(text)
  if not json.is_utf8(text) then
    return false
  end
  local stack, depth, at = {}, 0, 1
  while true do
    local _, _, start = find(text, SPACE, at)
    local char = sub(text, start, start)
    local opened = false
    if char == '[' or char == '{' then
      local close = char == '[' and ']' or '}'
      local _, _, inner = find(text, SPACE, start + 1)
      if sub(text, inner, inner) == close then
        at = inner + 1
      else
        depth = depth + 1
        if depth > DEPTH_MAX then
          return false
        end
        stack[depth] = close
        at = inner
        if close == '}' then
          at = after_key(text, inner)
        end
        opened = true
      end
    else
      at = after_scalar(text, start, char)
    end
    if not at then
      return false
    end
    while not opened do
      local _, _, stop = find(text, SPACE, at)
      if depth == 0 then
        return stop > #text
      end
      local follows = sub(text, stop, stop)
      at = stop + 1
      if follows == ',' then
        if stack[depth] == '}' then
          at = after_key(text, at)
          if not at then
            return false
          end
        end
        break
      elseif follows ~= stack[depth] then
        return false
      end
      depth = depth - 1
    end
  end
end

local DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function json.base64(text)
  local out, n = {}, 0
  for at = 1, #text, 3 do
    local a, b, c = byte(text, at, at + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    local one, two = floor(bits / 262144), floor(bits / 4096) % 64
    local three, four = floor(bits / 64) % 64, bits % 64
    n = n + 1
    out[n] = sub(DIGITS, one + 1, one + 1)
      .. sub(DIGITS, two + 1, two + 1)
      .. (b and sub(DIGITS, three + 1, three + 1) or '=')
      .. (c and sub(DIGITS, four + 1, four + 1) or '=')
  end
  return concat(out)
end

return json
