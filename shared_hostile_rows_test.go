package ratelimit

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"
)

// A waiter of nobody, as a file has it that somebody else wrote.
func TestSharedHostileRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path, withQuota("m", ModelQuota{MaxInFlight: 3, MaxRPM: 100}))
	f, err := openLedgerFile(path, "NORMAL")
	if err != nil {
		t.Fatal(err)
	}
	seq := a.ledger.seen
	for _, e := range []*event{
		{kind: eventWait, process: 0, n: 1, text: `[{"Model":"m","PromptTokens":1}]`},
		{kind: eventWait, process: 5, n: 1, text: `[{"Model":"m","PromptTokens":1}]`},
		{kind: eventWait, process: 5, n: 1, text: `[{"Model":"m","PromptTokens":1}]`},
		{kind: eventWait, process: 5, n: 2, text: `[{"Model":"m","PromptTokens":-1}]`},
		{kind: eventWait, process: 5, n: 3, text: `[]`},
		{kind: eventWait, process: -5, n: 3, text: `{`},
		{kind: eventReserve, process: 6, n: 1, model: "m", requests: 1},
		{kind: eventReserve, process: 6, n: 1, model: "m", requests: 1},
		{kind: eventReserve, process: 0, n: 1, model: "m", requests: 1},
		{kind: eventUse, process: 7, n: 1, model: "old", requests: 1, wall: -1 << 63, age: 1<<63 - 1},
		{kind: eventUse, process: 7, n: 2, model: "old", requests: 1, wall: 1, age: 1<<63 - 1},
		{kind: eventUse, process: 7, n: 3, model: "", requests: -1, wall: 1<<63 - 1, mono: 1<<63 - 1},
		{kind: eventAmend, process: 7, n: 4, ref: 99, model: "x", amount: amount{-1, math.MaxInt}},
		{kind: eventMove, process: 7, n: 5, ref: 98, model: "x", amount: amount{math.MaxInt, math.MaxInt}, age: -1},
		{kind: 99, process: 7, n: 6},
		{kind: -1, process: 7, n: 7, ref: -1 << 63},
		{kind: eventDay, process: 7, n: 8, model: "d", hasDay: true, day: usageDay{start: -1 << 63, count: 1<<63 - 1, tokens: -1 << 63}},
		{kind: eventDay, process: 7, n: 9, model: "d2", hasDay: true, day: usageDay{start: 1<<63 - 1, count: 1<<63 - 1, tokens: 1<<63 - 1}},
		{kind: eventGone, process: 7, n: 10, ref: 77},
		{kind: eventCooldown, process: 7, n: 11, model: "x", wall: 1<<63 - 1},
		{kind: eventReset, process: 7, n: 12, model: "x"},
	} {
		seq++
		if err := f.writer.write(e, seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ledger.lock.stamp(seq); err != nil {
		t.Fatal(err)
	}
	f.close()
	a.RecordUsage("m", 1, 1)
	check := func(rl *RateLimiter) {
		t.Helper()
		// The others are dead, so what they held is free again.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var rs []*Reservation
		for range 3 {
			r, err := rl.Acquire(ctx, "m", 1, 1)
			if err != nil {
				t.Fatalf("%v: %+v", err, rl.Stats("m"))
			}
			rs = append(rs, r)
		}
		for _, r := range rs {
			r.Cancel()
		}
		if n := rl.Stats("old").RPM; n != 0 {
			t.Errorf("what is older than a minute counts: %d", n)
		}
		for _, name := range []string{"", "d", "d2", "x"} {
			rl.Decide(name, 1)
		}
		if err := rl.Err(); err != nil {
			t.Error(err)
		}
	}
	check(a)
	check(openHostile(t, path, func(*Config) {}))
}
