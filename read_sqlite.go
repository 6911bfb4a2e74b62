package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// maxRows is how many rows of one table are read. A file with more is not a
// minute of calls.
const maxRows = 20_000_000

// querier is a transaction.
type querier interface {
	Query(query string, args ...any) (*sql.Rows, error)
	QueryRow(query string, args ...any) *sql.Row
}

// rowReader reads everything in one transaction.
type rowReader struct {
	tx       querier
	snapshot *snapshot
	days     map[string]usageDay
	seen     rowids // of what was read
}

func (r *rowReader) read() error {
	r.snapshot = newSnapshot()
	r.days = make(map[string]usageDay)
	for _, table := range sqliteTables {
		if err := r.checkTypes(table); err != nil {
			return err
		}
	}
	for _, step := range []func() error{r.readQuotas, r.readRequests, r.readTokens, r.readDays, r.readCooldowns} {
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
	columns := slices.Concat(t.columns, t.added)
	for i, column := range columns {
		condition := fmt.Sprintf("typeof(%s) <> '%s'", column, columnType(column))
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
	return damaged("%s of %q: %s is %q, want %s", t.name, errtext.Clip(model), columns[i], errtext.Clip(found), columnType(columns[i]))
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
	return r.each("SELECT "+quotaColumns+" FROM quotas", func(rows *sql.Rows) error {
		var model string
		var q ModelQuota
		if err := rows.Scan(&model, &q.MaxRPM, &q.MaxTPM, &q.MaxRPD,
			&q.MaxITPM, &q.MaxOTPM, &q.MaxTPD, &q.MaxInFlight, &q.DayZone, (*int64)(&q.Burst)); err != nil {
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
	return r.each("SELECT model, ts, count, input FROM tokens", func(rows *sql.Rows) error {
		var model sql.RawBytes
		var ts int64
		var count, input int
		if err := rows.Scan(&model, &ts, &count, &input); err != nil {
			return damaged("tokens: %w", err)
		}
		if count < 0 {
			return damaged("tokens of %q: count is %d, want 0 or more", errtext.Clip(string(model)), count)
		}
		if input < 0 || input > count {
			return damaged("tokens of %q: input is %d, want between 0 and the count, %d", errtext.Clip(string(model)), input, count)
		}
		stats := r.stats(model)
		stats.Tokens = append(stats.Tokens, TokenEntry{Time: time.Unix(0, ts), Count: count, Input: input})
		return nil
	})
}

func (r *rowReader) readDays() error {
	return r.each("SELECT model, rowid, day_start, day_count, day_tokens FROM daily", func(rows *sql.Rows) error {
		var model string
		var rowid, start int64
		var count, tokens int
		if err := rows.Scan(&model, &rowid, &start, &count, &tokens); err != nil {
			return damaged("daily: %w", err)
		}
		if count < 0 {
			return damaged("daily of %q: day_count is %d, want 0 or more", errtext.Clip(model), count)
		}
		if tokens < 0 {
			return damaged("daily of %q: day_tokens is %d, want 0 or more", errtext.Clip(model), tokens)
		}
		stats := r.stats([]byte(model))
		stats.DayStart, stats.DayCount, stats.DayTokens = dayTime(start), count, tokens
		r.days[model] = usageDay{start: start, count: int64(count), tokens: int64(tokens), generation: generationOf(rowid)}
		return nil
	})
}

func (r *rowReader) readCooldowns() error {
	return r.each("SELECT model, until FROM cooldowns", func(rows *sql.Rows) error {
		var model string
		var until int64
		if err := rows.Scan(&model, &until); err != nil {
			return damaged("cooldowns: %w", err)
		}
		r.snapshot.cooldowns[model] = time.Unix(0, until)
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
