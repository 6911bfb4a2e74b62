package cooldown

import (
	"maps"
	"math"
	"testing"
	"time"
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
		if raised := ts.Raise("m", tt.until, now); raised != tt.want {
			t.Errorf("%v was raised is %v", tt.until, raised)
		}
	}
	if !maps.Equal(ts, Times{"m": in(5)}) {
		t.Errorf("got %v", ts)
	}
	if ts.Set("m", in(1)); ts["m"] != in(1) {
		t.Errorf("got %v, want the earlier time that was set", ts)
	}
}

func TestOfDropsTheOver(t *testing.T) {
	ts := Times{"m": now, "far": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if until := ts.Of("m", now.UnixNano()-1); until != now.UnixNano() || len(ts) != 2 {
		t.Errorf("got %d, and then %v", until, ts)
	}
	if until := ts.Of("m", now.UnixNano()); until > now.UnixNano() || len(ts) != 1 {
		t.Errorf("got %d, and then %v", until, ts)
	}
	if until := ts.Of("far", now.UnixNano()); until != math.MaxInt64 {
		t.Errorf("got %d for a time that UnixNano does not reach", until)
	}
	if until := Times(nil).Of("m", now.UnixNano()); until != 0 {
		t.Errorf("got %d without cooldowns", until)
	}
}

func TestHasRoom(t *testing.T) {
	ts := Times{"over": in(-1), "a": in(1), "b": in(1)}
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
	ts := Times{"m-001": in(3), "m-002": in(2), "m": in(1), "n-001": in(1), "n": in(2), "o": in(1)}
	ts.Rename(func(name string) string { return name[:1] })
	if want := (Times{"m": in(3), "n": in(2), "o": in(1)}); !maps.Equal(ts, want) {
		t.Errorf("got %v, want %v", ts, want)
	}
}
