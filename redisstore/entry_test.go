package redisstore

import (
	"math"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// written returns the entry of events as a batch of the given time writes it at a time of the log.
func written(process, batch, stamp int64, events ...*sharedlog.Event) entry {
	var c encoder
	c.begin(process, batch)
	for _, e := range events {
		c.add(e, sharedlog.DayAdded{})
	}
	return entry{7, stamp, int64(len(events)), c.value(len(events))}
}

// An entry has all that its events say, and their dates by the log's time.
func TestEntry(t *testing.T) {
	const batch, stamp = int64(5_000_000_000), int64(9_000_000) // so the log is 4 s ahead
	for name, row := range map[string]struct{ event, want sharedlog.Event }{
		"nothing but what all have": {
			sharedlog.Event{Process: 1, Kind: sharedlog.Release, Wall: batch},
			sharedlog.Event{Process: 1, Kind: sharedlog.Release, Wall: 9_000_000_000},
		},
		"everything": {
			sharedlog.Event{Process: 1, N: -5, Kind: sharedlog.Move, Ref: math.MinInt64, Model: "a", Wall: batch - 1, Mono: 3, Age: 4,
				Requests: 5, Count: tokens.Count{Input: 6, Output: 7}, Day: state.DayUsage{Start: -8, Count: 9, Tokens: math.MaxInt64}, HasDay: true, Text: "t\x00"},
			sharedlog.Event{Process: 1, N: -5, Kind: sharedlog.Move, Ref: math.MinInt64, Model: "a", Wall: 8_999_999_999, Mono: 3, Age: 4,
				Requests: 5, Count: tokens.Count{Input: 6, Output: 7}, Day: state.DayUsage{Start: -8, Count: 9, Tokens: math.MaxInt64}, HasDay: true, Text: "t\x00"},
		},
		"of another process": {
			sharedlog.Event{Process: 2, Kind: sharedlog.Use, Wall: batch}, sharedlog.Event{Process: 2, Kind: sharedlog.Use, Wall: 9_000_000_000},
		},
		"a cooldown ends when it ends": {
			sharedlog.Event{Process: 1, Kind: sharedlog.Cooldown, Wall: 123}, sharedlog.Event{Process: 1, Kind: sharedlog.Cooldown, Wall: 123},
		},
		"a day without anything": {
			sharedlog.Event{Process: 1, Kind: sharedlog.Day, Wall: batch, HasDay: true}, sharedlog.Event{Process: 1, Kind: sharedlog.Day, Wall: 9_000_000_000, HasDay: true},
		},
	} {
		other := &sharedlog.Event{Process: 1, N: 9, Kind: sharedlog.Use, Model: strings.Repeat("long", 99), Wall: batch}
		read, err := written(1, batch, stamp, other, &row.event, other).events(nil, 7)
		if err != nil || len(read) != 2 {
			t.Errorf("%s: %+v, %v", name, read, err)
			continue
		}
		if row.want.Seq = 8; *read[0] != row.want {
			t.Errorf("%s: read\n%+v, want\n%+v", name, *read[0], row.want)
		}
		var w write
		w.add(&row.event, batch)
		if stored := w.stored(8, stamp); len(stored) != 1 || *stored[0] != row.want {
			t.Errorf("%s: stored is\n%+v, want\n%+v", name, *stored[0], row.want)
		}
		if read[1].Model != other.Model || read[1].N != 9 || read[1].Seq != 9 {
			t.Errorf("%s: the next is %+v", name, read[1])
		}
	}
}

// What no limiter writes is an error that names the event.
func TestEntriesThatAreNone(t *testing.T) {
	good := written(1, 0, 0, &sharedlog.Event{Process: 1, Kind: sharedlog.Use, Model: "m", HasDay: true}).value
	for name, value := range map[string]string{
		"empty": "", "no events": "\x00", "too many": "\xff\xff\xff\x7f", "cut off": good[:len(good)-1], "more": good + "x",
		"a number without end": "\x01\x00" + strings.Repeat("\xff", 20), "a model that is not there": "\x01\x00\x01\x00\x00\x01\x05\x00",
		"a day that is none": strings.Replace(good, "0 0", "a b", 1), "a negative day": strings.Replace(good, "0 0", "-1 ", 1),
		"of no process":   written(0, 0, 0, &sharedlog.Event{Kind: sharedlog.Reserve}).value,
		"older than time": written(1, 0, 0, &sharedlog.Event{Process: 1, Kind: sharedlog.Use, Age: -1}).value,
	} {
		n, err := newEntry("7-5", value)
		if err == nil {
			_, err = n.events(nil, 0)
		}
		if err == nil || !strings.Contains(err.Error(), "7") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "-", "1", "1-", "a-1", "99999999999999999999-1", "9223372036854775807-1"} {
		if n, err := newEntry(id, good); err == nil {
			t.Errorf("ID %q: %+v", id, n)
		}
	}
}

func TestOrderedNumbers(t *testing.T) {
	before := ""
	for _, n := range []int64{math.MinInt64, -256, -1, 0, 1, 255, 256, 1 << 53, math.MaxInt64} {
		text := ordered(n)
		if got, rest, err := parseOrdered(text + "x"); got != n || rest != "x" || err != nil {
			t.Errorf("%d is read as %d, %q, %v", n, got, rest, err)
		}
		if text <= before {
			t.Errorf("%d is not behind the number before", n)
		}
		before = text
	}
}

func TestFields(t *testing.T) {
	for _, model := range []string{"", "m", "\x00", "\x00m", "\x00\x00"} {
		if got, ok := modelOf(field(model)); got != model || !ok {
			t.Errorf("%q is read as %q, %t", model, got, ok)
		}
	}
	if model, ok := modelOf(emptyField); ok {
		t.Errorf("the field that keeps a hash is the model %q", model)
	}
}

// Any bytes are an error or events that a limiter could have written, and never a panic.
func FuzzEntry(f *testing.F) {
	f.Add("1-1", written(1, 0, 0, &sharedlog.Event{Process: 1, Kind: sharedlog.Reserve, Model: "m", Requests: 1, HasDay: true, Text: "t"}).value)
	f.Add("5-1795368867217971", written(3, 1, 2, &sharedlog.Event{Process: 4, Kind: sharedlog.Wait, Ref: 1, Mono: 1, Age: 1}, &sharedlog.Event{Process: 3, Kind: sharedlog.Cooldown}).value)
	f.Add("", "")
	f.Fuzz(func(t *testing.T, id, value string) {
		n, err := newEntry(id, value)
		n.process()
		if err != nil {
			return
		}
		events, err := n.events(nil, 0)
		if err != nil {
			return
		}
		for _, e := range events {
			if err := e.Check(); err != nil || e.Requests < 0 || e.Input < 0 || e.Output < 0 || e.Day.Count < 0 || e.Day.Tokens < 0 {
				t.Errorf("%+v, %v", e, err)
			}
		}
		if int64(len(events)) != n.n {
			t.Errorf("%d events, want %d", len(events), n.n)
		}
	})
}

// The log's time goes on by the monotonic clock, and replies move it as little as they have to.
func TestLogClock(t *testing.T) {
	var c logClock
	if c.skew() != 0 || c.expect() != 0 {
		t.Error("it knows the time before it was told")
	}
	now := time.Now()
	at := func(d time.Duration) time.Time { return now.Add(d) }
	micros := func(d time.Duration) int64 { return at(d + time.Hour).UnixMicro() }
	for _, row := range []struct {
		what           string
		sent, received time.Duration
		told           time.Duration // the log's time, less an hour
		want           time.Duration // the skew, less an hour
	}{
		{"the first", -40 * time.Millisecond, -30 * time.Millisecond, -35 * time.Millisecond, -5 * time.Millisecond},
		{"one that says the same", -30 * time.Millisecond, -20 * time.Millisecond, -28 * time.Millisecond, -5 * time.Millisecond},
		{"one that says later", -20 * time.Millisecond, -10 * time.Millisecond, -10 * time.Millisecond, 0},
		{"one that says earlier", -10 * time.Millisecond, -9 * time.Millisecond, -20 * time.Millisecond, -10 * time.Millisecond},
		{"a slow one", -9 * time.Millisecond, 0, -15 * time.Millisecond, -10 * time.Millisecond},
	} {
		c.heard(at(row.sent), at(row.received), micros(row.told))
		if off := c.skew() - time.Hour - row.want; off.Abs() > 5*time.Microsecond {
			t.Errorf("%s: off by %v", row.what, off)
		}
	}
}
