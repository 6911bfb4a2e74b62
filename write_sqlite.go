package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// rowsPerInsert is how many rows one statement inserts. More make a statement
// longer without making it faster per row.
const rowsPerInsert = 100

// rowWriter writes in one transaction.
type rowWriter struct {
	tx      *sql.Tx
	now     int64
	cutoff  int64  // rows before this are deleted in passing
	seen    rowids // as known to the limiter; after write, all there are
	learned map[*syncedModel]usageDay

	next             rowids
	requests, tokens *rowInserter
	stmts            map[string]*sql.Stmt
}

// quotaColumns are those of the table quotas, in the order of ModelQuota.
const quotaColumns = "model, max_rpm, max_tpm, max_rpd, max_itpm, max_otpm, max_tpd, max_in_flight, day_zone, burst"

// writeQuotas stores the quotas that differ from those that the database is
// known to hold, and returns which it then holds. Of a model that it is not
// known to have a quota for, one that the program did not say itself is stored
// only where others stored none. A quota out of range is left as it is there,
// because no Load would accept it.
func (w *rowWriter) writeQuotas(known, quotas, supplied map[string]ModelQuota) (map[string]ModelQuota, error) {
	written := maps.Clone(known)
	if written == nil {
		written = make(map[string]ModelQuota, len(quotas))
	}
	for _, model := range slices.Sorted(maps.Keys(quotas)) {
		quota := quotas[model]
		was, exists := known[model]
		if exists && was == quota || quota.validate(model) != nil {
			continue
		}
		verb := "REPLACE"
		if s, ok := supplied[model]; ok && s == quota && !exists {
			verb = "IGNORE"
		}
		result, err := w.exec("INSERT OR "+verb+" INTO quotas ("+quotaColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			model, quota.MaxRPM, quota.MaxTPM, quota.MaxRPD,
			quota.MaxITPM, quota.MaxOTPM, quota.MaxTPD, quota.MaxInFlight, quota.DayZone, int64(quota.Burst))
		if err != nil {
			return nil, fmt.Errorf("write quotas: %w", err)
		}
		if n, err := result.RowsAffected(); err == nil && n > 0 {
			written[model] = quota
		}
	}
	for model := range known {
		if _, exists := quotas[model]; exists {
			continue
		}
		delete(written, model)
		if _, err := w.exec("DELETE FROM quotas WHERE model = ?", model); err != nil {
			return nil, fmt.Errorf("write quotas: %w", err)
		}
	}
	return written, nil
}

// dropCooldowns deletes the cooldowns that are over.
func (w *rowWriter) dropCooldowns() error {
	if _, err := w.tx.Exec("DELETE FROM cooldowns WHERE until <= ?", w.now); err != nil {
		return fmt.Errorf("drop cooldowns: %w", err)
	}
	return nil
}

// writeCooldowns stores the cooldowns that differ from those that the database
// is known to hold, and returns which are known then. Of two for a model the
// later stays. One that is known and gone from memory was reset, as was one that
// is earlier in memory; it goes, unless others have written a later one.
func (w *rowWriter) writeCooldowns(known map[string]int64, cooldowns map[string]time.Time) (map[string]int64, error) {
	for _, model := range slices.Sorted(maps.Keys(known)) {
		if until, exists := cooldowns[model]; exists && clock.UnixNano(until) >= known[model] {
			continue
		}
		if _, err := w.exec("DELETE FROM cooldowns WHERE model = ? AND until <= ?", model, known[model]); err != nil {
			return nil, fmt.Errorf("write cooldowns: %w", err)
		}
	}
	written := make(map[string]int64, len(cooldowns))
	for _, model := range slices.Sorted(maps.Keys(cooldowns)) {
		until := clock.UnixNano(cooldowns[model])
		written[model] = until
		if was, exists := known[model]; exists && was == until {
			continue
		}
		if _, err := w.exec(`INSERT INTO cooldowns (model, until) VALUES (?, ?)
			ON CONFLICT (model) DO UPDATE SET until = max(until, excluded.until)`, model, until); err != nil {
			return nil, fmt.Errorf("write cooldowns: %w", err)
		}
	}
	return written, nil
}

