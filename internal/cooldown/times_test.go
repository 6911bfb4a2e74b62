package cooldown

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

var now = time.Date(2026, 2, 20, 14, 0, 0, 0, time.UTC)

// in returns a time so many seconds from now.
func in(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }

func TestRaise(t *testing.T) {
	var ts Times
	for _, tt := range []struct {
		until time.Time
		want  bool
	}{
		{time.Time{}, false}, {in(-1), false}, {now, false}, {now.Add(1), true}, {in(5), true}, {in(5), false}, {in(4), false},
	} {
		if rises := ts.Rises("m", tt.until, now); rises != tt.want {
			t.Errorf("%v rises is %v", tt.until, rises)
		}
		if raised := ts.Raise("m", state.Cooldown{Until: tt.until, Cause: RateLimited}, now); raised != tt.want {
			t.Errorf("%v was raised is %v", tt.until, raised)
		}
	}
	if !maps.Equal(ts, ends{"m": in(5)}.times(RateLimited)) {
		t.Errorf("got %v", ts)
	}
	if ts.Set("m", state.Cooldown{Until: in(1)}); ts["m"] != (state.Cooldown{Until: in(1), Cause: Caller}) {
		t.Errorf("got %v, want the earlier time that was set", ts)
	}
}

// ends are the ends of cooldowns that have one cause.
type ends map[string]time.Time

func (e ends) times(cause string) Times {
	ts := make(Times)
	for name, until := range e {
		ts.Set(name, state.Cooldown{Until: until, Cause: cause})
	}
	return ts
}

// The later cooldown counts, with its cause, and of two that end at the same time the first.
func TestRaiseKeepsTheCauseOfTheLater(t *testing.T) {
	var ts Times
	for _, tt := range []struct {
		until time.Time
		cause string
		want  string
	}{
		{in(5), Overloaded, Overloaded}, {in(5), DailyQuota, Overloaded}, {in(4), DailyQuota, Overloaded},
		{in(6), DailyQuota, DailyQuota}, {in(7), "own_1", "own_1"}, {in(8), "", Caller},
	} {
		ts.Raise("m", state.Cooldown{Until: tt.until, Cause: tt.cause}, now)
		if _, cause := ts.Of("m", now.UnixNano()); cause != tt.want {
			t.Errorf("after %v, %q: %q, want %q", tt.until, tt.cause, cause, tt.want)
		}
	}
}

func TestCauseAndReason(t *testing.T) {
	for cause, want := range map[string]string{
		DailyQuota: DailyQuota, RateLimited: RateLimited, Overloaded: Overloaded, Caller: Caller, "own_1": "own_1",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
		strings.Repeat("x", 65): Caller, "": Caller, "Daily": Caller, "a-b": Caller, "a b": Caller, "ü": Caller, "a\n": Caller,
	} {
		if got := Cause(cause); got != want {
			t.Errorf("Cause(%q) = %q, want %q", cause, got, want)
		}
		if reason := Reason(cause); !strings.HasPrefix(reason, "the model is in a cooldown") {
			t.Errorf("Reason(%q) = %q", cause, reason)
		}
	}
}

func TestOfDropsTheOver(t *testing.T) {
	ts := ends{"m": now, "far": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}.times(Caller)
	if until, _ := ts.Of("m", now.UnixNano()-1); until != now.UnixNano() || len(ts) != 2 {
		t.Errorf("got %d, and then %v", until, ts)
	}
	if until, _ := ts.Of("m", now.UnixNano()); until > now.UnixNano() || len(ts) != 1 {
		t.Errorf("got %d, and then %v", until, ts)
	}
	if until, _ := ts.Of("far", now.UnixNano()); until != math.MaxInt64 {
		t.Errorf("got %d for a time that UnixNano does not reach", until)
	}
	if until, _ := Times(nil).Of("m", now.UnixNano()); until != 0 {
		t.Errorf("got %d without cooldowns", until)
	}
}

func TestHasRoom(t *testing.T) {
	ts := ends{"over": in(-1), "a": in(1), "b": in(1)}.times(Caller)
	for _, tt := range []struct {
		name string
		most int
		want bool
		left int
	}{
		{"new", 4, true, 3},  // nobody looks at those that are over
		{"over", 3, true, 3}, // it has its room
		{"new", 3, true, 2},
		{"new", 2, false, 2},
		{"a", 2, true, 2},
	} {
		if has := ts.HasRoom(tt.name, tt.most, now); has != tt.want || len(ts) != tt.left {
			t.Errorf("%s has room among %d is %v, and then %v", tt.name, tt.most, has, ts)
		}
	}
	if !Times(nil).HasRoom("m", 1, now) {
		t.Error("no room without cooldowns")
	}
}

func TestRename(t *testing.T) {
	ts := ends{"m-001": in(3), "m-002": in(2), "m": in(1), "n-001": in(1), "n": in(2), "o": in(1)}.times(Caller)
	ts.Rename(func(name string) string { return name[:1] })
	if want := (ends{"m": in(3), "n": in(2), "o": in(1)}.times(Caller)); !maps.Equal(ts, want) {
		t.Errorf("got %v, want %v", ts, want)
	}
}
