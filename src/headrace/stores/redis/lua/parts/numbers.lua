-- Numbers: whole numbers as decimal text.

local numbers = {}

local LAST_DIGITS = {}
for number = 0, 999 do
  LAST_DIGITS[number] = (number < 10 and '00' or number < 100 and '0' or '') .. number
end
local first_digits, first_digits_count = {}, 0

-- A whole number as text. Lua's own conversion is slow and loses digits beyond 14. Counters and times share their first
-- digits with the ones before them, so those digits are cached.
function numbers.text(number)
  local low = number % 1000
  local high = (number - low) / 1000
  if high == 0 then
    return low .. ''
  end
  local digits = first_digits[high]
  if not digits then
    digits = format('%.0f', high)
    if first_digits_count >= LIMITS.function_cache_max then
      first_digits, first_digits_count = {}, 0
    end
    first_digits[high] = digits
    first_digits_count = first_digits_count + 1
  end
  return digits .. LAST_DIGITS[low]
end

return numbers
