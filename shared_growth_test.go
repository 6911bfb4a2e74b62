//go:build !nosqlite

// Shared: nothing grows with time.

package ratelimit

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// What a shared limiter needs does not grow with the time that it runs, nor with the
// names that it has ever heard: not the file and its log, not the rows of its tables,
// and not what is in memory. One of the limiters has the file open all the time and does
// nothing for hours on end, one only reads, and one is closed and opened again now and
// then.
func TestSharedDoesNotGrow(t *testing.T) {
	days, perDay := 4, 1000/min(racetest.Factor, 4)
	if os.Getenv("RATELIMIT_LONG") != "" {
		days, perDay = 30, 4000
	}
	const (
		models    = 60 // without a quota of their own, at a time
		names     = 8  // of those that have one
		newNames  = 3  // so many of the calls are for a model that there was before
		pause     = 2 * time.Second
		openMost  = 20 // reservations at a time
		perMinute = int(time.Minute/pause) + 1
	)
	// A call makes two events at most, and some of them are reservations that stay open.
	// A limiter deletes events when there are sharedlog.SweepFrom of them.
	rowsMost := int64(perMinute*2*2 + 2*sharedlog.SweepFrom + openMost + 10)
	most := map[string]int64{
		"rows of shared_events": rowsMost, "rows of processes": 4, "rows of facts": 10, "rows of quotas": names + 1,
		// These two are deleted when they are days old.
		"rows of daily": int64(4 * perDay / newNames), "rows of cooldowns": int64(3 * perDay / 10),
		"state": models + names, "gates": models + names + openMost, "quotas": names + 1, "supplied": names + 1,
		"cooldowns": models, "peers": 4, "tail": rowsMost + sharedlog.SweepMost + 100, "storage of the tail": 4096,
		"outbox": 0, "pending drops": 2 * sharedlog.SweepMost, "abandoned": 0, "served": 0,
		"file": 3 << 20, "log": 5 << 20, "heap": 3 << 20,
	}

	path := filepath.Join(t.TempDir(), "state.db")
	highest := make(map[string]int64)
	synctest.Test(t, func(t *testing.T) {
		open := func() *RateLimiter {
			rl, err := NewWithSQLiteConfig(path, Config{
				Shared: true, LeaseTTL: time.Hour, // or renewing it takes longer than all the rest
				MaxModels: models, Quotas: map[string]ModelQuota{everyModel: {MaxRPM: 100}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return rl
		}
		idle, reads, busy := open(), open(), open()
		check := func(when, what string, got int64) {
			highest[what] = max(highest[what], got)
			if limit, ok := most[what]; !ok || got > limit {
				t.Errorf("%s: %s: %d, want %d at most", when, what, got, limit)
			}
		}
		measure := func(when string, rl *RateLimiter) {
			for name, suffix := range map[string]string{"file": "", "log": "-wal"} {
				info, err := os.Stat(path + suffix)
				if err != nil {
					t.Fatal(err)
				}
				check(when, name, info.Size())
			}
			for _, table := range []string{"shared_events", "processes", "facts", "daily", "quotas", "cooldowns"} {
				check(when, "rows of "+table, sqliteNumber(t, path, "SELECT count(*) FROM "+table))
			}
			rl.mu.Lock()
			defer rl.mu.Unlock()
			s := rl.ledger
			for what, n := range map[string]int{
				"state": len(rl.State), "gates": len(rl.lines.allSlots), "quotas": len(rl.Quotas), "supplied": len(rl.provenance.Supplied()),
				"cooldowns": len(rl.cooldowns), "peers": s.peers.Len(), "tail": len(s.tail.Live()),
				"storage of the tail": reflect.ValueOf(s.tail).FieldByName("events").Cap(),
				"outbox":              len(s.outbox.Events()), "pending drops": reflect.ValueOf(s.tail).FieldByName("drops").Len(), "abandoned": len(s.garbage.reservations), "served": len(s.lines.served),
			} {
				check(when, what, int64(n))
			}
		}
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}

		r := rand.New(rand.NewPCG(1, 2))
		calls, heard := 0, 0
		before := int64(0)
		var held []*Reservation
		settle := func(i int) {
			if r.IntN(3) == 0 {
				held[i].Cancel()
			} else {
				held[i].Commit(r.IntN(50), r.IntN(50))
			}
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
		for day := range days {
			when := fmt.Sprintf("day %d", day)
			for call := range perDay {
				calls++
				if call%(perDay/10) == 0 {
					measure(when, busy)
					measure(when+", the one that reads", reads)
				}
				if call == perDay/2 && day%2 == 1 {
					for len(held) > 0 {
						settle(0)
					}
					if err := busy.Close(); err != nil {
						t.Fatal(err)
					}
					busy = open()
				}
				model := fmt.Sprint("model ", heard)
				switch r.IntN(newNames) {
				case 0:
					heard++
				case 1:
					model = fmt.Sprint("model ", max(heard-r.IntN(20), 0))
				}
				switch n := r.IntN(100); {
				case n < 40:
					if made, _ := busy.Reserve(model, r.IntN(20), 10); made != nil {
						held = append(held, made)
					}
				case n < 70 && len(held) > 0:
					settle(r.IntN(len(held)))
				case n < 80:
					busy.Cooldown(model, time.Now().Add(time.Duration(r.IntN(20))*time.Second))
				case n < 81:
					busy.SetQuota(fmt.Sprint("own ", r.IntN(names)), ModelQuota{MaxRPM: 5 + r.IntN(5), MaxRPD: 1000})
				case n < 82:
					busy.Reset(model)
				case n < 86:
					busy.RecordUsage(fmt.Sprint("own ", r.IntN(names)), 1, 1)
				default:
					busy.RecordUsage(model, 1, 1)
				}
				if call%5 == 0 {
					reads.Stats("own 1")
				}
				if len(held) >= openMost {
					settle(0)
				}
				time.Sleep(pause)
			}
			if day%2 == 0 { // on the others it does not look for more than a day
				idle.RecordUsage("own 1", 1, 1)
				measure(when+", the idle one", idle)
			}
			if now := heap(); day == 1 {
				before = now
			} else if day > 1 {
				check(when, "heap", now-before)
			}
			time.Sleep(24*time.Hour - time.Duration(perDay)*pause)
		}
		for len(held) > 0 {
			settle(0)
		}
		if err := errors.Join(busy.Err(), idle.Err(), reads.Err(), busy.Close(), idle.Close(), reads.Close()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d calls in %d days, %d names; at most %v", calls, days, heard, highest)
	})
	// The last Close leaves the database alone.
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", suffix, err)
		}
	}
	if left, err := filepath.Glob(path + ".*.life"); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}
