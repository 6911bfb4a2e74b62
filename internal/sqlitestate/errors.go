//go:build !nosqlite

package sqlitestate

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// damage is a finding in the content of a database.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// Damaged returns an error about the content of a database, which Explain makes one that
// wraps state.ErrCorrupt. It formats like fmt.Errorf.
func Damaged(format string, args ...any) error { return damage{fmt.Errorf(format, args...)} }

// errIntegrity is in the damage that SQLite finds.
var errIntegrity = errors.New("integrity check")

// errForeign is in the damage of a database that may be whole, but is not ours.
var errForeign = errors.New("not a database of this library")

// Foreign returns an error about a database that may be whole, but is not ours. It formats like
// fmt.Errorf.
func Foreign(format string, args ...any) error {
	return damage{fmt.Errorf("%w: "+format, append([]any{errForeign}, args...)...)}
}

// Explain names the file at path in an error. The error of a damaged file wraps
// state.ErrCorrupt. It returns nil for nil.
func Explain(path string, err error) error {
	if err == nil {
		return nil
	}
	// The statements are always the same, so where SQLite takes one for an error it is the
	// tables that are wrong.
	if errors.As(err, new(damage)) || IsDamage(err) || Code(err) == sqlite3.SQLITE_ERROR {
		return state.Corrupt(path, errtext.Printable(err))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// IsDamage reports whether SQLite finds the content of the file damaged. That is not so of a
// database of another program.
func IsDamage(err error) bool {
	switch Code(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return true
	}
	return errors.Is(err, errIntegrity)
}

// IsBusy reports whether another connection holds the database.
func IsBusy(err error) bool {
	code := Code(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// IsReadOnly reports whether SQLite would have to write to go on.
func IsReadOnly(err error) bool { return Code(err) == sqlite3.SQLITE_READONLY }

// Code returns the primary result code of an error of SQLite, and 0 for any other.
func Code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
