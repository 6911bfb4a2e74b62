// Package settings has what the fields of the limiter's Config mean beyond their types: which
// backend a name stands for, where its state file lies, and which values are in range. The
// constructors of the limiter read it.
package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Backend is a kind of state file, by the name that Config.Backend has for it.
type Backend string

// The backends.
const (
	YAML   Backend = "yaml"
	SQLite Backend = "sqlite"
)

// ParseBackend returns the backend with a name. Empty means YAML; case and surrounding space do
// not matter.
func ParseBackend(name string) (Backend, error) {
	switch b := Backend(strings.ToLower(strings.TrimSpace(name))); b {
	case "":
		return YAML, nil
	case YAML, SQLite:
		return b, nil
	}
	return "", fmt.Errorf("unknown backend: %q, want %q or %q", name, YAML, SQLite)
}

// Place returns the backend of a name, and path, or its default path where that is empty.
func Place(backend, path string) (Backend, string, error) {
	b, err := ParseBackend(backend)
	if err == nil && path == "" {
		path, err = b.DefaultPath()
	}
	return b, path, err
}

// DefaultPath returns the state file of the backend in the home folder. It fails when no home
// folder is known.
func (b Backend) DefaultPath() (string, error) {
	name := "ratelimits.yaml"
	if b == SQLite {
		name = "ratelimits.db"
	}
	for _, env := range []string{"CORE_HOME", "HOME", "USERPROFILE"} {
		if home := os.Getenv(env); home != "" {
			return filepath.Join(home, ".core", name), nil
		}
	}
	return "", errors.New("no home folder: set CORE_HOME, HOME or USERPROFILE, or Config.FilePath")
}
