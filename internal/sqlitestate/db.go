//go:build !nosqlite

package sqlitestate

import (
	"database/sql"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// DB is one limiter's connection to a database. It is for one goroutine at a time.
type DB struct {
	path    string
	file    os.FileInfo // what was opened
	db      *sql.DB
	formats Formats
	known   knowledge
}

// knowledge is the content of the database as a DB knows it, as of the last Load or Store.
type knowledge struct {
	quotas    map[string]state.Quota
	said      map[string]state.Said
	cooldowns map[string]state.Cooldown // as they were read or written
	answers   map[string]string         // as they were read or written, as text
	found     map[string]string         // the same
	pools     map[string]string         // the same
	days      map[string]knownDay
	seen      rowids
}

// rowids are a row number of each table: the largest one seen, or the next one to write. When the
// program resets a model, the rows up to the largest one seen are deleted; later rows are those
// that other processes have written since.
type rowids struct{ requests, tokens, daily int64 }

// Load reads everything. The error wraps state.ErrCorrupt when a value is not what it should
// be.
func (d *DB) Load() (*state.Snapshot, error) {
	var models Models
	var minutes map[string]*charges
	var seen rowids
	err := readTransaction(d.db, func(s *Statements) (err error) {
		if err := s.checkFormat(d.formats); err != nil {
			return err
		}
		if models, err = s.ReadModels(); err != nil {
			return err
		}
		if minutes, err = s.readCharges(); err != nil {
			return err
		}
		seen, err = s.lastRows()
		return err
	})
	if err != nil {
		return nil, Explain(d.path, err)
	}
	snapshot := snapshotOf(models, minutes)
	// The caller owns the snapshot and may change it.
	d.known = knowledge{
		quotas: maps.Clone(models.Quotas), said: maps.Clone(models.Said),
		cooldowns: models.Cooldowns, days: make(map[string]knownDay), seen: seen,
	}
	d.known.answers, d.known.found = textsOf(models.Answers, state.AnswersText), textsOf(models.Found, state.FoundText)
	d.known.pools = textsOf(models.Pools, state.PoolText)
	for model, usage := range snapshot.Usage {
		day := usage.Day()
		day.Generation = models.Days[model].Generation
		d.known.days[model] = knownDay{memory: day, file: day}
	}
	return snapshot, nil
}

// Store writes what is new since the last Load or Store, all of it or nothing. It keeps what
// others have written. The error wraps state.ErrCorrupt when what it finds there is not what
// it should be.
func (d *DB) Store(u *Update) error {
	if err := InPlace(d.path, d.file); err != nil {
		return err
	}
	w := &writer{now: u.Now, cutoff: u.Cutoff, known: d.known}
	err := InTransaction(d.db, func(s *Statements) error {
		w.Statements = s
		if err := s.checkFormat(d.formats); err != nil {
			return err
		}
		return w.update(u)
	})
	if err != nil {
		return Explain(d.path, err)
	}
	d.known = w.learned(u.Changes)
	return nil
}

// Close closes the database. It must be called once, and no other method after it.
func (d *DB) Close() error { return Explain(d.path, d.db.Close()) }

// Replace makes a snapshot the whole content of the database at path, which it creates where
// it is missing. A failure leaves the database as it was.
func Replace(path string, formats Formats, snapshot *state.Snapshot) error {
	_, err := os.Lstat(fsx.Absolute(path))
	missing := errors.Is(err, fs.ErrNotExist)
	db, err := open(path, formats, func(s *Statements) error { return s.replaceAll(snapshot) })
	if err == nil {
		err = db.Close()
	}
	if err != nil && missing && !IsBusy(err) {
		for _, suffix := range []string{"-wal", "-shm", ""} {
			os.Remove(fsx.Absolute(path) + suffix)
		}
	}
	return err
}

// replaceAll replaces what the tables hold. Nothing is too old for that: the source is
// copied as it is.
func (s *Statements) replaceAll(snapshot *state.Snapshot) error {
	for _, table := range baseTables {
		if err := s.clear(table); err != nil {
			return err
		}
	}
	u := &Update{
		Quotas: snapshot.Quotas, Said: snapshot.Said, Cooldowns: snapshot.Cooldowns,
		Answers: snapshot.Answers, Found: snapshot.Found, Pools: snapshot.Pools, Spend: snapshot.Spend,
		Now: time.Now().UnixNano(), Cutoff: math.MinInt64 + clock.LongestDay,
	}
	for _, model := range slices.Sorted(maps.Keys(snapshot.Usage)) {
		usage := snapshot.Usage[model]
		u.Changes = append(u.Changes, &Change{
			Model: model, Requests: usage.Requests, Tokens: usage.Tokens, Day: usage.Day(),
		})
	}
	w := &writer{Statements: s, now: u.Now, cutoff: u.Cutoff}
	return w.update(u)
}
