package limit_test

import (
	"errors"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// GCRA admits the burst, never one more, and then one every T.
func TestGCRABurst(t *testing.T) {
	g, err := limit.NewGCRA(limit.PerSecond(100), 5)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	for i := range 5 {
		want := limit.Decision{OK: true, Remaining: 4 - i, ResetAfter: time.Duration(i+1) * 10 * time.Millisecond}
		if d := g.TakeAt(now, 1); d != want {
			t.Errorf("unit %d: %+v, want %+v", i+1, d, want)
		}
	}
	want := limit.Decision{RetryAfter: 10 * time.Millisecond, ResetAfter: 50 * time.Millisecond}
	if d := g.TakeAt(now, 1); d != want {
		t.Errorf("unit 6: %+v, want %+v", d, want)
	}
	if d := g.TakeAt(now.Add(10*time.Millisecond-1), 1); d.OK || d.RetryAfter != 1 {
		t.Errorf("a nanosecond early: %+v", d)
	}
	if d := g.TakeAt(now.Add(10*time.Millisecond), 1); !d.OK {
		t.Errorf("in time: %+v", d)
	}
}

// A hold that ends late leaves the limiter as if it had been charged in time, or never.
func TestGCRAHoldsEndInAnyOrder(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, commit := range []bool{true, false} {
		held, _ := limit.NewGCRA(limit.PerSecond(1), 10)
		plain, _ := limit.NewGCRA(limit.PerSecond(1), 10)
		hold, d := held.HoldAt(at(0), 4)
		if !d.OK || d.Remaining != 6 {
			t.Fatalf("hold: %+v", d)
		}
		if commit {
			plain.TakeAt(at(0), 4)
		}
		held.TakeAt(at(3), 5)
		plain.TakeAt(at(3), 5)
		if d := held.TakeAt(at(100), 7); d.OK || d.RetryAfter != 0 || d.Never {
			t.Errorf("what is on hold has drained: %+v", d)
		}
		if commit {
			hold.Commit()
			hold.Cancel()
		} else {
			hold.Cancel()
			hold.Commit()
		}
		for s := range 12 {
			if a, b := held.TakeAt(at(3+s), 0), plain.TakeAt(at(3+s), 0); a != b {
				t.Errorf("commit %v, second %d: %+v, want %+v", commit, s, a, b)
			}
		}
	}
}

func TestGCRARefuses(t *testing.T) {
	for _, c := range []struct {
		rate  limit.Rate
		burst int
	}{
		{limit.Rate{}, 1},
		{limit.Rate{Count: 1}, 1},
		{limit.Rate{Count: -1, Per: time.Second}, 1},
		{limit.Rate{Count: 2, Per: 1}, 1},
		{limit.PerSecond(1), 0},
		{limit.PerSecond(1), -1},
		{limit.Every(time.Hour), 1 << 30},
	} {
		if g, err := limit.NewGCRA(c.rate, c.burst); g != nil || !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("NewGCRA(%v, %d): %v", c.rate, c.burst, err)
		}
	}
}

// A peek is OK also at an instant at which nothing could have been charged any more.
func TestGCRAPeekBeforeWhatIsCharged(t *testing.T) {
	g, err := limit.NewGCRA(limit.PerSecond(1), 2)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	g.TakeAt(now, 2)
	want := limit.Decision{OK: true, ResetAfter: 12 * time.Second}
	if d := g.TakeAt(now.Add(-10*time.Second), 0); d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}
