//go:build !nosqlite

package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

const ledgerColumns = `process, n, kind, ref, model, wall, mono, age, requests, input, output,
	has_day, day_start, day_count, day_tokens, text`

// eventsAfter reads the events behind a place of the ledger, in order.
func (s *statements) eventsAfter(seq int64, visit func(*event)) error {
	return s.each(func(rows *sql.Rows) error {
		var e event
		var requests, input, output int64
		if err := rows.Scan(&e.seq, &e.process, &e.n, &e.kind, &e.ref, &e.model, &e.wall, &e.mono, &e.age, &requests, &input, &output,
			&e.hasDay, &e.day.start, &e.day.count, &e.day.tokens, &e.text); err != nil {
			if sqliteCode(err) == 0 {
				err = damaged("ledger: %w", err)
			}
			return err
		}
		if err := e.check(); err != nil {
			return err
		}
		e.requests = saturatedInt(requests)
		e.Count = tokens.Count{Input: saturatedInt(input), Output: saturatedInt(output)}.Clamp()
		e.day.count, e.day.tokens = max(e.day.count, 0), max(e.day.tokens, 0)
		visit(&e)
		return nil
	}, "SELECT seq, "+ledgerColumns+" FROM ledger WHERE seq > ? ORDER BY seq", seq)
}

// newsSince reads the events behind a place of the ledger, in order. They are complete
// unless some of them have been deleted: each has the place that follows that of the one
// before it.
func (s *statements) newsSince(seq int64) (news []*event, complete bool, err error) {
	complete = true
	err = s.eventsAfter(seq, func(e *event) {
		seq++
		complete = complete && e.seq == seq
		news = append(news, e)
	})
	return news, complete, err
}

// write stores an event, with what it changes in the other tables.
func (s *statements) write(e *event, seq int64) error {
	if _, err := s.exec("INSERT INTO ledger (seq, "+ledgerColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		seq, e.process, e.n, int64(e.kind), e.ref, e.model, e.wall, e.mono, e.age, e.requests, e.Input, e.Output,
		e.hasDay, e.day.start, e.day.count, e.day.tokens, e.text); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	var err error
	switch e.kind {
	case eventReset:
		err = s.forget(e.model)
	case eventCooldown:
		_, err = s.exec(`INSERT INTO cooldowns (model, until) VALUES (?, ?)
			ON CONFLICT (model) DO UPDATE SET until = max(until, excluded.until)`, e.model, e.wall)
	case eventQuota:
		var q ModelQuota
		if q, err = quotaOf(e.text); err == nil {
			_, err = s.exec("INSERT OR REPLACE INTO quotas ("+quotaColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				e.model, q.MaxRPM, q.MaxTPM, q.MaxRPD, q.MaxITPM, q.MaxOTPM, q.MaxTPD, q.MaxInFlight, q.DayZone, int64(q.Burst))
		}
	case eventGone:
		_, err = s.exec("DELETE FROM processes WHERE id = ?", e.ref)
	}
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

// fold brings the table daily up to the last of the events that count no more. An event
// says what the day is after it, so the table need not be written with each of them,
// which would be a page more every time: it is for when the events are deleted. Those
// that another process has folded are left alone, because what came after them may have
// been deleted.
func (s *statements) fold(passed []*event) error {
	if len(passed) == 0 {
		return nil
	}
	folded, err := s.fact(factFolded)
	if err != nil {
		return err
	}
	last := make(map[string]*event)
	for _, e := range passed {
		switch {
		case e.seq <= folded:
		case e.kind == eventReset:
			if e.model == "" {
				clear(last)
			} else {
				delete(last, e.model)
			}
			if err := s.forgetIn("daily", e.model); err != nil {
				return err
			}
		case e.hasDay:
			last[e.model] = e
		}
	}
	for model, e := range last {
		if err := s.writeDay(model, e.day); err != nil {
			return err
		}
	}
	if to := passed[len(passed)-1].seq; to > folded {
		return s.setFact(factFolded, strconv.FormatInt(to, 10))
	}
	return nil
}

// fact returns a fact that is an integer.
func (s *statements) fact(name string) (int64, error) {
	return s.number("SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?", name)
}

// foldDays brings the days that were read from the table daily up to the last event.
func (img *image) foldDays() {
	folded := factInt(img.facts, factFolded)
	for _, e := range img.events {
		switch {
		case e.seq <= folded: // it is there only because it is still in force
		case e.kind == eventReset && e.model == "":
			clear(img.state)
		case e.kind == eventReset:
			delete(img.state, e.model)
		case e.hasDay:
			img.state[e.model] = &UsageStats{
				DayStart: dayTime(e.day.start), DayCount: saturatedInt(e.day.count), DayTokens: saturatedInt(e.day.tokens),
			}
		}
	}
}

func (s *statements) writeDay(model string, d usageDay) error {
	_, err := s.exec(`INSERT INTO daily (model, day_start, day_count, day_tokens) VALUES (?, ?, ?, ?)
		ON CONFLICT (model) DO UPDATE SET
		day_start = excluded.day_start, day_count = excluded.day_count, day_tokens = excluded.day_tokens`,
		model, d.start, d.count, d.tokens)
	return err
}

// forget deletes what is known of a model beside the ledger; of all where it is empty.
func (s *statements) forget(model string) error {
	if err := s.forgetIn("daily", model); err != nil {
		return err
	}
	return s.forgetIn("cooldowns", model)
}

func (s *statements) forgetIn(table, model string) (err error) {
	if model == "" {
		_, err = s.exec("DELETE FROM " + table)
	} else {
		_, err = s.exec("DELETE FROM "+table+" WHERE model = ?", model)
	}
	return err
}

// endCooldowns deletes the cooldowns of the names that match. A cooldown stays in the table under
// the name that its model had when it was written, which may stand for another since.
func (s *statements) endCooldowns(matches func(name string) bool) error {
	var names []string
	err := s.each(func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return damaged("cooldowns: %w", err)
		}
		if matches(name) {
			names = append(names, name)
		}
		return nil
	}, "SELECT model FROM cooldowns")
	for _, name := range names {
		err = errors.Join(err, s.forgetIn("cooldowns", name))
	}
	return err
}

