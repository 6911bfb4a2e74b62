//go:build !nosqlite

// Shared: waiting in several limiters of one file.

package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// waitQuotas are those of the tests of waiters: ten requests a minute of "a", two calls at once
// of "b".
func waitQuotas(cfg *ratelimit.Config) {
	cfg.LeaseTTL = time.Hour
	cfg.Quotas = map[string]ratelimit.ModelQuota{"a": {MaxRPM: 10, MaxTPM: 300}, "b": {MaxInFlight: 2, MaxTPM: 300}}
}

// The waiters of several limiters of one file, for one model or for two, are all served within the
// quota, and leave nothing behind.
func TestSharedWaiters(t *testing.T) {
	t.Parallel()
	for seed := range times(3, 1, 500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			synctest.Test(t, func(t *testing.T) {
				sharedWaiters(t, uint64(seed), func() *ratelimit.RateLimiter { return openShared(t, path, waitQuotas) })
			})
		})
	}
}

// The same over a log in memory, where another limiter makes a step before each third Commit.
func TestSharedWaitersWhateverConflicts(t *testing.T) {
	overFakes(t, times(12, 4, 1000), func(t *testing.T, seed int, fake *sharedlogtest.Fake) {
		open := func() (*ratelimit.RateLimiter, int64) {
			var cfg ratelimit.Config
			waitQuotas(&cfg)
			rl, process, err := ratelimit.NewOverFake(fake, cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl, process
		}
		between, process := open()
		var mu sync.Mutex
		random, conflicts := rand.New(rand.NewPCG(uint64(seed), 10)), 0
		fake.Before = func(by int64) error {
			if by == process {
				return nil
			}
			mu.Lock()
			conflict := random.IntN(3) == 0
			if conflict {
				conflicts++
			}
			mu.Unlock()
			if conflict {
				between.RecordUsage("other", 1, 1)
			}
			return nil
		}
		sharedWaiters(t, uint64(seed), func() *ratelimit.RateLimiter { rl, _ := open(); return rl })
		if conflicts < 10 {
			t.Errorf("%d conflicts", conflicts)
		}
		between.Close()
	})
}

// sharedWaiters has calls wait in three limiters.
func sharedWaiters(t *testing.T, seed uint64, open func() *ratelimit.RateLimiter) {
	const perMinute = 10
	const waiters = 25
	random := rand.New(rand.NewPCG(seed, 9))
	limiters := []*ratelimit.RateLimiter{open(), open(), open()}
	var mu sync.Mutex
	served := 0
	var admitted []time.Time
	var all sync.WaitGroup
	for i := range waiters {
		rl := limiters[random.IntN(3)]
		tokens := 1 + random.IntN(100)
		both := random.IntN(4) == 0
		takes := time.Duration(random.Int64N(int64(20 * time.Second)))
		all.Go(func() {
			reqs := []ratelimit.Request{{Model: "a", PromptTokens: tokens}, {Model: "b", OutputTokens: tokens}}
			if !both {
				reqs = reqs[i%2 : i%2+1]
			}
			rs, err := rl.AcquireAll(t.Context(), reqs...)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if served++; reqs[0].Model == "a" {
				admitted = append(admitted, rs[0].ReservedAt())
			}
			mu.Unlock()
			time.Sleep(takes)
			for _, r := range rs {
				r.Commit(tokens, 0)
			}
		})
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
	}
	all.Wait()
	if served != waiters {
		t.Fatalf("%d were served", served)
	}
	slices.SortFunc(admitted, time.Time.Compare)
	for i := range admitted {
		if j := i + perMinute; j < len(admitted) && admitted[j].Sub(admitted[i]) <= time.Minute {
			t.Errorf("%d admissions within %v", perMinute+1, admitted[j].Sub(admitted[i]))
		}
	}
	for _, rl := range limiters {
		if stats := rl.Stats("b"); stats.InFlight != 0 || stats.Waiting != 0 {
			t.Errorf("in the end it is %+v", stats)
		}
		rl.Close()
	}
}

// Of one model, first come is first served, and at once.
func TestSharedFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		slots := func(cfg *ratelimit.Config) {
			cfg.Quotas = map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}
		}
		limiters := []*ratelimit.RateLimiter{openShared(t, path, slots), openShared(t, path, slots), openShared(t, path, slots)}
		first, _ := limiters[0].Reserve("m", 1, 1)
		const n = 12
		type turn struct {
			i    int
			late time.Duration
		}
		turns := make(chan turn, n)
		var freed atomic.Int64 // when the slot was given back last
		for i := range n {
			go func() {
				r, err := limiters[i%3].Acquire(t.Context(), "m", 1, 1)
				if err != nil {
					t.Error(err)
				}
				turns <- turn{i, time.Since(time.Unix(0, freed.Load()))}
				time.Sleep(time.Second)
				freed.Store(time.Now().UnixNano())
				r.Commit(1, 1)
			}()
			synctest.Wait()
		}
		for _, rl := range limiters {
			if d := rl.Decide("m", 1); d.Stats.Waiting != n || d.Code != ratelimit.DecisionQueued && d.Code != ratelimit.DecisionInFlightLimit {
				t.Errorf("while %d wait the decision is %+v", n, d)
			}
		}
		freed.Store(time.Now().UnixNano())
		first.Cancel()
		for i := range n {
			got := <-turns
			if got.i != i {
				t.Errorf("number %d was served as number %d", got.i, i)
			}
			if got.late > sharedHandOver {
				t.Errorf("number %d was served %v late", i, got.late)
			}
		}
		time.Sleep(2 * time.Second)
		for _, rl := range limiters {
			rl.Close()
		}
	})
}

// A waiter that gives up does not hold up the line behind it, in any limiter.
func TestSharedWaiterLeaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		tokens := func(cfg *ratelimit.Config) {
			cfg.Quotas = map[string]ratelimit.ModelQuota{"m": {MaxTPM: 100}}
		}
		a, b := openShared(t, path, tokens), openShared(t, path, tokens)
		a.RecordUsage("m", 50, 0)
		ctx, cancel := context.WithCancel(t.Context())
		large := make(chan error, 1)
		go func() { _, err := a.Acquire(ctx, "m", 90, 0); large <- err }()
		synctest.Wait()
		small := make(chan error, 1)
		var r *ratelimit.Reservation
		go func() {
			var err error
			r, err = b.Acquire(t.Context(), "m", 10, 0)
			small <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		if d := b.Decide("m", 1); d.Code != ratelimit.DecisionQueued {
			t.Errorf("behind a large request the decision is %+v", d)
		}
		cancel()
		left := time.Now()
		if err := <-large; err != context.Canceled {
			t.Errorf("the large request ends with %v", err)
		}
		if err := <-small; err != nil {
			t.Error(err)
		}
		if late := time.Since(left); late > sharedHandOver {
			t.Errorf("the small one was served %v later", late)
		}
		runtime.KeepAlive(r)
		a.Close()
		b.Close()
	})
}

// Under any umask all files are for their owner alone.
func TestSharedFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	path := filepath.Join(t.TempDir(), "folder", "state.db")
	rl := openShared(t, path)
	rl.RecordUsage("m", 1, 1)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) < 5 {
		t.Fatal(entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", entry.Name(), info.Mode(), err)
		}
	}
}
