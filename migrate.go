package ratelimit

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// MigrateYAMLToSQLite writes the quotas and the usage of a YAML state file into
// a SQLite database, which then holds that and nothing else; it is created where
// it is missing. Running it again gives the same database.
//
// A missing or unreadable YAML file is an error (ErrCorruptState for the
// latter), and so is a database that cannot be opened. A failure leaves the
// database as it was. The YAML file is not changed.
func MigrateYAMLToSQLite(yamlPath, sqlitePath string) error {
	s, err := loadYAML(yamlPath)
	if err == nil && s == nil {
		err = fmt.Errorf("%s: %w", yamlPath, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	_, statErr := os.Lstat(sqlitePath)
	if err := replaceDatabase(sqlitePath, s); err != nil {
		if errors.Is(statErr, fs.ErrNotExist) {
			for _, suffix := range []string{"-wal", "-shm", ""} {
				os.Remove(sqlitePath + suffix)
			}
		}
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// replaceDatabase makes a snapshot the whole content of a database.
func replaceDatabase(path string, s *snapshot) error {
	store, err := openSQLite(path)
	if err != nil {
		return err
	}
	err = store.inTransaction(func(tx *sql.Tx) error {
		for table := range sqliteSchema {
			if _, err := tx.Exec("DELETE FROM " + table); err != nil {
				return fmt.Errorf("clear %s: %w", table, err)
			}
		}
		if err := store.writeQuotas(tx, s.quotas); err != nil {
			return err
		}
		// Nothing is too old for the database: the source is copied as it is.
		w := &rowWriter{tx: tx, cutoff: unixNano(time.Time{})}
		if err := w.begin(); err != nil {
			return err
		}
		for _, model := range slices.Sorted(maps.Keys(s.state)) {
			if err := w.write(s.state[model].asChange(model)); err != nil {
				return err
			}
		}
		_, _, err := w.finish()
		return err
	})
	return errors.Join(err, store.close())
}

// asChange is a whole model, to be written into an empty database.
func (stats *UsageStats) asChange(model string) *change {
	c := &change{model: model, dayStart: unixNano(stats.DayStart), dayCount: stats.DayCount}
	for _, t := range stats.Requests {
		c.requests = append(c.requests, unixNano(t))
	}
	for _, e := range stats.Tokens {
		c.tokens = append(c.tokens, tokenRow{unixNano(e.Time), e.Count})
	}
	return c
}
