package ratelimit

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// keepRows is how long, beyond the minute and the margin, charges stay in the
// database: another process may have a larger margin, or a clock that is behind.
const keepRows = time.Minute

// sqliteStore is one limiter's connection to its database, and what it knows of
// what is in there. RateLimiter.ioMu guards it.
type sqliteStore struct {
	db     *sql.DB // nil when closed
	quotas map[string]ModelQuota
	models map[string]*syncedModel

	// The largest rowids at the last Load or Persist. Rows up to there this
	// limiter knew of, and a Reset may remove them; later ones are by others.
	requestsSeen, tokensSeen int64
}

// syncedModel is what the database holds of a model, as of the last Load or
// Persist.
type syncedModel struct {
	window           *window // whose entries were written, up to these totals
	requests, tokens int
	dayStart         int64 // the day in memory whose
	dayCount         int   // count is in there

	fileStart, fileCount int64 // the day in the database, with the counts of others

	round int // the last Persist that met the model in memory
}

// change is what one Persist has to do for one model.
type change struct {
	model    string
	synced   *syncedModel // nil: never written
	forget   bool         // the known rows are no longer true
	requests []int64      // new rows, UnixNano
	tokens   []tokenRow
	gone     bool // not in memory any more

	window                     *window
	requestsTotal, tokensTotal int
	dayStart                   int64
	dayCount                   int

	fileStart, fileCount int64 // the day that was written; fileCount 0 for none
}

type tokenRow struct {
	at    int64
	count int
}

// persist writes what is new in memory since the last load or persist.
func (s *sqliteStore) persist(rl *RateLimiter) error {
	if s.db == nil {
		return ErrClosed
	}
	quotas := rl.validQuotas()
	changes := s.changes(rl)
	cutoff := time.Now().Add(-time.Duration(rl.span()) - keepRows).UnixNano()
	var requestsSeen, tokensSeen int64
	err := s.inTransaction(func(tx *sql.Tx) (err error) {
		if err := s.writeQuotas(tx, quotas); err != nil {
			return err
		}
		w := &rowWriter{tx: tx, cutoff: cutoff, requestsSeen: s.requestsSeen, tokensSeen: s.tokensSeen}
		if err := w.begin(); err != nil {
			return err
		}
		for i := range changes {
			if err := w.write(&changes[i]); err != nil {
				return err
			}
		}
		requestsSeen, tokensSeen, err = w.finish()
		return err
	})
	if err != nil {
		return err
	}
	s.quotas = quotas
	s.requestsSeen, s.tokensSeen = requestsSeen, tokensSeen
	for i := range changes {
		s.commit(&changes[i])
	}
	return nil
}

// changes compares memory with what the database is known to hold.
func (s *sqliteStore) changes(rl *RateLimiter) []change {
	round := 0
	for _, synced := range s.models {
		round = max(round, synced.round)
	}
	round++
	var changes []change
	rl.walk(func(model string, stats *UsageStats, instant int64, now time.Time) {
		if stats == nil {
			return
		}
		w := stats.window
		if !w.mirrors(stats) {
			w = newWindow(stats, now, instant, rl.span())
		}
		w.rollDay(now)
		synced := s.models[model]
		if synced != nil {
			synced.round = round
		}
		if c, changed := compare(model, w, synced); changed {
			changes = append(changes, c)
		}
	})
	for model, synced := range s.models {
		if synced.round != round {
			changes = append(changes, change{model: model, synced: synced, forget: true, gone: true})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.model, b.model) })
	return changes
}

// compare copies what is new in a window. A window other than the one that was
// written is all new, and what was written of the old one no longer true.
func compare(model string, w *window, synced *syncedModel) (c change, changed bool) {
	c = change{
		model: model, synced: synced, window: w,
		requestsTotal: w.requests.total(), tokensTotal: w.tokens.total(),
		dayStart: w.dayBegin, dayCount: max(w.stats.DayCount, 0),
	}
	var requestsFrom, tokensFrom int
	switch {
	case synced == nil:
	case synced.window != w:
		c.forget = true
	case synced.requests == c.requestsTotal && synced.tokens == c.tokensTotal && synced.dayCount == c.dayCount:
		return c, false
	default:
		requestsFrom, tokensFrom = synced.requests, synced.tokens
	}
	for _, t := range w.requests.since(requestsFrom) {
		c.requests = append(c.requests, unixNano(t))
	}
	for _, e := range w.tokens.since(tokensFrom) {
		c.tokens = append(c.tokens, tokenRow{unixNano(e.Time), e.Count})
	}
	return c, true
}

