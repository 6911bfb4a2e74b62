//go:build !nosqlite

package ratelimit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// However short the lease is, it is not renewed all the time.
func TestSharedTinyLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path, func(cfg *Config) { cfg.LeaseTTL = 1 })
	r, _ := a.Reserve("m", 1, 1)
	version := func() int64 {
		return sqliteNumber(t, path, "SELECT lease FROM processes WHERE id = ?", a.ledger.id)
	}
	renewed := 0
	for was, end := version(), time.Now().Add(300*time.Millisecond); time.Now().Before(end); {
		if is := version(); is != was {
			was = is
			renewed++
		}
	}
	if renewed > 30 {
		t.Errorf("renewed %d times in 300 ms", renewed)
	}
	r.Cancel()
}

// The life files of processes that the database does not know go when it is opened.
func TestSharedLifeFilesOfTheDeadGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path)
	left := fmt.Sprintf("%s.%016x.life", path, 42)
	temp := filepath.Join(filepath.Dir(left), fsx.TempPrefix(left)+"123")
	for _, name := range []string{left, temp, path + ".life", path + ".other"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := openHostile(t, path)
	for name, stays := range map[string]bool{left: false, temp: false, path + ".life": true, path + ".other": true} {
		if _, err := os.Lstat(name); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantLife(t, lifePath(path, a), fsx.Alive)
	wantLife(t, lifePath(path, b), fsx.Alive)
}

// What a process with a longer minute charged is kept as long as that is, also by those
// who were there before it.
func TestSharedLongerMinute(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	synctest.Test(t, func(t *testing.T) {
		long := func(cfg *Config) { cfg.Margin = 10 * time.Minute }
		a, b := openHostile(t, path), openHostile(t, path, long)
		for range 40 {
			b.RecordUsage("m", 1, 1)
		}
		b.Close()
		for range 3 {
			time.Sleep(2 * time.Minute)
			a.RecordUsage("other", 1, 1)
		}
		if n := openHostile(t, path, long).Stats("m").RPM; n != 40 {
			t.Errorf("%d requests in eleven minutes, want 40", n)
		}
	})
}

// The log is deleted while two have the database open.
func TestSharedLogIsDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := openHostile(t, path), openHostile(t, path)
	for range 3 {
		a.RecordUsage("m", 1, 1)
	}
	b.Stats("m")
	a.RecordUsage("m", 1, 1)
	if err := os.Remove(path + "-wal"); err != nil {
		t.Skip(err)
	}
	a.RecordUsage("m", 1, 1)
	b.RecordUsage("m", 1, 1)
	deadline := time.Now().Add(20 * time.Second)
	for a.Persist() != nil || b.Persist() != nil || a.Err() != nil || b.Err() != nil {
		if time.Now().After(deadline) {
			t.Fatal(a.Err(), b.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
	late := openHostile(t, path)
	for name, rl := range map[string]*RateLimiter{"a": a, "b": b, "late": late} {
		if s := rl.Stats("m"); s.RPM != 6 || s.RPD != 6 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
