package sqlitestate

import "dappco.re/go/core/go-ratelimit/internal/state"

// knownDay is the day of a model as of the last Load or Store. The zero value is that of a
// model that the database does not have.
type knownDay struct {
	memory state.DayUsage // as it was in memory, whose counts are in the file
	file   state.DayUsage // as it is in the file, with the counts of others
}

// mergeDay works out the day to store from the one in memory and the one in the file, to
// which others may have added. now is in UnixNano.
func (c *Change) mergeDay(known knownDay, file state.DayUsage, now int64) state.DayUsage {
	if c.Forget && file.Generation == known.file.Generation {
		file = file.Plus(-known.file.Count, -known.file.Tokens)
		file.Generation++
	}
	// A day in memory that was written before has grown since, or shrunk where a reservation
	// was given back, or its start went back with the wall clock. Where it starts later and the
	// written one lasts, all of that was given back. Any other is new to the database.
	mine, written := c.Day, known.memory
	same := c.Continues && !c.Forget && (mine.Start <= written.Start || written.LastsIn(c.Zone, now))
	count, tokens := mine.Count-written.Count, mine.Tokens-written.Tokens
	switch {
	case !file.CurrentIn(c.Zone, now):
		if same && file.Empty() && known.file.CurrentIn(c.Zone, now) {
			// Somebody reset the model. What was written before stays forgotten.
			mine.Count, mine.Tokens = max(count, 0), max(tokens, 0)
		}
		mine.Generation = file.Generation + 1
		return mine
	case !mine.LastsIn(c.Zone, now) || mine.Empty() && !same:
		return file
	case !same:
		file = file.Plus(mine.Count, mine.Tokens)
		file.Start = min(file.Start, mine.Start)
		return file
	}
	if file.Generation != known.file.Generation {
		// What was written before is not in this day, and cannot be taken back.
		count, tokens = max(count, 0), max(tokens, 0)
	}
	file = file.Plus(count, tokens)
	switch {
	case mine.Start < written.Start:
		file.Start = min(file.Start, mine.Start)
	case file.Count == mine.Count && file.Tokens == mine.Tokens:
		file.Start = mine.Start // after all of it was given back, it began anew
	}
	return file
}
