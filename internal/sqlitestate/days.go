//go:build !nosqlite

package sqlitestate

import (
	"database/sql"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// learnDays reads the days that other processes have written since the last Load or Store, because
// the next Store has to know them. It skips empty days: they are as good as deleted ones, which
// nobody sees either.
func (w *writer) learnDays() error {
	w.foreign = make(map[string]state.DayUsage)
	if len(w.known.days) == 0 {
		return nil
	}
	return w.Each(func(rows *sql.Rows) error {
		var model string
		var rowid int64
		var file state.DayUsage
		if err := rows.Scan(&model, &rowid, &file.Start, &file.Count, &file.Tokens); err != nil {
			return Damaged("daily: %w", err)
		}
		if _, exists := w.known.days[model]; exists {
			file.Generation = generationOf(rowid)
			w.foreign[model] = file
		}
		return nil
	}, `SELECT model, rowid, day_start, day_count, day_tokens FROM daily
		WHERE rowid > ? AND (day_count <> 0 OR day_tokens <> 0)`, w.known.seen.daily)
}

// generations is the number of generations, after which they begin anew. Every write gives a day a
// new rowid, larger than all others, by which other processes find the days that have changed. The
// last bits of the rowid are the generation of the day: the schema has no other place for it.
const generations = 1 << 14

func generationOf(rowid int64) int64 { return rowid & (generations - 1) }

// writeDay merges the day in memory with the one in the database.
func (w *writer) writeDay(c *Change) error {
	var rowid int64
	var file state.DayUsage
	exists, err := w.row([]any{&rowid, &file.Start, &file.Count, &file.Tokens},
		"SELECT rowid, day_start, day_count, day_tokens FROM daily WHERE model = ?", c.Model)
	switch {
	case err != nil && Code(err) == 0: // a value that is no integer
		return Damaged("daily of %q: %w", errtext.Clip(c.Model), err)
	case err != nil:
		return err
	case exists:
		file.Generation = generationOf(rowid)
	default:
		// Others know one that was deleted, so it must not be 0 again.
		file.Generation = w.now / generations % generations
	}
	day := c.mergeDay(w.known.days[c.Model], file, w.now)
	w.written[c.Model] = day
	if c.Gone && !day.CurrentIn(c.Zone, w.now) {
		_, err := w.Exec("DELETE FROM daily WHERE model = ?", c.Model)
		return err
	}
	if exists && day == file {
		return nil
	}
	day.Generation %= generations
	w.written[c.Model] = day
	_, err = w.Exec("INSERT OR REPLACE INTO daily (rowid, model, day_start, day_count, day_tokens) VALUES (?, ?, ?, ?, ?)",
		w.next.daily+day.Generation, c.Model, day.Start, day.Count, day.Tokens)
	w.next.daily += generations
	return err
}
