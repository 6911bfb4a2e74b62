//go:build !nosqlite

package sqlitestate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// writer writes an Update in one transaction.
type writer struct {
	*Statements
	now    int64     // in UnixNano
	cutoff int64     // rows before this, in UnixNano, are deleted in passing
	known  knowledge // as before the transaction

	next             rowids
	requests, tokens *inserter

	// The knowledge of the DB after the transaction.
	quotas    map[string]state.Quota
	said      map[string]state.Said
	cooldowns map[string]state.Cooldown
	answers   map[string]string
	found     map[string]string
	pools     map[string]string
	foreign   map[string]state.DayUsage // days that others wrote
	written   map[string]state.DayUsage // days as they are in the file
	seen      rowids
}

// update writes all of an update.
func (w *writer) update(u *Update) error {
	if err := w.writeQuotas(u); err != nil {
		return fmt.Errorf("write quotas: %w", err)
	}
	for _, table := range []*Table{cooldownsTable, causesTable} {
		if _, err := w.Exec("DELETE FROM "+table.Name+" WHERE until <= ?", w.now); err != nil {
			return fmt.Errorf("drop cooldowns: %w", err)
		}
	}
	if err := w.writeCooldowns(u); err != nil {
		return fmt.Errorf("write cooldowns: %w", err)
	}
	w.answers, w.found = textsOf(u.Answers, state.AnswersText), textsOf(u.Found, state.FoundText)
	if err := w.writeTexts(answersTable, w.known.answers, w.answers); err != nil {
		return fmt.Errorf("write answers: %w", err)
	}
	if err := w.writeTexts(foundTable, w.known.found, w.found); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	if err := w.writePools(textsOf(u.Pools, state.PoolText)); err != nil {
		return fmt.Errorf("write pools: %w", err)
	}
	for _, account := range slices.Sorted(maps.Keys(u.Spend)) {
		if err := w.AddSpend(account, u.Spend[account]); err != nil {
			return fmt.Errorf("write spend: %w", err)
		}
	}
	if err := w.sweepSpend(w.cutoff, 1000+2*len(u.Spend)); err != nil {
		return fmt.Errorf("sweep spend: %w", err)
	}
	if err := w.learnDays(); err != nil {
		return err
	}
	return w.write(u.Changes)
}

// learned returns the knowledge of the DB after the transaction.
func (w *writer) learned(changes []*Change) knowledge {
	days := w.known.days
	if days == nil {
		days = make(map[string]knownDay)
	}
	for model, file := range w.foreign {
		days[model] = knownDay{memory: days[model].memory, file: file}
	}
	for _, c := range changes {
		if c.Gone {
			delete(days, c.Model)
		} else {
			days[c.Model] = knownDay{memory: c.Day, file: w.written[c.Model]}
		}
	}
	return knowledge{
		quotas: w.quotas, said: w.said, answers: w.answers, found: w.found, pools: w.pools, cooldowns: w.cooldowns, days: days, seen: w.seen,
	}
}

