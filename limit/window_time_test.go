package limit_test

import (
	"math"
	"math/big"
	"testing"
	"time"
	"unsafe"

	"dappco.re/go/core/go-ratelimit/limit"
)

// A clock that goes back, also by more than a Duration holds, never makes room; and the
// wait is that until the end of the window as it is.
func TestWindowsOfAClockThatGoesBack(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, kind := range windowKinds {
		for _, c := range []struct {
			back, want time.Duration
		}{
			{1, time.Minute + 1},
			{time.Hour, time.Hour + time.Minute},
			{100 * 365 * 24 * time.Hour, 100*365*24*time.Hour + time.Minute},
			{math.MaxInt64 - time.Minute, math.MaxInt64},
			{math.MaxInt64, math.MaxInt64},
		} {
			if kind.name == "counter" && c.want < math.MaxInt64 {
				c.want++ // in the next cell all of it counts at first
			}
			l := newWindow(t, kind, 3, time.Minute)
			l.TakeAt(start, 3)
			if d := l.TakeAt(start.Add(-c.back), 1); d.OK || d.Remaining != 0 || d.RetryAfter != c.want {
				t.Errorf("%s, back by %v: %+v, want to retry after %v", kind.name, c.back, d, c.want)
			}
		}
		l := newWindow(t, kind, 3, time.Minute)
		l.TakeAt(start, 3)
		if d := l.TakeAt(time.Unix(-1<<40, 0), 1); d.OK || d.RetryAfter != math.MaxInt64 || d.ResetAfter != math.MaxInt64 {
			t.Errorf("%s, far back: %+v", kind.name, d)
		}
	}
}

// What is charged at an earlier instant counts from the latest on.
func TestWindowsEnterThePastAsTheLatest(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, kind := range windowKinds {
		l := newWindow(t, kind, 3, time.Minute)
		l.TakeAt(start, 1)
		if d := l.TakeAt(start.Add(-time.Hour), 2); !d.OK {
			t.Fatalf("%s: %+v", kind.name, d)
		}
		if d := l.TakeAt(start.Add(time.Minute-1), 3); d.OK {
			t.Errorf("%s: what came an hour early has left: %+v", kind.name, d)
		}
	}
}

// However long nothing came, and however short the window is, the next decision does not
// count what lies between.
func TestWindowsJumpOverWhatIsIdle(t *testing.T) {
	for _, kind := range windowKinds {
		for _, idle := range []time.Duration{1 << 61, 1<<62 + 1, math.MaxInt64} {
			l := newWindow(t, kind, 3, 1)
			start := time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC)
			l.TakeAt(start, 3)
			for _, at := range []time.Time{start.Add(idle), time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
				want := limit.Decision{OK: true, Remaining: 1, ResetAfter: 1}
				if kind.name == "counter" {
					want.ResetAfter++ // in the next cell all of it counts, for its one nanosecond
				}
				if d := l.TakeAt(at, 2); d != want {
					t.Errorf("%s, after %v: %+v, want %+v", kind.name, idle, d, want)
				}
			}
		}
	}
}

// What came 30 years ago counts in a window of 36, in every century.
func TestWindowsOfDecades(t *testing.T) {
	year := func(y int) time.Time { return time.Date(1900+y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, kind := range windowKinds[1:3] {
		l := newWindow(t, kind, 3, 1<<60)
		for i := range 100 {
			if d := l.TakeAt(year(10*i), 1); d.OK != (i%4 != 3) {
				t.Errorf("%s, decade %d: %+v", kind.name, i, d)
			}
		}
	}
	// After a charge of the year 0 a hold of 60, and charges of 75 and more.
	for _, c := range []struct {
		charged       []int
		asked, remain int
	}{
		{[]int{75}, 75, 8},
		{[]int{75}, 96, 8},
		{[]int{75}, 97, 9},
		{[]int{75}, 112, 10},
		{[]int{75, 90}, 96, 7},
		{[]int{75, 90}, 97, 8},
		{[]int{75, 100}, 100, 8}, // the hold has left
		{[]int{75, 400}, 400, 9},
		{[]int{75, 400, 800, 1200, 1600}, 1600, 9},
	} {
		l, _ := limit.NewSlidingLog(10, 1<<60)
		l.TakeAt(year(0), 1)
		hold, _ := l.HoldAt(year(60), 1)
		for _, y := range c.charged {
			l.TakeAt(year(y), 1)
		}
		hold.Commit()
		if d := l.TakeAt(year(c.asked), 0); d.Remaining != c.remain {
			t.Errorf("charged in %v, asked in %d: %d remain, want %d", c.charged, c.asked, d.Remaining, c.remain)
		}
	}
}

// The cells of the calendar are right at any time, also where nanoseconds since the epoch
// do not fit an int64.
func TestFixedWindowCells(t *testing.T) {
	for _, seconds := range []int64{0, -1, 1, 1_800_000_000, -9_300_000_000, -62_135_596_800, 9_300_000_000, 18_446_744_073, 253_402_300_799, 1 << 55, -1 << 55, 1 << 62, -1 << 62} {
		for _, window := range []time.Duration{1, 2, 7, 999_999_937, time.Second, time.Minute, 7 * time.Hour, 1<<60 - 1, 1 << 60} {
			for _, nanoseconds := range []int64{0, 1, 999_999_999} {
				at := time.Unix(seconds, nanoseconds)
				since := new(big.Int).Mul(big.NewInt(seconds), big.NewInt(1e9))
				since.Add(since, big.NewInt(nanoseconds))
				since.Mod(since, big.NewInt(int64(window)))
				want := window - time.Duration(since.Int64())
				f, _ := limit.NewFixedWindow(1, window)
				if d := f.TakeAt(at, 1); d.ResetAfter != want {
					t.Errorf("window %v at %v: ends in %v, want %v", window, at, d.ResetAfter, want)
				}
			}
		}
	}
}

// withWall is a time with a monotonic reading, and another wall clock.
func withWall(t *testing.T, now time.Time, seconds int) time.Time {
	set := now
	*(*uint64)(unsafe.Pointer(&set)) += uint64(seconds) << 30 // as package time keeps it
	if set.Sub(now) != 0 || set.Round(0).Sub(now.Round(0)) != time.Duration(seconds)*time.Second {
		t.Skip("package time keeps times in another way")
	}
	return set
}

// Limiters on the calendar follow the wall clock, the others the monotonic clock.
func TestWindowsFollowTheirClock(t *testing.T) {
	for _, kind := range windowKinds {
		l := newWindow(t, kind, 1, time.Minute)
		now := time.Now()
		l.TakeAt(now, 1)
		calendar := kind.name == "fixed" || kind.name == "counter"
		if d := l.TakeAt(withWall(t, now, 3600), 1); d.OK != calendar {
			t.Errorf("%s, the wall clock is set: %+v", kind.name, d)
		}
	}
}