// learnDays reads the days that others wrote since this limiter last looked: the
// next Persist has to know what this one found there. A day without anything is
// as one that was deleted, which does not show.
func (w *rowWriter) learnDays(models map[string]*syncedModel) error {
	if len(models) == 0 {
		return nil
	}
	w.learned = make(map[*syncedModel]usageDay)
	rows, err := w.tx.Query(`SELECT model, rowid, day_start, day_count, day_tokens FROM daily
		WHERE rowid > ? AND (day_count <> 0 OR day_tokens <> 0)`, w.seen.daily)
	if err != nil {
		return fmt.Errorf("read days: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var model string
		var rowid int64
		var file usageDay
		if err := rows.Scan(&model, &rowid, &file.start, &file.count, &file.tokens); err != nil {
			return damaged("daily: %w", err)
		}
		if synced := models[model]; synced != nil {
			file.generation = generationOf(rowid)
			w.learned[synced] = file
		}
	}
	return rows.Err()
}

// generations is how many there are before they begin anew. Every writing gives
// a day a new rowid, larger than all others, so that those who have seen the
// database find what is new; its last bits are the generation. The schema has no
// other place for these two.
const generations = 1 << 14

func generationOf(rowid int64) int64 { return rowid & (generations - 1) }

// write stores the changes.
func (w *rowWriter) write(changes []*change) error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.sweep(changes); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, c := range changes {
		if c.forget {
			if err := w.forget(c.model); err != nil {
				return fmt.Errorf("forget: %w", err)
			}
		}
		if err := w.writeDay(c); err != nil {
			return fmt.Errorf("write day: %w", err)
		}
		if err := w.writeFixes(c); err != nil {
			return fmt.Errorf("correct: %w", err)
		}
		for _, t := range c.requests.Added {
			if err := w.requests.add(c.model, clock.UnixNano(t)); err != nil {
				return fmt.Errorf("write requests: %w", err)
			}
		}
		for _, e := range c.tokens.Added {
			if err := w.tokens.add(c.model, clock.UnixNano(e.Time), e.Count, min(max(e.Input, 0), e.Count)); err != nil {
				return fmt.Errorf("write tokens: %w", err)
			}
		}
	}
	if err := w.requests.flush(); err != nil {
		return fmt.Errorf("write requests: %w", err)
	}
	if err := w.tokens.flush(); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	var err error
	w.seen, err = lastRows(w.tx)
	return err
}

// begin finds where new rows go. Rowids must never come again, or a row of
// others could pass for one that this limiter has seen; SQLite itself gives them
// anew once the last rows are deleted. So they start at the time, in
// nanoseconds, which is past all that were given before.
func (w *rowWriter) begin() error {
	last, err := lastRows(w.tx)
	if err != nil {
		return err
	}
	if max(last.requests, last.tokens, last.daily) > math.MaxInt64-1<<40 {
		return damaged("the rowids are used up")
	}
	w.next = rowids{max(last.requests+1, w.now), max(last.tokens+1, w.now), max(last.daily+1, w.now)}
	w.next.daily += generations - w.next.daily%generations
	w.requests = &rowInserter{tx: w.tx, head: "INSERT INTO requests (rowid, model, ts) VALUES ", columns: 3, next: &w.next.requests}
	w.tokens = &rowInserter{tx: w.tx, head: "INSERT INTO tokens (rowid, model, ts, count, input) VALUES ", columns: 5, next: &w.next.tokens}
	return nil
}

// lastRows returns the largest rowids.
func lastRows(tx querier) (last rowids, err error) {
	err = tx.QueryRow(`SELECT (SELECT ifnull(max(rowid), 0) FROM requests), (SELECT ifnull(max(rowid), 0) FROM tokens),
		(SELECT ifnull(max(rowid), 0) FROM daily)`).Scan(&last.requests, &last.tokens, &last.daily)
	return last, err
}

// writeFixes changes rows that were written earlier. They are found by what is in
// them: rows of the same content are alike, whoever wrote them.
func (w *rowWriter) writeFixes(c *change) error {
	for _, fix := range c.requests.Corrected {
		ts := clock.UnixNano(fix.Value)
		if !fix.Added {
			if _, err := w.exec(`DELETE FROM requests WHERE rowid =
				(SELECT rowid FROM requests WHERE model = ? AND ts = ? LIMIT 1)`, c.model, ts); err != nil {
				return err
			}
			continue
		}
		if _, err := w.exec("INSERT INTO requests (rowid, model, ts) VALUES (?, ?, ?)", w.next.requests, c.model, ts); err != nil {
			return err
		}
		w.next.requests++
	}
	for _, fix := range c.tokens.Corrected {
		ts, count, input := clock.UnixNano(fix.Value.Time), fix.Value.Count, fix.Value.Input
		if !fix.Added {
			if _, err := w.exec(`DELETE FROM tokens WHERE rowid =
				(SELECT rowid FROM tokens WHERE model = ? AND ts = ? AND count = ? AND input = ? LIMIT 1)`,
				c.model, ts, count, input); err != nil {
				return err
			}
			continue
		}
		if _, err := w.exec("INSERT INTO tokens (rowid, model, ts, count, input) VALUES (?, ?, ?, ?, ?)",
			w.next.tokens, c.model, ts, count, input); err != nil {
			return err
		}
		w.next.tokens++
	}
	return nil
}