// writeQuotas stores the quotas that differ from those that the database is known to hold.
// Of a model that it is not known to have a quota for, one that the program did not say
// itself is stored only where others stored none. A quota out of range is left as it is
// there, because no Load would accept it. Where a quota comes from is written with it, or when
// only that has changed.
func (w *writer) writeQuotas(u *Update) error {
	w.quotas, w.said = maps.Clone(w.known.quotas), maps.Clone(w.known.said)
	if w.quotas == nil {
		w.quotas = make(map[string]state.Quota, len(u.Quotas))
	}
	if w.said == nil {
		w.said = make(map[string]state.Said, len(u.Quotas))
	}
	for _, model := range slices.Sorted(maps.Keys(u.Quotas)) {
		if err := w.writeQuota(model, u.Quotas[model], u.Said[model], u.Supplied[model]); err != nil {
			return err
		}
	}
	for model := range w.known.quotas {
		if _, exists := u.Quotas[model]; exists {
			continue
		}
		delete(w.quotas, model)
		delete(w.said, model)
		if err := w.DropQuota(model); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeQuota(model string, q state.Quota, said state.Said, supplied bool) error {
	was, exists := w.known.quotas[model]
	same := exists && was == q
	if same && w.known.said[model] == said || q.Validate(model) != nil || said.Validate(model) != nil {
		return nil
	}
	if !same {
		put := w.PutQuota
		if supplied && !exists {
			put = w.addQuota
		}
		if stored, err := put(model, q); err != nil || !stored {
			return err
		}
	}
	w.quotas[model], w.said[model] = q, said
	return w.PutSaid(model, said)
}

// writeCooldowns stores the cooldowns that differ from those that the database is known to
// hold. Of two for a model the later stays. One that is known and gone from memory was
// reset, as was one that is earlier in memory, or ends at the same time for another cause; it
// goes, unless others have written a later one.
func (w *writer) writeCooldowns(u *Update) error {
	for _, model := range slices.Sorted(maps.Keys(w.known.cooldowns)) {
		was := w.known.cooldowns[model]
		if is, exists := u.Cooldowns[model]; exists && (is.Same(was) || clock.UnixNano(is.Until) > clock.UnixNano(was.Until)) {
			continue
		}
		if _, err := w.Exec("DELETE FROM cooldowns WHERE model = ? AND until <= ?", model, clock.UnixNano(was.Until)); err != nil {
			return err
		}
	}
	w.cooldowns = make(map[string]state.Cooldown, len(u.Cooldowns))
	for _, model := range slices.Sorted(maps.Keys(u.Cooldowns)) {
		is := u.Cooldowns[model]
		w.cooldowns[model] = is
		if was, exists := w.known.cooldowns[model]; exists && was.Same(is) {
			continue
		}
		if err := w.PutCooldown(model, is); err != nil {
			return err
		}
	}
	return nil
}

// textsOf returns values as databases store them.
func textsOf[T any](values map[string]T, text func(T) string) map[string]string {
	texts := make(map[string]string, len(values))
	for model, is := range values {
		texts[model] = text(is)
	}
	return texts
}

// writeTexts brings a table of models and texts up to date, of which something is known: it stores
// what differs, and deletes the models that memory has forgotten.
func (w *writer) writeTexts(t *Table, known, texts map[string]string) error {
	for _, model := range slices.Sorted(maps.Keys(texts)) {
		if was, exists := known[model]; exists && was == texts[model] {
			continue
		}
		if _, err := w.Exec(t.InsertInto("INSERT OR REPLACE"), model, texts[model]); err != nil {
			return err
		}
	}
	for _, model := range slices.Sorted(maps.Keys(known)) {
		if _, exists := texts[model]; exists {
			continue
		}
		if _, err := w.Exec("DELETE FROM "+t.Name+" WHERE model = ?", model); err != nil {
			return err
		}
	}
	return nil
}

// writePools stores the members of pools that differ from those that the database is known to hold.
func (w *writer) writePools(pools map[string]string) error {
	w.pools = pools
	for pool, members := range pools {
		if was, exists := w.known.pools[pool]; !exists || was != members {
			if err := w.putPool(pool, members); err != nil {
				return err
			}
		}
	}
	for pool := range w.known.pools {
		if _, exists := pools[pool]; !exists {
			if err := w.DropPool(pool); err != nil {
				return err
			}
		}
	}
	return nil
}

// write stores the changes.
func (w *writer) write(changes []*Change) error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.sweep(changes); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	w.written = make(map[string]state.DayUsage, len(changes))
	for _, c := range changes {
		if err := w.writeChange(c); err != nil {
			return err
		}
	}
	if err := w.requests.flush(); err != nil {
		return fmt.Errorf("write requests: %w", err)
	}
	if err := w.tokens.flush(); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	var err error
	w.seen, err = w.lastRows()
	return err
}

func (w *writer) writeChange(c *Change) error {
	if c.Forget {
		if err := w.forget(c.Model); err != nil {
			return fmt.Errorf("forget: %w", err)
		}
	}
	if err := w.writeDay(c); err != nil {
		return fmt.Errorf("write day: %w", err)
	}
	if err := w.writeFixes(c); err != nil {
		return fmt.Errorf("correct: %w", err)
	}
	for _, t := range c.Requests {
		if err := w.requests.add(c.Model, clock.UnixNano(t)); err != nil {
			return fmt.Errorf("write requests: %w", err)
		}
	}
	for _, e := range c.Tokens {
		if err := w.tokens.add(c.Model, clock.UnixNano(e.Time), e.Count, min(max(e.Input, 0), e.Count)); err != nil {
			return fmt.Errorf("write tokens: %w", err)
		}
	}
	return nil
}

// begin finds where new rows go. Rowids must never come again, or a row of others could pass
// for one that this limiter has seen; SQLite itself gives them anew once the last rows are
// deleted. So they start at the time, in nanoseconds, which is past all that were given
// before.
func (w *writer) begin() error {
	last, err := w.lastRows()
	if err != nil {
		return err
	}
	if max(last.requests, last.tokens, last.daily) > math.MaxInt64-1<<40 {
		return Damaged("the rowids are used up")
	}
	w.next = rowids{max(last.requests+1, w.now), max(last.tokens+1, w.now), max(last.daily+1, w.now)}
	w.next.daily += generations - w.next.daily%generations
	w.requests = &inserter{
		Statements: w.Statements, next: &w.next.requests,
		head: "INSERT INTO requests (rowid, model, ts) VALUES ", columns: 3,
	}
	w.tokens = &inserter{
		Statements: w.Statements, next: &w.next.tokens,
		head: "INSERT INTO tokens (rowid, model, ts, count, input) VALUES ", columns: 5,
	}
	return nil
}

// lastRows returns the largest rowids.
func (s *Statements) lastRows() (last rowids, err error) {
	_, err = s.row([]any{&last.requests, &last.tokens, &last.daily},
		`SELECT (SELECT ifnull(max(rowid), 0) FROM requests), (SELECT ifnull(max(rowid), 0) FROM tokens),
		(SELECT ifnull(max(rowid), 0) FROM daily)`)
	return last, err
}

// writeFixes changes rows that were written earlier. They are found by what is in them:
// rows of the same content are alike, whichever process wrote them.
func (w *writer) writeFixes(c *Change) error {
	for _, fix := range c.RequestFixes {
		ts := clock.UnixNano(fix.Value)
		if !fix.Added {
			if _, err := w.Exec(`DELETE FROM requests WHERE rowid =
				(SELECT rowid FROM requests WHERE model = ? AND ts = ? LIMIT 1)`, c.Model, ts); err != nil {
				return err
			}
			continue
		}
		if _, err := w.Exec("INSERT INTO requests (rowid, model, ts) VALUES (?, ?, ?)", w.next.requests, c.Model, ts); err != nil {
			return err
		}
		w.next.requests++
	}
	for _, fix := range c.TokenFixes {
		ts, count, input := clock.UnixNano(fix.Value.Time), fix.Value.Count, fix.Value.Input
		if !fix.Added {
			if _, err := w.Exec(`DELETE FROM tokens WHERE rowid =
				(SELECT rowid FROM tokens WHERE model = ? AND ts = ? AND count = ? AND input = ? LIMIT 1)`,
				c.Model, ts, count, input); err != nil {
				return err
			}
			continue
		}
		if _, err := w.Exec("INSERT INTO tokens (rowid, model, ts, count, input) VALUES (?, ?, ?, ?, ?)",
			w.next.tokens, c.Model, ts, count, input); err != nil {
			return err
		}
		w.next.tokens++
	}
	return nil
}

// sweep deletes rows that are long over. It looks at the oldest rows, at twice as many as are to be
// added: so the tables do not grow, and the cost is bounded by the number of new rows. It skips
// rows from the future, which would otherwise hide the rows behind them.
func (w *writer) sweep(changes []*Change) error {
	const least = 1000
	requests, tokens := least, least
	for _, c := range changes {
		requests += 2 * len(c.Requests)
		tokens += 2 * len(c.Tokens)
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
		if _, err := w.Exec("DELETE FROM "+t.name+" WHERE rowid IN (SELECT rowid FROM "+t.name+" WHERE "+t.column+
			" <= ? ORDER BY rowid LIMIT ?) AND "+t.column+" < ?", w.now, t.most, t.cutoff); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes the rows of a model that this limiter has seen.
func (w *writer) forget(model string) error {
	if _, err := w.Exec("DELETE FROM requests WHERE model = ? AND rowid <= ?", model, w.known.seen.requests); err != nil {
		return err
	}
	_, err := w.Exec("DELETE FROM tokens WHERE model = ? AND rowid <= ?", model, w.known.seen.tokens)
	return err
}
