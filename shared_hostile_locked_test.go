//go:build !nosqlite

package ratelimit

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// Waiting for the turn in vain, to use the file again, must not keep calls waiting.
func TestSharedRecoveryHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path)
	other, err := fsx.OpenFairLock(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Lock(time.Minute); err != nil {
		t.Fatal(err)
	}
	a.RecordUsage("m", 1, 1)
	if a.Err() == nil {
		t.Fatal("not down")
	}
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(10 * time.Millisecond) {
		before := time.Now()
		a.RecordUsage("m", 1, 1)
		if took := time.Since(before); took > 1500*time.Millisecond {
			t.Fatalf("a call took %v", took)
		}
	}
	other.Unlock()
	for a.Persist() != nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// The short deadline of one call is no failure of the file, whoever holds it.
func TestSharedDeadlineWhileAnotherProgramWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = a.Acquire(ctx, "m", 1, 1)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := a.Err(); err != nil {
		t.Errorf("the file is down: %v", err)
	}
	conn.ExecContext(t.Context(), "ROLLBACK")
}
