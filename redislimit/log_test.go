package redislimit_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/redislimit"
)

const us = time.Microsecond

// entries returns how many entries the only log of the server has.
func entries(t testing.TB, s standing) int64 {
	t.Helper()
	for _, key := range s.client.Keys(t.Context(), "*").Val() {
		if s.client.Type(t.Context(), key).Val() == "list" {
			return s.client.LLen(t.Context(), key).Val()
		}
	}
	return 0
}

// A log of more units than entries dates the charges of a grain at the latest of them: it has an
// entry for each grain, and never admits early.
func TestLogIsBounded(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		const grain = 245 * us // a second / 4,095, rounded up
		l := must(redislimit.NewSlidingLog(s.client, 20_000, time.Second, redislimit.Options{Timeout: patience}))
		begin := epoch.Add(grain - time.Duration(epoch.UnixMicro()%245)*us)
		at := func(after time.Duration, n int) bool {
			t.Helper()
			s.setTime(begin.Add(after))
			return take(t, l, "k", n).OK
		}
		for i := range 300 {
			if !at(time.Duration(i)*7*us, 60) {
				t.Fatalf("charge %d is refused", i)
			}
		}
		if n, want := entries(t, s), int64(299*7/245+1); n != want {
			t.Errorf("300 charges in %v have %d entries, want %d", 299*7*us, n, want)
		}
		at(299*7*us, 2000)
		// The first grain has the charges at 0, 7, … 238 µs.
		for _, r := range []struct {
			after time.Duration
			ok    bool
		}{{time.Second, false}, {time.Second + 237*us, false}, {time.Second + 238*us, true}} {
			if got := at(r.after, 1); got != r.ok {
				t.Errorf("%v later a unit passes: %t, want %t", r.after, got, r.ok)
			}
		}
	})
}

// Several entries leave at once, also one to the microsecond.
func TestLogForgetsToTheMicrosecond(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		l := must(redislimit.NewSlidingLog(s.client, 4, time.Second, redislimit.Options{Timeout: patience}))
		checkRows(t, s, l, "k", []row{
			{0, 1, true, 3, s1, 0, 0}, {10 * us, 1, true, 2, s1, 0, 0}, {20 * us, 1, true, 1, s1, 0, 0}, {30 * us, 1, true, 0, s1, 0, 0},
			{s1 - us, 3, false, 0, 31 * us, 21 * us, 0},
			{s1 + 19*us, 0, true, 2, 11 * us, 0, 0},
			{s1 + 20*us, 0, true, 3, 10 * us, 0, 0},
			{s1 + 30*us, 0, true, 4, 0, 0, 0},
		})
	})
}

// What is cancelled leaves nothing behind.
func TestCancelledEntriesAreGone(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		g := newGroup(s)
		l := must(redislimit.NewSlidingLog(s.client, 10, time.Hour, redislimit.Options{Timeout: patience}))
		s.setTime(epoch)
		take(t, l, "k", 1)
		for i := range 50 {
			s.setTime(epoch.Add(time.Duration(i+1) * us))
			h, _, err := g.HoldAll(t.Context(), redislimit.Charge{Limiter: l, Key: "k", N: 9})
			if err != nil || h.ID() == "" {
				t.Fatalf("hold %d: %+v, %v", i, h, err)
			}
			if err := h.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := entries(t, s); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
	})
}
