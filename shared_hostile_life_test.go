//go:build !nosqlite

package ratelimit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// A limiter whose life file was deleted and cannot be made again fails, and does not
// panic.
func TestSharedLifeCannotBeHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path)
	life := lifePath(path, a)
	if err := os.Remove(life); err != nil {
		t.Skip(err)
	}
	if err := os.Mkdir(life, 0o700); err != nil {
		t.Fatal(err)
	}
	<-a.ledger.writer
	a.ledger.fail(errors.New("made up"))
	for range 2 {
		if err := a.ledger.recover(recoverAtOnce); err == nil {
			t.Error("recovered")
		}
	}
	if err := os.Remove(life); err != nil {
		t.Fatal(err)
	}
	if err := a.ledger.recover(recoverAtOnce); err != nil {
		t.Error(err)
	}
	a.ledger.writer <- struct{}{}
	wantLife(t, life, fsx.Alive)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	wantLife(t, life, fsx.Unknown)
}
