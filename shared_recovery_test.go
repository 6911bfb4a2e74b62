//go:build !nosqlite

// Shared: files that fail, and getting back to them.

package ratelimit_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedQuotas limit a model by everything.
var sharedQuotas = map[string]ratelimit.ModelQuota{
	"m": {MaxRPM: 20, MaxTPM: 10_000, MaxRPD: 100, MaxInFlight: 15},
}

// openShared opens a shared limiter, which the test closes.
func openShared(t *testing.T, path string, change ...func(*ratelimit.Config)) *ratelimit.RateLimiter {
	t.Helper()
	cfg := ratelimit.Config{Shared: true, Quotas: sharedQuotas}
	for _, c := range change {
		c(&cfg)
	}
	rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// reserves makes n reservations, all of which must be admitted.
func reserves(t *testing.T, rl *ratelimit.RateLimiter, n int) (rs []*ratelimit.Reservation) {
	t.Helper()
	for range n {
		r, d := rl.Reserve("m", 10, 5)
		if r == nil {
			t.Fatalf("Reserve is denied: %+v", d)
		}
		rs = append(rs, r)
	}
	t.Cleanup(func() { runtime.KeepAlive(rs) }) // one that is garbage gives its slot back
	return rs
}

// wantRPM checks how many requests a limiter counts.
func wantRPM(t *testing.T, rl *ratelimit.RateLimiter, want int) {
	t.Helper()
	if got := rl.Stats("m").RPM; got != want {
		t.Errorf("RPM is %d, want %d", got, want)
	}
}

// sharedEventually waits for something that happens in the background.
func sharedEventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 30 s: ", what)
		}
	}
}

// errorLog collects what OnError is told of the store.
type errorLog struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorLog) add(err error) { ofTheStore(l.note)(err) }

func (l *errorLog) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.errs)
}

func (l *errorLog) config(cfg *ratelimit.Config) { cfg.OnError = l.add }

