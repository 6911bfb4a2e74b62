//go:build !nosqlite

// Shared: what a hostile reading of the code found.

package ratelimit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
)

func openHostile(t *testing.T, path string, change ...func(*Config)) *RateLimiter {
	t.Helper()
	cfg := Config{Shared: true, Providers: []Provider{ProviderLocal}}
	for _, c := range change {
		c(&cfg)
	}
	rl, err := NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// lifePath is the life file of a limiter of the database at a path.
func lifePath(path string, rl *RateLimiter) string {
	return fmt.Sprintf("%s.%016x.life", path, rl.ledger.id)
}

func wantLife(t *testing.T, path string, want fsx.Liveness) {
	t.Helper()
	if got := fsx.LivenessOf(path); got != want {
		t.Errorf("the owner of %s is %v, want %v", filepath.Base(path), got, want)
	}
}

func withQuota(model string, q ModelQuota) func(*Config) {
	return func(cfg *Config) {
		if cfg.Quotas == nil {
			cfg.Quotas = make(map[string]ModelQuota)
		}
		cfg.Quotas[model] = q
	}
}

// A program that only asks, as one that shows the state, or is always denied, must not
// remember all that others ever did.
func TestSharedWhoOnlyAsksForgets(t *testing.T) {
	for _, how := range []string{"asks", "is denied"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			synctest.Test(t, func(t *testing.T) {
				busy, asks := openHostile(t, path), openHostile(t, path, withQuota("never", ModelQuota{MaxTPM: 1}))
				for range 45 {
					for range 60 {
						busy.RecordUsage("m", 1, 1)
					}
					time.Sleep(30 * time.Second)
					if how == "asks" {
						asks.Stats("m")
					} else if r, _ := asks.Reserve("never", 2, 0); r != nil {
						t.Fatal("admitted")
					}
				}
				if n := len(asks.ledger.tail.Live()); n > 2000 {
					t.Errorf("remembers %d events", n)
				}
				if n := reflect.ValueOf(asks.ledger.tail).FieldByName("events").Cap(); n > 5000 {
					t.Errorf("keeps room for %d events", n)
				}
			})
		})
	}
}

// A process that was taken for dead, and is not, goes on: all count what it uses.
func TestSharedTakenForDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := openHostile(t, path), openHostile(t, path)
	more, _ := a.Reserve("m", 10, 0)
	moved, _ := a.Reserve("moved", 10, 0)
	b.Stats("m")
	b.ledger.do(background, combine.Apart, func(p *plan) { p.addNow(&sharedlog.Event{Kind: sharedlog.Gone, Ref: a.ledger.id}) })
	a.Stats("m")
	more.Commit(90, 0)
	moved.Arrived(time.Now())
	moved.Commit(10, 0)
	late := openHostile(t, path)
	for name, rl := range map[string]*RateLimiter{"itself": a, "another": b, "one that came late": late} {
		if s := rl.Stats("m"); s.TPM != 90 || s.RPM != 1 || s.InFlight != 0 || s.TPD != 90 {
			t.Errorf("%s: %+v", name, s)
		}
		if s := rl.Stats("moved"); s.TPM != 10 || s.RPM != 1 || s.InFlight != 0 {
			t.Errorf("%s: moved: %+v", name, s)
		}
	}
}

