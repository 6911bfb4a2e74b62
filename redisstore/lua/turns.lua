local TURN = SECOND / 50 -- how long the head of the turns may take

-- turns_of returns the processes that had to decide again, and wait in line for that: only the
-- first of them may decide, for as long as its turn lasts.
local function turns_of()
  local turns, ends = {}, nil
  for word in string.gmatch(line, '%S+') do
    if not ends then
      ends = tonumber(word)
    else
      turns[#turns + 1] = word
    end
  end
  if ends and (now > ends or ends - now > 2 * TURN) then
    table.remove(turns, 1)
    ends = now + TURN
  end
  local of = {}

  -- stand makes the line what it is now, and returns it.
  function of.stand()
    line = ''
    if #turns > 0 then
      line = text(ends) .. ' ' .. table.concat(turns, ' ')
    end
    return line
  end

  -- bars reports whether it is the turn of another process.
  function of.bars() return #turns > 0 and turns[1] ~= me end

  -- ahead returns the processes whose turn comes before mine, which gets in line.
  function of.ahead(queue)
    local before = {}
    for _, process in ipairs(turns) do
      if process == me then
        return table.concat(before, ' ')
      end
      before[#before + 1] = process
    end
    if (queue or #turns > 0) and #turns < 64 then
      if #turns == 0 then
        ends = now + TURN
      end
      turns[#turns + 1] = me
    end
    return table.concat(before, ' ')
  end

  function of.leave()
    for i, process in ipairs(turns) do
      if process == me then
        table.remove(turns, i)
        if i == 1 then
          ends = now + TURN
        end
        return
      end
    end
  end

  return of
end

