package ratelimit

import (
	"fmt"
	"io/fs"

	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/yamlfile"
)

// MigrateYAMLToSQLite writes the quotas, the usage and the cooldowns of a YAML state file into a
// SQLite database, and replaces its content. It creates a missing database, and may run again.
//
// A missing or unreadable YAML file is an error (ErrCorruptState for the latter), and so is a
// database that cannot be opened, or that is shared (Config.Shared). A failure leaves the
// database as it was. The YAML file is not changed.
func MigrateYAMLToSQLite(yamlPath, sqlitePath string) error {
	s, err := yamlfile.ReadState(yamlPath)
	switch {
	case err == nil && s == nil:
		err = fmt.Errorf("%s: %w", yamlPath, fs.ErrNotExist)
	case err == nil:
		err = sqlitestate.Replace(sqlitePath, sqlitelog.Private, s)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
