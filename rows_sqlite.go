package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// rowsPerInsert is how many rows one statement inserts. More make a statement
// longer without making it faster per row.
const rowsPerInsert = 100

// rowWriter writes the changes of one transaction.
type rowWriter struct {
	tx                       *sql.Tx
	cutoff                   int64 // rows before this are deleted in passing
	requestsSeen, tokensSeen int64 // rows up to here are known to the limiter
	now                      int64
	requests, tokens         *rowInserter
	stmts                    map[string]*sql.Stmt
}

// begin finds where new rows go. Rowids must never come again, or a row of
// another process could pass for one that this limiter knew; SQLite itself gives
// them anew once the last rows are deleted. So they start at the time, in
// nanoseconds, which is past all that were given before.
func (w *rowWriter) begin() error {
	w.now = time.Now().UnixNano()
	requests, tokens, err := lastRows(w.tx)
	if err != nil {
		return err
	}
	w.requests = &rowInserter{tx: w.tx, head: "INSERT INTO requests (rowid, model, ts) VALUES ", columns: 3, next: max(requests+1, w.now)}
	w.tokens = &rowInserter{tx: w.tx, head: "INSERT INTO tokens (rowid, model, ts, count) VALUES ", columns: 4, next: max(tokens+1, w.now)}
	return nil
}

func (w *rowWriter) write(c *change) error {
	if err := w.clean(c); err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	if err := w.writeDay(c); err != nil {
		return fmt.Errorf("write day: %w", err)
	}
	for _, ts := range c.requests {
		if err := w.requests.add(c.model, ts); err != nil {
			return fmt.Errorf("write requests: %w", err)
		}
	}
	for _, row := range c.tokens {
		if err := w.tokens.add(c.model, row.at, row.count); err != nil {
			return fmt.Errorf("write tokens: %w", err)
		}
	}
	return nil
}

// clean deletes a model's rows that are long over, and the known ones where they
// are no longer true.
func (w *rowWriter) clean(c *change) error {
	if c.synced == nil && !c.forget {
		return nil
	}
	for _, table := range []struct {
		name string
		seen int64
	}{{"requests", w.requestsSeen}, {"tokens", w.tokensSeen}} {
		query, limit := "DELETE FROM "+table.name+" WHERE model = ? AND ts < ?", w.cutoff
		if c.forget {
			query, limit = "DELETE FROM "+table.name+" WHERE model = ? AND rowid <= ?", table.seen
		}
		if err := w.exec(query, c.model, limit); err != nil {
			return err
		}
	}
	return nil
}

// writeDay merges the day in memory with the one in the database.
func (w *rowWriter) writeDay(c *change) error {
	var start, count int64
	stmt, err := w.prepared(`SELECT day_start, day_count FROM daily WHERE model = ?`)
	if err != nil {
		return err
	}
	err = stmt.QueryRow(c.model).Scan(&start, &count)
	exists := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	c.mergeDay(start, count, exists, w.now)
	if c.fileCount == 0 && c.gone {
		return w.exec(`DELETE FROM daily WHERE model = ?`, c.model)
	}
	return w.exec(`INSERT OR REPLACE INTO daily (model, day_start, day_count) VALUES (?, ?, ?)`,
		c.model, c.fileStart, c.fileCount)
}

// prepared returns a statement that is prepared once for the transaction.
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

func (w *rowWriter) exec(query string, args ...any) error {
	stmt, err := w.prepared(query)
	if err != nil {
		return err
	}
	_, err = stmt.Exec(args...)
	return err
}

// finish writes what is still held back, deletes rows of models that nobody
// writes any more, and returns the last rowids.
func (w *rowWriter) finish() (requests, tokens int64, err error) {
	for _, t := range []struct {
		name string
		*rowInserter
	}{{"requests", w.requests}, {"tokens", w.tokens}} {
		if err := t.flush(); err != nil {
			return 0, 0, fmt.Errorf("write %s: %w", t.name, err)
		}
		// Twice as many as were added keeps the table from growing, and bounds
		// what one call costs by what it added. The oldest rows have the
		// smallest rowids.
		if _, err := w.tx.Exec("DELETE FROM "+t.name+" WHERE rowid IN (SELECT rowid FROM "+t.name+
			" ORDER BY rowid LIMIT ?) AND ts < ?", 2*t.added+256, w.cutoff); err != nil {
			return 0, 0, fmt.Errorf("clean %s: %w", t.name, err)
		}
	}
	return lastRows(w.tx)
}