// A waiter that is evicted while its file is down goes to the end of the line, once, where the
// other processes see it.
func TestSharedEvictedWhileDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	q := withQuota("m", ModelQuota{MaxInFlight: 1})
	a, b := openHostile(t, path, q), openHostile(t, path, q)
	r, d := b.Reserve("m", 1, 1)
	if r == nil {
		t.Fatal(d)
	}
	got := make(chan error, 1)
	go func() {
		r, err := a.Acquire(t.Context(), "m", 1, 1)
		if r != nil {
			r.Cancel()
		}
		got <- err
	}()
	for b.Stats("m").Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	<-a.ledger.writer
	a.ledger.fail(errors.New("made up"))
	b.ledger.do(background, combine.Apart, func(p *plan) { p.addNow(&sharedlog.Event{Kind: sharedlog.Evict, Ref: a.ledger.id}) })
	a.ledger.recover(recoverAtOnce)
	a.ledger.writer <- struct{}{}
	if n := a.Stats("m").Waiting; n != 1 {
		t.Errorf("%d wait, as the one knows that waits", n)
	}
	if n := b.Stats("m").Waiting; n != 1 {
		t.Errorf("%d wait, as the other knows", n)
	}
	r.Cancel()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("is never served")
	}
}

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

// The short deadline of one call is no failure of the file, which another program holds.
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

// aged makes all that a limiter knows of minutes older, and has it deleted.
func aged(rl *RateLimiter) {
	rl.mu.Lock()
	for _, e := range rl.ledger.tail.Live() {
		e.At -= 3 * minute
	}
	rl.mu.Unlock()
	for range sharedlog.SweepFrom + 1 {
		rl.RecordUsage("other", 0, 0)
	}
	rl.mu.Lock()
	for _, e := range rl.ledger.tail.Live() {
		e.At -= 3 * minute
	}
	rl.mu.Unlock()
	rl.RecordUsage("other", 0, 0)
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		os.Remove(path + suffix)
	}
}

// What is older than the events that a limiter remembers must get into a file that takes
// the place of the one that was lost, too.
func TestSharedLostFileKeepsWhatIsOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path, withQuota("m", ModelQuota{MaxInFlight: 1}), withQuota("q", ModelQuota{MaxRPM: 7}))
	r, _ := a.Reserve("m", 1, 1)
	if r == nil {
		t.Fatal("denied")
	}
	until := time.Now().Add(time.Hour)
	a.Cooldown("cold", until)
	aged(a)
	removeFile(t, path)
	a.Persist() // fails
	deadline := time.Now().Add(10 * time.Second)
	for a.Persist() != nil || a.Err() != nil {
		if time.Now().After(deadline) {
			t.Fatal(a.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
	b := openHostile(t, path)
	if d := b.Decide("cold", 1); d.Code != DecisionCooldown {
		t.Errorf("in the cooldown: %+v", d)
	}
	if d := a.Decide("cold", 1); d.Code != DecisionCooldown {
		t.Errorf("in the cooldown, for who set it: %+v", d)
	}
	if _, q, _ := b.QuotaFor("q"); q.MaxRPM != 7 {
		t.Errorf("the quota is %+v", q)
	}
	if d := b.Decide("m", 1); d.Code != DecisionInFlightLimit {
		t.Errorf("while the slot is taken: %+v", d)
	}
	r.Commit(1, 1)
	if d := b.Decide("m", 1); !d.Allowed {
		t.Errorf("when the slot is free: %+v", d)
	}
}

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

// The charges of a process with a longer minute are kept for that minute, also by limiters that
// opened the file before it.
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

// A reservation that is garbage holds no slot once another limiter says that slots are
// limited.
func TestSharedGarbageHoldsNoSlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := openHostile(t, path), openHostile(t, path)
	a.Reserve("new", 1, 1)
	for deadline := time.Now().Add(30 * time.Second); ; {
		runtime.GC()
		a.mu.Lock()
		n := len(a.ledger.garbage.reservations)
		a.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Skip("the garbage was not collected")
		}
		time.Sleep(time.Millisecond)
	}
	if n := b.Stats("new").InFlight; n != 1 {
		t.Fatalf("%d are in flight before anybody asks for slots", n)
	}
	b.SetQuota("new", ModelQuota{MaxInFlight: 1})
	a.RecordUsage("other", 1, 1)
	if r, d := b.Reserve("new", 1, 1); r == nil {
		t.Errorf("denied: %+v", d)
	}
}