// sweep deletes what is long over. It looks at the oldest rows, and at twice as
// many as are to be added: that keeps the tables from growing, and bounds what
// it costs by what is new. Rows from the future are passed over, so that they
// are not in the way.
func (w *rowWriter) sweep(changes []*change) error {
	const least = 1000
	requests, tokens := least, least
	for _, c := range changes {
		requests += 2 * len(c.requests.Added)
		tokens += 2 * len(c.tokens.Added)
	}
	for _, t := range []struct {
		name, column string
		cutoff       int64
		most         int
	}{
		{"requests", "ts", w.cutoff, requests},
		{"tokens", "ts", w.cutoff, tokens},
		{"daily", "day_start", w.cutoff - clock.LongestDay, least + 2*len(changes)},
	} {
		if _, err := w.tx.Exec("DELETE FROM "+t.name+" WHERE rowid IN (SELECT rowid FROM "+t.name+" WHERE "+t.column+
			" <= ? ORDER BY rowid LIMIT ?) AND "+t.column+" < ?", w.now, t.most, t.cutoff); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes the rows of a model that this limiter has seen.
func (w *rowWriter) forget(model string) error {
	if _, err := w.exec("DELETE FROM requests WHERE model = ? AND rowid <= ?", model, w.seen.requests); err != nil {
		return err
	}
	_, err := w.exec("DELETE FROM tokens WHERE model = ? AND rowid <= ?", model, w.seen.tokens)
	return err
}

// writeDay merges the day in memory with the one in the database.
func (w *rowWriter) writeDay(c *change) error {
	stmt, err := w.prepared("SELECT rowid, day_start, day_count, day_tokens FROM daily WHERE model = ?")
	if err != nil {
		return err
	}
	var rowid int64
	var file usageDay
	err = stmt.QueryRow(c.model).Scan(&rowid, &file.start, &file.count, &file.tokens)
	exists := err == nil
	switch {
	case exists:
		file.generation = generationOf(rowid)
	case errors.Is(err, sql.ErrNoRows):
		// One that was deleted is known by others, so it must not be 0 again.
		file.generation = w.now / generations % generations
	case sqliteCode(err) == 0: // a value that is no integer
		return damaged("daily of %q: %w", errtext.Clip(c.model), err)
	default:
		return err
	}
	c.file = c.mergeDay(file, w.now)
	if c.gone && !c.file.currentIn(c.zone, w.now) {
		_, err := w.exec("DELETE FROM daily WHERE model = ?", c.model)
		return err
	}
	if exists && c.file == file {
		return nil
	}
	c.file.generation %= generations
	_, err = w.exec("INSERT OR REPLACE INTO daily (rowid, model, day_start, day_count, day_tokens) VALUES (?, ?, ?, ?, ?)",
		w.next.daily+c.file.generation, c.model, c.file.start, c.file.count, c.file.tokens)
	w.next.daily += generations
	return err
}

// exec runs a statement that is prepared once for the transaction.
func (w *rowWriter) exec(query string, args ...any) (sql.Result, error) {
	stmt, err := w.prepared(query)
	if err != nil {
		return nil, err
	}
	return stmt.Exec(args...)
}

func (w *rowWriter) prepared(query string) (*sql.Stmt, error) {
	if stmt := w.stmts[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.tx.Prepare(query)
	if err != nil {
		return nil, err
	}
	if w.stmts == nil {
		w.stmts = make(map[string]*sql.Stmt)
	}
	w.stmts[query] = stmt
	return stmt, nil
}

// rowInserter gathers rows into statements of rowsPerInsert.
type rowInserter struct {
	tx      *sql.Tx
	head    string
	columns int
	next    *int64 // the next rowid
	args    []any
	full    *sql.Stmt
}

func (in *rowInserter) add(values ...any) error {
	in.args = append(append(in.args, *in.next), values...)
	*in.next++
	if len(in.args) < rowsPerInsert*in.columns {
		return nil
	}
	if in.full == nil {
		var err error
		if in.full, err = in.tx.Prepare(in.query(rowsPerInsert)); err != nil {
			return err
		}
	}
	_, err := in.full.Exec(in.args...)
	in.args = in.args[:0]
	return err
}

func (in *rowInserter) query(rows int) string {
	row := "(?" + strings.Repeat(", ?", in.columns-1) + ")"
	return in.head + row + strings.Repeat(", "+row, rows-1)
}

// flush inserts the rest. The transaction closes the statement.
func (in *rowInserter) flush() error {
	if len(in.args) == 0 {
		return nil
	}
	_, err := in.tx.Exec(in.query(len(in.args)/in.columns), in.args...)
	in.args = in.args[:0]
	return err
}
