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
		result, err := w.exec("INSERT OR "+verb+" INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES (?, ?, ?, ?)",
			model, quota.MaxRPM, quota.MaxTPM, quota.MaxRPD)
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

// learnDays reads the days that others wrote since this limiter last looked: the
// next Persist has to know what this one found there. A day without a count is
// as one that was deleted, which does not show.
func (w *rowWriter) learnDays(models map[string]*syncedModel) error {
	if len(models) == 0 {
		return nil
	}
	w.learned = make(map[*syncedModel]usageDay)
	rows, err := w.tx.Query("SELECT model, rowid, day_start, day_count FROM daily WHERE rowid > ? AND day_count <> 0", w.seen.daily)
	if err != nil {
		return fmt.Errorf("read days: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var model string
		var rowid int64
		var file usageDay
		if err := rows.Scan(&model, &rowid, &file.start, &file.count); err != nil {
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
		for _, t := range c.requests {
			if err := w.requests.add(c.model, unixNano(t)); err != nil {
				return fmt.Errorf("write requests: %w", err)
			}
		}
		for _, e := range c.tokens {
			if err := w.tokens.add(c.model, unixNano(e.Time), e.Count); err != nil {
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
	w.tokens = &rowInserter{tx: w.tx, head: "INSERT INTO tokens (rowid, model, ts, count) VALUES ", columns: 4, next: &w.next.tokens}
	return nil
}

// lastRows returns the largest rowids.
func lastRows(tx *sql.Tx) (last rowids, err error) {
	err = tx.QueryRow(`SELECT (SELECT ifnull(max(rowid), 0) FROM requests), (SELECT ifnull(max(rowid), 0) FROM tokens),
		(SELECT ifnull(max(rowid), 0) FROM daily)`).Scan(&last.requests, &last.tokens, &last.daily)
	return last, err
}

// sweep deletes what is long over. It looks at the oldest rows, and at twice as
// many as are to be added: that keeps the tables from growing, and bounds what
// it costs by what is new. Rows from the future are passed over, so that they
// are not in the way.
func (w *rowWriter) sweep(changes []*change) error {
	const least = 1000
	requests, tokens := least, least
	for _, c := range changes {
		requests += 2 * len(c.requests)
		tokens += 2 * len(c.tokens)
	}
	for _, t := range []struct {
		name, column string
		cutoff       int64
		most         int
	}{
		{"requests", "ts", w.cutoff, requests},
		{"tokens", "ts", w.cutoff, tokens},
		{"daily", "day_start", w.cutoff - day, least + 2*len(changes)},
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
	stmt, err := w.prepared("SELECT rowid, day_start, day_count FROM daily WHERE model = ?")
	if err != nil {
		return err
	}
	var rowid int64
	var file usageDay
	err = stmt.QueryRow(c.model).Scan(&rowid, &file.start, &file.count)
	exists := err == nil
	switch {
	case exists:
		file.generation = generationOf(rowid)
	case errors.Is(err, sql.ErrNoRows):
		// One that was deleted is known by others, so it must not be 0 again.
		file.generation = w.now / generations % generations
	case sqliteCode(err) == 0: // a value that is no integer
		return damaged("daily of %q: %w", clip(c.model), err)
	default:
		return err
	}
	c.file = c.mergeDay(file, w.now)
	if c.gone && !c.file.current(w.now) {
		_, err := w.exec("DELETE FROM daily WHERE model = ?", c.model)
		return err
	}
	if exists && c.file == file {
		return nil
	}
	c.file.generation %= generations
	_, err = w.exec("INSERT OR REPLACE INTO daily (rowid, model, day_start, day_count) VALUES (?, ?, ?, ?)",
		w.next.daily+c.file.generation, c.model, c.file.start, c.file.count)
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

// maxRows is how many rows of one table are read. A file with more is not a
// minute of calls.
const maxRows = 20_000_000

// rowReader reads everything in one transaction.
type rowReader struct {
	tx       *sql.Tx
	snapshot *snapshot
	days     map[string]usageDay
	seen     rowids // of what was read
}

func (r *rowReader) read() error {
	r.snapshot = &snapshot{quotas: make(map[string]ModelQuota), state: make(map[string]*UsageStats)}
	r.days = make(map[string]usageDay)
	for _, table := range sqliteTables {
		if err := r.checkTypes(table); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.readQuotas, r.readRequests, r.readTokens, r.readDays} {
		if err := step(); err != nil {
			return err
		}
	}
	var err error
	r.seen, err = lastRows(r.tx)
	return err
}

// checkTypes refuses values that are of another type than their column. SQLite
// stores any value anywhere, and the driver would convert some of them silently.
func (r *rowReader) checkTypes(t sqliteTable) error {
	var wrong, field, value strings.Builder
	for i, column := range t.columns {
		condition := fmt.Sprintf("typeof(%s) <> '%s'", column, columnType(i))
		if i > 0 {
			wrong.WriteString(" OR ")
		}
		wrong.WriteString(condition)
		fmt.Fprintf(&field, " WHEN %s THEN %d", condition, i)
		fmt.Fprintf(&value, " WHEN %s THEN typeof(%s) || ' ' || substr(CAST(ifnull(%[2]s, '') AS TEXT), 1, 100)", condition, column)
	}
	var model, found string
	var i int
	err := r.tx.QueryRow("SELECT substr(CAST(ifnull(model, '') AS TEXT), 1, 200), CASE"+field.String()+" END, CASE"+value.String()+
		" END FROM "+t.name+" WHERE "+wrong.String()+" LIMIT 1").Scan(&model, &i, &found)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return damaged("%s of %q: %s is %q, want %s", t.name, clip(model), t.columns[i], clip(found), columnType(i))
}

// each runs a query and visits its rows.
func (r *rowReader) each(query string, visit func(rows *sql.Rows) error) error {
	rows, err := r.tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			return damaged("more than %d rows", maxRows)
		}
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// stats returns a model's entry, without a string for its name where it has one
// already.
func (r *rowReader) stats(model []byte) *UsageStats {
	stats := r.snapshot.state[string(model)]
	if stats == nil {
		stats = &UsageStats{}
		r.snapshot.state[string(model)] = stats
	}
	return stats
}

func (r *rowReader) readQuotas() error {
	return r.each("SELECT model, max_rpm, max_tpm, max_rpd FROM quotas", func(rows *sql.Rows) error {
		var model string
		var q ModelQuota
		if err := rows.Scan(&model, &q.MaxRPM, &q.MaxTPM, &q.MaxRPD); err != nil {
			return damaged("quotas: %w", err)
		}
		if err := q.validate(model); err != nil {
			return damaged("quotas: %w", err)
		}
		r.snapshot.quotas[model] = q
		return nil
	})
}

func (r *rowReader) readRequests() error {
	return r.each("SELECT model, ts FROM requests", func(rows *sql.Rows) error {
		var model sql.RawBytes
		var ts int64
		if err := rows.Scan(&model, &ts); err != nil {
			return damaged("requests: %w", err)
		}
		stats := r.stats(model)
		stats.Requests = append(stats.Requests, time.Unix(0, ts))
		return nil
	})
}

func (r *rowReader) readTokens() error {
	return r.each("SELECT model, ts, count FROM tokens", func(rows *sql.Rows) error {
		var model sql.RawBytes
		var ts int64
		var count int
		if err := rows.Scan(&model, &ts, &count); err != nil {
			return damaged("tokens: %w", err)
		}
		if count < 0 {
			return damaged("tokens of %q: count is %d, want 0 or more", clip(string(model)), count)
		}
		stats := r.stats(model)
		stats.Tokens = append(stats.Tokens, TokenEntry{Time: time.Unix(0, ts), Count: count})
		return nil
	})
}

func (r *rowReader) readDays() error {
	return r.each("SELECT model, rowid, day_start, day_count FROM daily", func(rows *sql.Rows) error {
		var model string
		var rowid, start int64
		var count int
		if err := rows.Scan(&model, &rowid, &start, &count); err != nil {
			return damaged("daily: %w", err)
		}
		if count < 0 {
			return damaged("daily of %q: day_count is %d, want 0 or more", clip(model), count)
		}
		stats := r.stats([]byte(model))
		stats.DayStart, stats.DayCount = dayTime(start), count
		r.days[model] = usageDay{start, int64(count), generationOf(rowid)}
		return nil
	})
}

// dayTime is the reverse of unixNano, which stores the zero time, where a model
// was never used, as the first instant that there is.
func dayTime(nanos int64) time.Time {
	if nanos == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
