package keyed_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// A request asks the origin first if it takes what was charged since the last reply above a
// sixteenth of what is left, unless that reply has just come.
func TestBold(t *testing.T) {
	const ms = time.Millisecond
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		begin := time.Now()
		for i, step := range []struct {
			at     time.Duration
			cost   int64
			faults keyedtest.Faults
			reads  int
		}{
			{at: 0, cost: 0, reads: 1},
			{at: 9*ms - 1, cost: 10, reads: 0}, // young; 90 are left
			{at: 1000 * ms, cost: 0, reads: 0}, // a peek charges nothing
			{at: 1000 * ms, cost: 5, reads: 0}, // 85 are left, of which 5 is a sixteenth
			{at: 1009*ms - 1, cost: 6, reads: 0},
			{at: 1018 * ms, cost: 5, reads: 1}, // a replay told the counts of 9 ms before
			{at: 2000 * ms, cost: 2, faults: failing, reads: 0},
			{at: 2010 * ms, cost: 2, faults: failing, reads: 0},
			{at: 2020 * ms, cost: 1, faults: failing, reads: 1}, // 69 are left, and no reply came
			{at: 2200 * ms, cost: 1, faults: failing, reads: 0}, // too early for another attempt
			{at: 2400 * ms, cost: 1, faults: failing, reads: 1},
			{at: 7000 * ms, cost: 1, reads: 1},
		} {
			time.Sleep(time.Until(begin.Add(step.at)))
			origin.Set(step.faults)
			before := origin.Calls("Read")
			if d := takeNow(t, l, costing(perMinute("a", 100), int(step.cost))); !d.OK {
				t.Errorf("step %d: %+v", i, d)
			}
			if got := origin.Calls("Read") - before; got != step.reads {
				t.Errorf("step %d: %d reads, want %d", i, got, step.reads)
			}
			synctest.Wait()
		}
	})
}

// What others charged since the last reply is seen before the limit goes to one process twice.
func TestBoldSeesOthers(t *testing.T) {
	for name, take := range map[string]func(*testing.T, *keyed.Limiter, keyed.Request) bool{
		"Take": func(t *testing.T, l *keyed.Limiter, r keyed.Request) bool { return takeNow(t, l, r).OK },
		"TakeAll": func(t *testing.T, l *keyed.Limiter, r keyed.Request) bool {
			ds, err := l.TakeAll(t.Context(), costing(r, 1), costing(r, r.Cost-1))
			return err == nil && ds[0].OK && ds[1].OK
		},
		"Hold": func(t *testing.T, l *keyed.Limiter, r keyed.Request) bool {
			h, d, err := l.Hold(t.Context(), r)
			h.Cancel()
			return err == nil && d.OK
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				origin := keyedtest.NewOrigin()
				l := shared(t, keyed.Options{Origin: origin})
				r := perMinute("a", 100)
				takeNow(t, l, r)
				time.Sleep(time.Second)
				origin.Charge(cellOf(r), 90)
				if take(t, l, costing(r, 10)) {
					t.Error("10 passed on 91 of 100")
				}
				if !take(t, l, costing(r, 9)) {
					t.Error("9 did not pass on 91 of 100")
				}
			})
		})
	}
}

// Bold requests that come together share a read, and wait for an origin that is away once.
func TestBoldRequestsShareARead(t *testing.T) {
	for _, test := range []struct {
		name   string
		faults keyedtest.Faults
		passes int64
	}{
		{"slow", keyedtest.Faults{Delay: 75 * time.Millisecond}, 1},
		{"away", keyedtest.Faults{Hang: true}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				origin := keyedtest.NewOrigin()
				l := shared(t, keyed.Options{Origin: origin})
				r := costing(perMinute("a", 100), 10)
				takeNow(t, l, costing(r, 0))
				time.Sleep(time.Second)
				origin.Charge(cellOf(r), 90)
				origin.Set(test.faults)
				begin := time.Now()
				var calls sync.WaitGroup
				var passed atomic.Int64
				for range 10 {
					time.Sleep(time.Millisecond)
					calls.Go(func() {
						if takeNow(t, l, r).OK {
							passed.Add(1)
						}
					})
				}
				calls.Wait()
				if took := time.Since(begin); took > 301*time.Millisecond || passed.Load() != test.passes {
					t.Errorf("%d passed in %v, want %d", passed.Load(), took, test.passes)
				}
				wantCalls(t, origin, "Read", 2)
				origin.Set(keyedtest.Faults{})
			})
		})
	}
}

// What was committed since the last reply counts as well.
func TestBoldAfterCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		origin := keyedtest.NewOrigin()
		l := shared(t, keyed.Options{Origin: origin})
		r := perMinute("a", 100)
		h, _, err := l.Hold(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		origin.Set(keyedtest.Faults{Delay: 50 * time.Millisecond})
		h.Commit(50)
		takeNow(t, l, r) // before the reply to the commit
		wantCalls(t, origin, "Read", 2)
	})
}