// A file that fails: decisions go on, nothing of it is lost, and nothing is counted twice.
func TestSharedFileFails(t *testing.T) {
	t.Parallel()
	remove := func(suffixes ...string) func(t *testing.T, path string) func() {
		return func(t *testing.T, path string) func() {
			for _, suffix := range suffixes {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			return func() {}
		}
	}
	rename := func(t *testing.T, path string) func() {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		return func() { os.Rename(path+".away", path) }
	}
	tests := []struct {
		name   string
		spoil  func(t *testing.T, path string) (repair func())
		silent bool // it may go unnoticed
	}{
		{name: "deleted", spoil: remove("")},
		{name: "deleted with all that belongs to it", spoil: remove("", "-wal", "-shm")},
		{name: "deleted with its lock", spoil: remove("", "-wal", "-shm", ".lock")},
		{name: "its lock alone deleted", spoil: remove(".lock"), silent: true},
		{name: "moved away and back", spoil: rename},
		{name: "moved away, and back when there is a new one", spoil: func(t *testing.T, path string) func() {
			back := rename(t, path)
			return func() {
				sharedEventually(t, "a new file", func() bool { _, err := os.Stat(path); return err == nil })
				back()
			}
		}},
		{name: "its folder deleted", spoil: func(t *testing.T, path string) func() {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			return func() {}
		}},
		{name: "an older copy put in its place", spoil: func(t *testing.T, path string) func() {
			sharedShell(t, `cp "$1" "$1.copy" && mv "$1.copy" "$1"`, path)
			return func() {}
		}},
		{name: "locked for long by another program", spoil: func(t *testing.T, path string) func() {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			db.SetMaxOpenConns(1)
			if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			return func() { db.Close() }
		}},
		{name: "its middle overwritten", spoil: func(t *testing.T, path string) func() {
			// By another process: closing the file in this one would drop SQLite's locks.
			sharedShell(t, `dd if=/dev/urandom of="$1" bs=4096 seek=1 count=60 conv=notrunc`, path)
			sharedShell(t, `dd if=/dev/urandom of="$1-wal" bs=4096 count=60 conv=notrunc`, path)
			return func() {}
		}, silent: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "folder", "state.db")
			var log errorLog
			a := openShared(t, path, log.config, func(cfg *ratelimit.Config) { cfg.FreshStart = true })
			b := openShared(t, path, func(cfg *ratelimit.Config) { cfg.FreshStart = true })
			others := reserves(t, b, 2)
			first := reserves(t, a, 4)
			wantRPM(t, a, 6)

			repair := tt.spoil(t, path)
			rs := reserves(t, a, 3)
			rs[0].Commit(100, 0)
			rs[1].Cancel()
			first[0].Commit(200, 0)
			others = append(others, reserves(t, b, 1)...)
			if !tt.silent {
				sharedEventually(t, "an error", func() bool { return a.Err() != nil || log.len() > 0 })
			}
			wantTPM := 2*15 + 3*15 + 200 + 100 + 15 + 15

			repair()
			a.Persist() // which fails as long as the file does
			sharedEventually(t, "both are back", func() bool {
				a.Decide("m", 1)
				b.Decide("m", 1)
				return a.Err() == nil && b.Err() == nil
			})
			c := openShared(t, path)
			for name, rl := range map[string]*ratelimit.RateLimiter{"a": a, "b": b, "c": c} {
				want := fmt.Sprintf("%s counts RPM 9, RPD 9, TPM and TPD %d, 7 in flight", name, wantTPM)
				sharedEventually(t, want, func() bool {
					s := rl.Stats("m")
					return s.RPM == 9 && s.RPD == 9 && s.TPM == wantTPM && s.TPD == wantTPM && s.InFlight == 7
				})
			}
			for _, r := range append(first, rs...) {
				r.Commit(1, 1)
			}
			if got := c.Stats("m").InFlight; got != 3 {
				t.Errorf("%d are in flight after a has settled its own, want the 3 of b", got)
			}
			runtime.KeepAlive(others) // what is garbage is settled
			for _, rl := range []*ratelimit.RateLimiter{a, b, c} {
				if err := rl.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// sharedShell runs a command with a path as its argument.
func sharedShell(t *testing.T, command, path string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", command, "sh", path).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// While the file is down a limiter alone admits no more than the quota.
func TestSharedFileDownKeepsTheQuota(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	rl := openShared(t, path)
	other := openShared(t, path)
	reserves(t, other, 7)
	wantRPM(t, rl, 7)
	holdDatabase(t, path)
	n := 0
	for {
		r, d := rl.Reserve("m", 1, 1)
		if r == nil {
			if d.Code != ratelimit.DecisionInFlightLimit {
				t.Errorf("denied by %s", d.Code)
			}
			break
		}
		n++
	}
	if n != 8 {
		t.Errorf("%d were admitted, want the 8 that are left", n)
	}
	if err := rl.Err(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Err is %v, want one that names the file", err)
	}
	if err := rl.Persist(); err == nil {
		t.Error("Persist succeeds")
	}
	if err := rl.Load(); err == nil {
		t.Error("Load succeeds")
	}
}

// holdDatabase locks a database as another program may. The test ends it.
func holdDatabase(t *testing.T, path string) (release func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return func() { db.Close() }
}

func TestSharedFailClosed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	rl := openShared(t, path, func(cfg *ratelimit.Config) { cfg.FailClosed = true })
	r := reserves(t, rl, 1)[0]
	release := holdDatabase(t, path)
	r.Commit(3, 3)
	for model, tokens := range map[string]int{"m": 1, "unknown": 1} {
		d := rl.Decide(model, tokens)
		if d.Allowed || d.Code != ratelimit.DecisionStoreError || d.Never || d.RetryAfter != 0 {
			t.Errorf("Decide on %s is %+v", model, d)
		}
		if rl.CanSend(model, tokens) {
			t.Error("CanSend allows", model)
		}
		if r, d := rl.Reserve(model, 1, 1); r != nil || d.Code != ratelimit.DecisionStoreError {
			t.Errorf("Reserve of %s is %v, %+v", model, r, d)
		}
	}
	if d := rl.Decide("m", -1); d.Code != ratelimit.DecisionInvalidTokens {
		t.Errorf("a negative estimate is %s", d.Code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := rl.Acquire(ctx, "m", 1, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire returns %v", err)
	}
	acquired := make(chan error, 1)
	go func() {
		_, err := rl.Acquire(t.Context(), "m", 1, 1)
		acquired <- err
	}()
	sharedEventually(t, "Acquire waits", func() bool { return rl.Stats("m").Waiting == 1 })
	release()
	if err := <-acquired; err != nil {
		t.Errorf("Acquire returns %v when the file is back", err)
	}
	wantRPM(t, rl, 2)
	wantRPM(t, openShared(t, path), 2)
}

// A damaged file is kept, once, and the new one begins as if all were used.
func TestSharedDamagedFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, path string)
	}{
		{"no database", func(t *testing.T, path string) { write(t, path, strings.Repeat("no database at all ", 1000)) }},
		{"short", func(t *testing.T, path string) {
			openShared(t, path).Close()
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}},
		{"a page of zeros", func(t *testing.T, path string) {
			rl := openShared(t, path)
			reserves(t, rl, 10)
			rl.Close()
			sharedShell(t, `dd if=/dev/zero of="$1" bs=4096 seek=2 count=6 conv=notrunc`, path)
		}},
	} {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, FreshStart %v", tt.name, fresh), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "state.db")
				tt.damage(t, path)
				damaged, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				var log errorLog
				var all []*ratelimit.RateLimiter
				var opening sync.WaitGroup
				var mu sync.Mutex
				for range 6 {
					opening.Go(func() {
						rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{
							Shared: true, FreshStart: fresh, OnError: log.add,
							Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxTPM: 100}, "day": {MaxRPD: 5}, "slots": {MaxInFlight: 1}},
						})
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						all = append(all, rl)
					})
				}
				opening.Wait()
				for _, rl := range all {
					d := rl.Decide("m", 1)
					switch {
					case fresh && !d.Allowed:
						t.Errorf("denied: %+v", d)
					case !fresh && (d.Allowed || d.Code != ratelimit.DecisionRPMLimit || d.RetryAfter <= 0 || d.RetryAfter > time.Minute+1):
						t.Errorf("decision %+v, want a denial for the rest of a minute", d)
					}
					for _, model := range []string{"day", "slots", "unknown"} {
						if !rl.CanSend(model, 1) {
							t.Errorf("%s is denied, which has no limit of the minute", model)
						}
					}
				}
				kept, err := filepath.Glob(path + ".corrupt-*Z")
				if err != nil || len(kept) != 1 {
					t.Fatalf("kept files: %v, %v", kept, err)
				}
				if text, err := os.ReadFile(kept[0]); err != nil || string(text) != string(damaged) {
					t.Errorf("the damaged file was changed: %v", err)
				}
				sharedEventually(t, "a report", func() bool { return log.len() > 0 })
				for _, rl := range all {
					rl.Close()
				}
				if n := log.len(); n != 1 {
					t.Errorf("reported %d times: %v", n, log.errs)
				}
				log.mu.Lock()
				defer log.mu.Unlock()
				if !errors.Is(log.errs[0], ratelimit.ErrCorruptState) {
					t.Errorf("reported: %v", log.errs[0])
				}
			})
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Files of others are refused, and left as they are.
func TestSharedRefuses(t *testing.T) {
	sqlite := func(statements ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, s := range statements {
				if _, err := db.Exec(s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"another program's database", sqlite("CREATE TABLE customers (name TEXT)"), "another program"},
		{"a newer format", sqlite("PRAGMA user_version = 103"), "format 103"},
		{"a folder", func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, "not a regular file"},
		{"a log that is not ours", sqlite("CREATE TABLE shared_events (x INTEGER)", "CREATE TABLE quotas (model TEXT PRIMARY KEY, max_rpm INTEGER, max_tpm INTEGER, max_rpd INTEGER)"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			tt.make(t, path)
			before, _ := os.ReadFile(path)
			rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Shared: true})
			if err == nil {
				rl.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) > 0 {
				t.Errorf("set aside: %v", kept)
			}
		})
	}
}

