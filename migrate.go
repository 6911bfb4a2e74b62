package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/yamlstate"
)

// MigrateYAMLToSQLite writes the quotas, the usage and the cooldowns of a YAML
// state file into a SQLite database, which then holds that and nothing else; it is created where
// it is missing. Running it again gives the same database.
//
// A missing or unreadable YAML file is an error (ErrCorruptState for the
// latter), and so is a database that cannot be opened, or that is shared (Config.Shared).
// A failure leaves the
// database as it was. The YAML file is not changed.
func MigrateYAMLToSQLite(yamlPath, sqlitePath string) error {
	s, err := yamlstate.ReadFile(yamlPath)
	switch {
	case err == nil && s == nil:
		err = fmt.Errorf("%s: %w", yamlPath, fs.ErrNotExist)
	case err == nil:
		err = replaceDatabase(sqlitePath, snapshotOf(s))
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// replaceDatabase makes a snapshot the whole content of a database.
func replaceDatabase(path string, s *snapshot) error {
	_, err := os.Lstat(fsx.Absolute(path))
	missing := errors.Is(err, fs.ErrNotExist)
	err = fillDatabase(path, s)
	if err != nil && missing && !isBusy(err) {
		for _, suffix := range []string{"-wal", "-shm", ""} {
			os.Remove(fsx.Absolute(path) + suffix)
		}
	}
	return err
}

func fillDatabase(path string, s *snapshot) error {
	store, err := openSQLite(path, s.writeTo)
	if err != nil {
		return err
	}
	return store.close()
}

// writeTo replaces what the tables hold. Nothing is too old for that: the source
// is copied as it is.
func (s *snapshot) writeTo(tx *sql.Tx) error {
	for _, table := range sqliteTables {
		if _, err := tx.Exec("DELETE FROM " + table.name); err != nil {
			return fmt.Errorf("clear %s: %w", table.name, err)
		}
	}
	w := &rowWriter{tx: tx, now: time.Now().UnixNano(), cutoff: math.MinInt64 + day}
	if _, err := w.writeQuotas(nil, s.quotas, nil); err != nil {
		return err
	}
	if _, err := w.writeCooldowns(nil, s.cooldowns); err != nil {
		return err
	}
	var changes []*change
	for _, model := range slices.Sorted(maps.Keys(s.state)) {
		stats := s.state[model]
		changes = append(changes, &change{
			model:    model,
			requests: ring.Changes[time.Time]{Added: stats.Requests},
			tokens:   ring.Changes[TokenEntry]{Added: stats.Tokens},
			day:      usageDay{start: clock.UnixNano(stats.DayStart), count: int64(stats.DayCount), tokens: int64(stats.DayTokens)},
		})
	}
	return w.write(changes)
}
