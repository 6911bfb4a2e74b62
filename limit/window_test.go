package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Equivalent mutants of cells.go and cellcounter.go:
//   - Other numbers of cells in at: they only tell which cells adjoin.
//   - Round(1) for Round(0): both drop the monotonic reading.
//   - at with ahead == 0, and sum at the longest Duration: both ways give the same.
//   - within that refuses ahead == 0, or leaves the zero time to the length: Allow takes the
//     longer way then. The same holds for Allow that always takes it, and for pair.sum that
//     weighs a previous count of 0 (internal/bench, BenchmarkLimit).
//   - endLocked that has an anchored cell not begun after the end of an older hold: an empty
//     cell without a hold has not.
//   - end that notifies waiters of a hold that had ended before: they look and wait on.

func newWindow(t *testing.T, kind windowKind, n int, window time.Duration) windowLimiter {
	t.Helper()
	l, err := kind.make(n, window)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWindowsRefuse(t *testing.T) {
	for _, kind := range windowKinds {
		for _, c := range []struct {
			limit  int
			window time.Duration
			want   string
		}{
			{0, time.Second, "limit is 0, want 1 or more"},
			{-1, time.Second, "limit is -1, want 1 or more"},
			{math.MinInt, time.Second, fmt.Sprintf("limit is %d, want 1 or more", math.MinInt)},
			{1, 0, "window is 0s, want more than 0"},
			{1, -time.Second, "window is -1s, want more than 0"},
			{1, 1<<60 + 1, "window is 320255h58m24.606846977s, want at most 320255h58m24.606846976s"},
		} {
			l, err := kind.make(c.limit, c.window)
			if l != nil || !errors.Is(err, limit.ErrInvalid) || !endsIn(err.Error(), c.want) {
				t.Errorf("%s of %d in %v: %v, want %q", kind.name, c.limit, c.window, err, c.want)
			}
		}
		if _, err := kind.make(math.MaxInt, 1<<60); err != nil {
			t.Errorf("%s: the largest: %v", kind.name, err)
		}
	}
}

func endsIn(s, end string) bool { return len(s) >= len(end) && s[len(s)-len(end):] == end }

// What a whole window's worth of units leaves at the edges of the window.
func TestWindowsAreHalfOpen(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, kind := range windowKinds {
		if kind.name == "counter" {
			continue // it forgets gradually
		}
		l := newWindow(t, kind, 3, time.Second)
		l.TakeAt(start, 3)
		want := limit.Decision{RetryAfter: 1, ResetAfter: 1}
		if d := l.TakeAt(start.Add(time.Second-1), 1); d != want {
			t.Errorf("%s, a nanosecond early: %+v", kind.name, d)
		}
		want = limit.Decision{OK: true, Remaining: 0, ResetAfter: time.Second}
		if d := l.TakeAt(start.Add(time.Second), 3); d != want {
			t.Errorf("%s, at its end: %+v", kind.name, d)
		}
	}
}

// What is asked, refused or never possible leaves no trace, not even in what counts as
// the latest instant.
func TestWindowsKeepNoTraceOfRefusals(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	later := start.Add(time.Hour)
	for _, kind := range windowKinds {
		l := newWindow(t, kind, 3, time.Minute)
		l.TakeAt(start, 3)
		for _, n := range []int{0, -1, 4, math.MaxInt, math.MinInt} {
			want := limit.Decision{OK: n == 0, Remaining: 3, Never: n != 0}
			if d := l.TakeAt(later, n); d != want {
				t.Errorf("%s, %d units: %+v, want %+v", kind.name, n, d, want)
			}
			h, d := l.HoldAt(later, n)
			if d != want || h != (limit.Hold{}) {
				t.Errorf("%s, hold of %d units: %+v, want %+v", kind.name, n, d, want)
			}
		}
		if d := l.TakeAt(start, 1); d.OK || d.RetryAfter <= 0 {
			t.Errorf("%s, back at the start: %+v", kind.name, d)
		}
	}
}

// What is on hold takes its place in every window until it ends; then it counts in its
// own.
func TestWindowsOfHolds(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, kind := range windowKinds {
		for _, c := range []struct {
			name   string
			end    func(limit.Hold)
			after  time.Duration // from the hold to its end
			remain int
		}{
			{"committed at once", limit.Hold.Commit, 0, 1},
			{"cancelled at once", limit.Hold.Cancel, 0, 3},
			{"committed when its window is over", limit.Hold.Commit, 5 * time.Second, 3},
			{"cancelled when its window is over", limit.Hold.Cancel, 5 * time.Second, 3},
		} {
			l := newWindow(t, kind, 3, time.Second)
			hold, d := l.HoldAt(start, 2)
			if want := (limit.Decision{OK: true, Remaining: 1}); d != want {
				t.Errorf("%s: hold: %+v, want %+v", kind.name, d, want)
			}
			at := start.Add(c.after)
			if d := l.TakeAt(at, 2); d.OK || d.Never || d.RetryAfter != 0 || d.Remaining != 1 {
				t.Errorf("%s, on hold: %+v", kind.name, d)
			}
			if c.after > 0 {
				l.TakeAt(at, 1)
				c.remain--
			}
			c.end(hold)
			hold.Commit()
			hold.Cancel()
			if d := l.TakeAt(at, 0); d.Remaining != c.remain {
				t.Errorf("%s, %s: %d remain, want %d", kind.name, c.name, d.Remaining, c.remain)
			}
		}
	}
}

// A hold begins an anchored window as a charge does. If it is cancelled the window stays
// for what else is in it, and has never been if there is nothing.
func TestAnchoredWindowThatAHoldBegins(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name string
		play func(a *limit.AnchoredWindow) limit.Hold
		ends int // of the window, in ms after start
	}{
		{"nothing else", func(a *limit.AnchoredWindow) limit.Hold { h, _ := a.HoldAt(at(0), 1); return h }, 1500},
		{"a charge", func(a *limit.AnchoredWindow) limit.Hold {
			h, _ := a.HoldAt(at(0), 1)
			a.TakeAt(at(100), 1)
			return h
		}, 1000},
		{"another hold", func(a *limit.AnchoredWindow) limit.Hold {
			h, _ := a.HoldAt(at(0), 1)
			a.HoldAt(at(100), 1)
			return h
		}, 1000},
		{"another hold, cancelled", func(a *limit.AnchoredWindow) limit.Hold {
			h, _ := a.HoldAt(at(0), 1)
			other, _ := a.HoldAt(at(100), 1)
			other.Cancel()
			return h
		}, 1500},
		{"a charge in the next", func(a *limit.AnchoredWindow) limit.Hold {
			h, _ := a.HoldAt(at(-900), 1)
			a.TakeAt(at(200), 1)
			return h
		}, 1200},
	} {
		a, _ := limit.NewAnchoredWindow(5, time.Second)
		c.play(a).Cancel()
		if d := a.TakeAt(at(500), 1); d.ResetAfter != time.Duration(c.ends-500)*time.Millisecond {
			t.Errorf("%s: ends in %v, want %d ms after the start", c.name, d.ResetAfter, c.ends)
		}
	}
}

