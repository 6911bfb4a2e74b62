package sqlitelog

import (
	"errors"
	"fmt"

	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
)

// format is the user_version of the database. Versions that do not know it must not write there, so
// it is above the formats of internal/sqlitestate and of the shared files of before.
const format = 200

// The formats of shared files of before.
const (
	firstFormer = 100
	lastFormer  = 102
)

// Private are the formats that a limiter opens that keeps a copy of its own: not those that
// processes share.
var Private = sqlitestate.Formats{
	Earliest: firstFormer, Extended: format,
	Refused: errors.New("the database is shared by several processes: open it with Config.Shared"),
}

// The values of Store.Durability.
const (
	DurableProcess = "process" // an append outlasts the process
	DurablePower   = "power"   // and a loss of power
)

// Store is a database that the processes of a machine share. It implements store.Store.
type Store struct {
	Path       string
	Durability string // DurableProcess, which is the default, or DurablePower

	// TakeOver makes an image of a database of an earlier format, shared or private. It is called
	// in the transaction that makes the log, which begins with that image, and drops the tables
	// that are no longer needed. No process of an earlier version has the database open then. Nil
	// refuses such a database.
	TakeOver func(*Former) (image []byte, err error)
}

// check returns an error that names the field and its value.
func (s *Store) check() error {
	switch s.Durability {
	case "", DurableProcess, DurablePower:
		return nil
	}
	return fmt.Errorf("field Durability is %q, want %q or %q", s.Durability, DurableProcess, DurablePower)
}