// A file is one quota of all, or the private copy of each: never both.
func TestSharedAndNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	private, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Quotas: sharedQuotas})
	if err != nil {
		t.Fatal(err)
	}
	defer private.Close()
	private.RecordUsage("m", 100, 50)
	private.RecordUsage("m", 10, 5)
	private.Cooldown("cool", time.Now().Add(time.Hour))
	if err := private.Persist(); err != nil {
		t.Fatal(err)
	}

	shared := openShared(t, path, func(cfg *ratelimit.Config) {
		cfg.Quotas, cfg.Providers = nil, []ratelimit.Provider{ratelimit.ProviderLocal}
	})
	got, want := shared.Stats("m"), private.Stats("m")
	if got.DayStart, want.DayStart = got.DayStart.UTC(), want.DayStart.UTC(); got != want {
		t.Errorf("shared it counts %+v, want %+v", got, want)
	}
	if d := shared.Decide("cool", 1); d.Code != ratelimit.DecisionCooldown {
		t.Errorf("a cooldown was lost: %+v", d)
	}
	for name, call := range map[string]func() error{"Persist": private.Persist, "Load": private.Load} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "Config.Shared") {
			t.Errorf("%s of a private copy returns %v", name, err)
		}
	}
	if rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Shared") {
		t.Errorf("a private copy of a shared file: %v, %v", rl, err)
	}
	reserves(t, shared, 1)
	shared.Close()
	wantRPM(t, openShared(t, path), 3)
}

func TestSharedConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  ratelimit.Config
		want string
	}{
		{"with YAML", ratelimit.Config{Shared: true}, "sqlite"},
		{"durability", ratelimit.Config{Backend: "sqlite", Shared: true, Durability: "for ever"}, `Durability is "for ever"`},
		{"lease", ratelimit.Config{Backend: "sqlite", Shared: true, LeaseTTL: -1}, "LeaseTTL is -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.FilePath = filepath.Join(t.TempDir(), "state.db")
			rl, err := ratelimit.NewWithConfig(tt.cfg)
			if err == nil {
				rl.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
			if files, _ := os.ReadDir(filepath.Dir(tt.cfg.FilePath)); len(files) > 0 {
				t.Errorf("left files: %v", files)
			}
		})
	}
}

func TestSharedClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	a, b := openShared(t, path), openShared(t, path)
	r := reserves(t, a, 15)[0]
	acquired := make(chan error, 1)
	go func() {
		_, err := a.Acquire(t.Context(), "m", 1, 1)
		acquired <- err
	}()
	sharedEventually(t, "Acquire waits", func() bool { return b.Stats("m").Waiting == 1 })
	if d := b.Decide("m", 1); d.Code != ratelimit.DecisionQueued {
		t.Errorf("with somebody in line in another limiter the decision is %s", d.Code)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Errorf("Close returns %v", err)
		}
	}
	if err := <-acquired; !errors.Is(err, ratelimit.ErrClosed) {
		t.Errorf("Acquire returns %v", err)
	}
	for name, d := range map[string]ratelimit.Decision{
		"Decide": a.Decide("m", 1), "Decide of an unknown": a.Decide("unknown", 1),
		"DecideRequest": a.DecideRequest(ratelimit.Request{Model: "m"}),
	} {
		if d.Allowed || d.Code != ratelimit.DecisionClosed || !d.Never {
			t.Errorf("%s is %+v", name, d)
		}
	}
	if r, d := a.Reserve("m", 1, 1); r != nil || d.Code != ratelimit.DecisionClosed {
		t.Errorf("Reserve is %v, %+v", r, d)
	}
	if rs, d := a.ReserveAll(ratelimit.Request{Model: "m"}); rs != nil || d.Code != ratelimit.DecisionClosed {
		t.Errorf("ReserveAll is %v, %+v", rs, d)
	}
	if a.CanSend("m", 1) {
		t.Error("CanSend allows")
	}
	for name, err := range map[string]error{
		"Acquire":         func() error { _, err := a.Acquire(t.Context(), "m", 1, 1); return err }(),
		"AcquireAll":      func() error { _, err := a.AcquireAll(t.Context(), ratelimit.Request{Model: "m"}); return err }(),
		"WaitForCapacity": a.WaitForCapacity(t.Context(), "unknown", 1),
		"Persist":         a.Persist(),
		"Load":            a.Load(),
	} {
		if !errors.Is(err, ratelimit.ErrClosed) {
			t.Errorf("%s returns %v", name, err)
		}
	}
	r.Commit(1, 1)
	a.RecordUsage("m", 1, 1)
	a.Reset("")
	if stats := b.Stats("m"); stats.RPM != 15 || stats.InFlight != 0 || stats.Waiting != 0 {
		t.Errorf("after the other was closed it is %+v, want its charges, without its slots", stats)
	}
	if left, _ := filepath.Glob(path + ".*.life"); len(left) != 1 {
		t.Errorf("life files: %v, want that of b", left)
	}
}
