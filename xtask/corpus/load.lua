-- A load for an interpreter: words counted, sorted, and put together again.
local rounds = tonumber(arg[1])
local file = assert(io.open(arg[2]))
local text = file:read(60000)
local sum = 0
for turn = 1, rounds do
  local counts, words = {}, {}
  for word in text:gmatch("%l+") do
    if not counts[word] then words[#words + 1] = word end
    counts[word] = (counts[word] or 0) + turn
  end
  table.sort(words, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  for _, word in ipairs(words) do sum = (sum * 31 + #word * counts[word]) % 1000003 end
end
print(sum)
