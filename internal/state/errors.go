package state

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The sentinels that the limiter's package exports under its own names. They are declared
// here because the stores return them.
var (
	// ErrCorrupt is wrapped by the error of a state file that cannot be read as one.
	ErrCorrupt = errors.New("corrupt state")
	// ErrInvalidQuota is wrapped by the error of a limit out of range or an unknown zone.
	ErrInvalidQuota = errors.New("invalid quota")
	// ErrNoSQLite is returned by what needs SQLite in a program built without it.
	ErrNoSQLite = errors.New("built without SQLite (build tag nosqlite)")
)

// corruptError is a state file that cannot be read as one. Its text is short, whatever the
// file holds.
type corruptError struct {
	text  string
	cause error
}

// Corrupt returns an error that wraps ErrCorrupt and cause and names the file at path.
func Corrupt(path string, cause error) error {
	const most = 1000
	if len(path) > 300 {
		path = "…" + path[len(path)-300:]
	}
	// An error of the file system names the path itself.
	if pathErr := (*fs.PathError)(nil); errors.As(cause, &pathErr) {
		cause = fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	text := fmt.Sprintf("%v: %s: %v", ErrCorrupt, path, cause)
	if len(text) > most {
		text = text[:most] + "…"
	}
	return &corruptError{strings.ToValidUTF8(text, ""), cause}
}

func (e *corruptError) Error() string   { return e.text }
func (e *corruptError) Unwrap() []error { return []error{ErrCorrupt, e.cause} }