// drop deletes the events from one place of the ledger to another.
func (s *statements) drop(from, to int64) error {
	_, err := s.exec("DELETE FROM ledger WHERE seq >= ? AND seq <= ?", from, to)
	return err
}

// sweep deletes some of the days and cooldowns that are long over.
func (s *statements) sweep(now int64) error {
	const most = 1000
	if _, err := s.exec("DELETE FROM daily WHERE rowid IN (SELECT rowid FROM daily WHERE day_start < ? LIMIT ?)",
		now-clock.LongestDay-day, most); err != nil {
		return err
	}
	_, err := s.exec("DELETE FROM cooldowns WHERE rowid IN (SELECT rowid FROM cooldowns WHERE until < ? LIMIT ?)",
		now-day, most)
	return err
}

// renew says that a process is alive, and how long that holds.
func (s *statements) renew(process, wall, mono int64, ttl time.Duration) error {
	_, err := s.exec("INSERT OR REPLACE INTO processes (id, lease, lease_mono, ttl) VALUES (?, ?, ?, ?)",
		process, wall, mono, int64(ttl))
	return err
}

// vouch is renew for another process, unless it has said something itself.
func (s *statements) vouch(process, wall, mono int64, ttl time.Duration) error {
	_, err := s.exec("INSERT OR IGNORE INTO processes (id, lease, lease_mono, ttl) VALUES (?, ?, ?, ?)",
		process, wall, mono, int64(ttl))
	return err
}

// lease is what a process said last of itself.
type lease struct {
	process    int64
	wall, mono int64 // when
	ttl        int64 // how long it holds, in nanoseconds
}

func (s *statements) leases() (leases []lease, err error) {
	err = s.each(func(rows *sql.Rows) error {
		var l lease
		if err := rows.Scan(&l.process, &l.wall, &l.mono, &l.ttl); err != nil {
			return damaged("processes: %w", err)
		}
		leases = append(leases, l)
		return nil
	}, "SELECT id, lease, lease_mono, ttl FROM processes")
	return leases, err
}

func (s *statements) facts() (facts map[string]string, err error) {
	facts = make(map[string]string)
	err = s.each(func(rows *sql.Rows) error {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return damaged("facts: %w", err)
		}
		facts[name] = value
		return nil
	}, "SELECT name, value FROM facts")
	return facts, err
}

func (s *statements) setFact(name, value string) error {
	_, err := s.exec("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", name, value)
	return err
}

// factInt reads a fact that is an integer; one that is not is as good as none.
func factInt(facts map[string]string, name string) int64 {
	n, err := strconv.ParseInt(facts[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// image is the whole content of the file.
type image struct {
	*snapshot // the usage of which is that of the days alone
	events    []*event
	leases    []lease
	facts     map[string]string
}

// readAll reads the whole file, within a transaction.
func (s *statements) readAll() (*image, error) {
	r := &rowReader{tx: s, snapshot: newSnapshot(), days: make(map[string]usageDay)}
	for _, table := range sqliteTables {
		if slices.Contains([]string{"quotas", "daily", "cooldowns"}, table.name) {
			if err := r.checkTypes(table); err != nil {
				return nil, err
			}
		}
	}
	for _, step := range []func() error{r.readQuotas, r.readDays, r.readCooldowns} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	img := &image{snapshot: r.snapshot}
	var err error
	if img.facts, err = s.facts(); err != nil {
		return nil, err
	}
	if img.leases, err = s.leases(); err != nil {
		return nil, err
	}
	err = s.eventsAfter(-1, func(e *event) { img.events = append(img.events, e) })
	if len(img.events) > maxRows {
		return nil, damaged("more than %d rows", maxRows)
	}
	if err != nil {
		return nil, err
	}
	// The last event is never deleted, so that the places behind it are known.
	if folded := factInt(img.facts, factFolded); folded > 0 && (len(img.events) == 0 || folded > img.events[len(img.events)-1].seq) {
		return nil, damaged("facts: the days are those after event %d, which is not there yet", folded)
	}
	img.foldDays()
	return img, nil
}
