package clock

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// wallAhead returns the reading of a wall clock that is ahead of the machine's.
func wallAhead(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

func TestClockFollowsTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		began := time.Now()
		first := c.Sync()
		for _, pass := range []time.Duration{0, 1, time.Millisecond - 2, 1, time.Hour, 1000 * time.Hour} {
			time.Sleep(pass)
			passed := time.Since(began)
			for name, now := range map[string]int64{"Now": c.Now(), "Sync": c.Sync(), "Compare": c.Compare()} {
				if now != first+int64(passed) {
					t.Errorf("%s after %v: %v later", name, passed, time.Duration(now-first))
				}
			}
			now := c.Now()
			if got := c.At(now); !got.Equal(time.Now()) {
				t.Errorf("At(Now) is %v, want %v", got, time.Now())
			}
			if got, want := c.UnixNano(now), time.Now().UnixNano(); got != want {
				t.Errorf("UnixNano(Now) is %d, want %d", got, want)
			}
		}
	})
}

// The time line goes on as if nothing had happened, and the wall clock is where it was set.
func TestClockFollowsStepsOfTheWallClock(t *testing.T) {
	for _, by := range []time.Duration{
		time.Millisecond + 1, time.Second, 24 * time.Hour, 40 * 365 * 24 * time.Hour,
		-time.Millisecond - 1, -time.Second, -24 * time.Hour, -30 * 365 * 24 * time.Hour,
	} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Clock
				first := c.Sync()
				before := c.UnixNano(first)
				time.Sleep(time.Minute)
				c.Wall = wallAhead(by)
				now := c.Sync()
				if now != first+int64(time.Minute) {
					t.Errorf("the time line moved by %v, want a minute", time.Duration(now-first))
				}
				if moved := time.Duration(c.UnixNano(now) - before); moved != time.Minute+by {
					t.Errorf("UnixNano moved by %v, want %v", moved, time.Minute+by)
				}
				if want := time.Now().Add(by); !c.At(now).Equal(want) {
					t.Errorf("At is %v, want %v", c.At(now), want)
				}
			})
		})
	}
}

// Two clocks that are read one after the other are never quite apart by the same.
func TestClockIgnoresJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		first := c.Sync()
		ahead := c.UnixNano(0)
		for _, by := range []time.Duration{time.Millisecond, -time.Millisecond, 1, -1} {
			c.Wall = wallAhead(by)
			c.Compare()
			if c.UnixNano(0) != ahead || c.Now() != first {
				t.Errorf("a difference of %v moved the clock", by)
			}
		}
	})
}

func TestClockIsComparedOnceAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		c := Clock{Wall: func() time.Time {
			read++
			return time.Now()
		}}
		if !c.Due(0) {
			t.Error("the zero value is not due")
		}
		for range 3 {
			now := c.Sync()
			time.Sleep(time.Millisecond - 1)
			if c.Sync(); c.Due(c.Now()) || !c.Due(c.Now()+1) {
				t.Errorf("due %v after %d: %v, and 1 ns later: %v", time.Duration(c.Now()-now), now, c.Due(c.Now()), c.Due(c.Now()+1))
			}
			time.Sleep(time.Nanosecond)
		}
		if read != 3 {
			t.Errorf("read %d times in 3 ms", read)
		}
	})
}

func TestClockKnowsABubble(t *testing.T) {
	var outside Clock
	outside.Sync()
	if outside.InBubble() {
		t.Error("in a bubble outside of one")
	}
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		c.Sync()
		if !c.InBubble() {
			t.Error("not in a bubble within one")
		}
		if m := ReadMachine(&c); m != (Machine{}) {
			t.Errorf("the machine's clock in a bubble is %+v", m)
		}
	})
}

// Every Clock of a machine knows the machine's time alike.
func TestMachineIsTheSameForAll(t *testing.T) {
	var a, b Clock
	b.Wall = wallAhead(-time.Hour)
	a.Sync()
	b.Sync()
	first, second := ReadMachine(&a), ReadMachine(&b)
	if first.Boot == "" {
		if first != (Machine{}) || first.At(1) != 0 {
			t.Errorf("unknown, and yet %+v", first)
		}
		t.Skip("this system has no clock that processes share")
	}
	if second.Boot != first.Boot {
		t.Errorf("started as %q and as %q", first.Boot, second.Boot)
	}
	before := first.At(a.Now())
	between := second.At(b.Now())
	after := first.At(a.Now())
	if slack := int64(time.Second); before <= 0 || between < before-slack || between > after+slack {
		t.Errorf("one clock says %d and later %d, another between them %d", before, after, between)
	}
}

func TestUnixNanoStaysInRange(t *testing.T) {
	for _, tt := range []struct {
		at   time.Time
		want int64
	}{
		{time.Time{}, math.MinInt64},
		{time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{time.Unix(0, 0), 0},
		{time.Unix(0, math.MaxInt64), math.MaxInt64},
		{time.Unix(0, math.MinInt64), math.MinInt64},
	} {
		if got := UnixNano(tt.at); got != tt.want {
			t.Errorf("UnixNano(%v) = %d, want %d", tt.at, got, tt.want)
		}
	}
}