// No window admits more than the limit, with concurrent requests and with holds that end
// either way.
func TestWindowsAreSafe(t *testing.T) {
	for _, kind := range windowKinds {
		const most = 100
		l := newWindow(t, kind, most, time.Minute)
		now := time.Unix(1_800_000_000, 0)
		var admitted atomic.Int64
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 100 {
					switch (g + i) % 4 {
					case 0:
						if h, d := l.HoldAt(now, 1); d.OK {
							admitted.Add(1)
							h.Commit()
						}
					case 1:
						h, _ := l.HoldAt(now, 2)
						h.Cancel()
					default:
						if l.TakeAt(now, 1).OK {
							admitted.Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		for l.TakeAt(now, 1).OK {
			admitted.Add(1)
		}
		if admitted.Load() != most {
			t.Errorf("%s: admitted %d, want %d", kind.name, admitted.Load(), most)
		}
	}
}

// Waiters pass at the end of the window, or when a hold is cancelled.
func TestWindowsWait(t *testing.T) {
	type waiter interface {
		WaitN(ctx context.Context, n int) error
		Allow() bool
	}
	for _, kind := range windowKinds {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now().Truncate(time.Second).Add(time.Second)
			time.Sleep(time.Until(start))
			l := newWindow(t, kind, 2, time.Second)
			w := l.(waiter)
			l.Take(2)
			if err := w.WaitN(context.Background(), 2); err != nil {
				t.Fatal(err)
			}
			want := time.Second
			if kind.name == "counter" { // until of 2 units less than one counts
				want = 1500*time.Millisecond + 1
			}
			if took := time.Since(start); took != want {
				t.Errorf("%s: waited %v, want %v", kind.name, took, want)
			}
			if w.Allow() {
				t.Errorf("%s: one more passed", kind.name)
			}
			if err := w.WaitN(context.Background(), 3); !errors.Is(err, limit.ErrNeverFits) {
				t.Errorf("%s: more than the limit: %v", kind.name, err)
			}
			time.Sleep(time.Hour)
			hold, _ := l.HoldAt(time.Now(), 2)
			given := time.Now().Add(time.Minute)
			time.AfterFunc(time.Minute, hold.Cancel)
			if err := w.WaitN(context.Background(), 1); err != nil || !time.Now().Equal(given) {
				t.Errorf("%s: waited for a hold until %v, want %v: %v", kind.name, time.Now(), given, err)
			}
		})
	}
}