// mergeDay works out the day to store from the one in memory and the one in the
// database, to which other processes may have added. Zero charges are no day.
func (c *change) mergeDay(start, count int64, exists bool, now int64) {
	c.fileStart, c.fileCount = c.dayStart, int64(c.dayCount)
	if !exists || count <= 0 || now >= start && now-start >= day {
		return
	}
	others := count
	switch synced := c.synced; {
	case synced == nil:
	case start > synced.fileStart:
		// Others began a new day. What was written before is not in it.
		if !c.forget && c.dayStart == synced.dayStart {
			c.fileCount = max(c.fileCount-int64(synced.dayCount), 0)
		}
	case c.forget:
		others = max(count-synced.fileCount, 0)
	default:
		others = max(count-int64(synced.dayCount), 0)
	}
	if others == 0 {
		return
	}
	if c.fileCount == 0 {
		c.fileStart = start
	}
	c.fileStart = min(c.fileStart, start)
	if c.fileCount > math.MaxInt64-others {
		c.fileCount = math.MaxInt64
		return
	}
	c.fileCount += others
}

// commit remembers what a transaction wrote.
func (s *sqliteStore) commit(c *change) {
	if c.gone {
		delete(s.models, c.model)
		return
	}
	synced := c.synced
	if synced == nil {
		synced = &syncedModel{}
		if s.models == nil {
			s.models = make(map[string]*syncedModel)
		}
		s.models[c.model] = synced
	}
	synced.window = c.window
	synced.requests, synced.tokens = c.requestsTotal, c.tokensTotal
	synced.dayStart, synced.dayCount = c.dayStart, c.dayCount
	synced.fileStart, synced.fileCount = c.fileStart, c.fileCount
}

// writeQuotas stores the quotas that differ from those that the database is
// known to hold. A failed statement leaves the rest to the rollback.
func (s *sqliteStore) writeQuotas(tx *sql.Tx, quotas map[string]ModelQuota) error {
	for _, model := range slices.Sorted(maps.Keys(quotas)) {
		quota := quotas[model]
		if known, ok := s.quotas[model]; ok && known == quota {
			continue
		}
		if _, err := tx.Exec(`INSERT OR REPLACE INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES (?, ?, ?, ?)`,
			model, quota.MaxRPM, quota.MaxTPM, quota.MaxRPD); err != nil {
			return fmt.Errorf("write quotas: %w", err)
		}
	}
	for model := range s.quotas {
		if _, ok := quotas[model]; ok {
			continue
		}
		if _, err := tx.Exec(`DELETE FROM quotas WHERE model = ?`, model); err != nil {
			return fmt.Errorf("write quotas: %w", err)
		}
	}
	return nil
}

// load reads everything. The rowids are those up to which it was read.
func (s *sqliteStore) load() (loaded *snapshot, synced *sqliteStore, err error) {
	if s.db == nil {
		return nil, nil, ErrClosed
	}
	synced = &sqliteStore{}
	tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, classify(err)
	}
	defer tx.Rollback()
	r := &rowReader{tx: tx, snapshot: &snapshot{
		quotas: make(map[string]ModelQuota),
		state:  make(map[string]*UsageStats),
	}}
	if err := r.read(); err != nil {
		return nil, nil, classify(err)
	}
	if synced.requestsSeen, synced.tokensSeen, err = lastRows(tx); err != nil {
		return nil, nil, classify(err)
	}
	return r.snapshot, synced, nil
}

// remember notes, after a load was taken over, that memory and database agree.
func (s *sqliteStore) remember(loaded *snapshot, synced *sqliteStore) {
	s.requestsSeen, s.tokensSeen = synced.requestsSeen, synced.tokensSeen
	s.quotas = loaded.quotas
	s.models = make(map[string]*syncedModel, len(loaded.state))
	for model, stats := range loaded.state {
		w := stats.window
		synced := &syncedModel{
			window:   w,
			requests: w.requests.total(), tokens: w.tokens.total(),
			dayStart: w.dayBegin, dayCount: stats.DayCount,
			fileStart: w.dayBegin, fileCount: int64(stats.DayCount),
		}
		if w.ahead {
			// The database still has the times from the future, which would count
			// anew at every load: as with another window, the next Persist
			// replaces them.
			synced.window = nil
		}
		s.models[model] = synced
	}
}

func (s *sqliteStore) close() error {
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	if err := db.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// inTransaction runs work between BEGIN IMMEDIATE and COMMIT.
func (s *sqliteStore) inTransaction(work func(*sql.Tx) error) error {
	tx, err := s.db.Begin()
	if err != nil {
		return classify(err)
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return classify(err)
	}
	return classify(tx.Commit())
}