func lastRows(tx *sql.Tx) (requests, tokens int64, err error) {
	err = tx.QueryRow(`SELECT (SELECT ifnull(max(rowid), 0) FROM requests), (SELECT ifnull(max(rowid), 0) FROM tokens)`).
		Scan(&requests, &tokens)
	return requests, tokens, err
}

// rowInserter gathers rows into statements of rowsPerInsert.
type rowInserter struct {
	tx      *sql.Tx
	head    string
	columns int
	next    int64 // the next rowid
	added   int
	args    []any
	full    *sql.Stmt
}

func (in *rowInserter) add(values ...any) error {
	in.args = append(append(in.args, in.next), values...)
	in.next++
	in.added++
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
}

func (r *rowReader) read() error {
	for _, step := range []func() error{r.checkTypes, r.quotas, r.requests, r.tokens, r.days} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checkTypes refuses values that are of another type than their column. SQLite
// stores any value anywhere, and the driver would convert some of them silently.
func (r *rowReader) checkTypes() error {
	for table, columns := range sqliteSchema {
		var wrong []string
		for column, kind := range columns {
			wrong = append(wrong, fmt.Sprintf("typeof(%s) <> '%s'", column, kind))
		}
		var model string
		err := r.tx.QueryRow("SELECT ifnull(substr(CAST(model AS TEXT), 1, 200), '') FROM " + table + " WHERE " +
			strings.Join(wrong, " OR ") + " LIMIT 1").Scan(&model)
		switch {
		case err == nil:
			return damaged("%s of %q: a value of the wrong type", table, clip(model))
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	return nil
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

// stats returns a model's entry. Rows come sorted by model, so that the last
// one's name needs no new string for each row.
func (r *rowReader) stats(model []byte, last *string) *UsageStats {
	if string(model) != *last {
		*last = string(model)
	}
	stats := r.snapshot.state[*last]
	if stats == nil {
		stats = &UsageStats{}
		r.snapshot.state[*last] = stats
	}
	return stats
}

func (r *rowReader) quotas() error {
	return r.each(`SELECT model, max_rpm, max_tpm, max_rpd FROM quotas`, func(rows *sql.Rows) error {
		var model string
		var q ModelQuota
		if err := rows.Scan(&model, &q.MaxRPM, &q.MaxTPM, &q.MaxRPD); err != nil {
			return damaged("quotas: %v", err)
		}
		if err := q.validate(model); err != nil {
			return damaged("quotas: %w", err)
		}
		r.snapshot.quotas[model] = q
		return nil
	})
}

func (r *rowReader) requests() error {
	var last string
	return r.each(`SELECT model, ts FROM requests ORDER BY model, ts`, func(rows *sql.Rows) error {
		var model sql.RawBytes
		var ts int64
		if err := rows.Scan(&model, &ts); err != nil {
			return damaged("requests: %v", err)
		}
		stats := r.stats(model, &last)
		stats.Requests = append(stats.Requests, time.Unix(0, ts))
		return nil
	})
}

func (r *rowReader) tokens() error {
	var last string
	return r.each(`SELECT model, ts, count FROM tokens ORDER BY model, ts`, func(rows *sql.Rows) error {
		var model sql.RawBytes
		var ts int64
		var count int
		if err := rows.Scan(&model, &ts, &count); err != nil {
			return damaged("tokens: %v", err)
		}
		if count < 0 {
			return damaged("tokens of %q: count is %d, want 0 or more", clip(string(model)), count)
		}
		stats := r.stats(model, &last)
		stats.Tokens = append(stats.Tokens, TokenEntry{Time: time.Unix(0, ts), Count: count})
		return nil
	})
}

func (r *rowReader) days() error {
	var last string
	return r.each(`SELECT model, day_start, day_count FROM daily`, func(rows *sql.Rows) error {
		var model sql.RawBytes
		var start int64
		var count int
		if err := rows.Scan(&model, &start, &count); err != nil {
			return damaged("daily: %v", err)
		}
		if count < 0 {
			return damaged("daily of %q: day_count is %d, want 0 or more", clip(string(model)), count)
		}
		stats := r.stats(model, &last)
		stats.DayStart, stats.DayCount = time.Unix(0, start), count
		return nil
	})
}
