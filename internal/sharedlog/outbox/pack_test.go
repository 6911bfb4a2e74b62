package outbox

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// The tests pack at the instant 1000, when charges from before 900 count no more in the minute,
// and those from before 100 not even in the day.
const (
	testInstant = 1000
	testHorizon = 900
	testDay     = 100
)

// presentOf returns the present of the tests, in which the reservations and waiters with the
// given numbers are open.
func presentOf(open map[int64]bool) Present {
	return Present{
		Process: own, Instant: testInstant, Horizon: testHorizon,
		IsOpen: func(e *sharedlog.Event) bool { return open[e.N] },
		IsOver: func(_ string, at int64) bool { return at < testDay },
	}
}

// put returns an outbox of events of model "m", which get their numbers if they have none.
func put(events ...*sharedlog.Event) *Outbox {
	var o Outbox
	for i, e := range events {
		if e.N == 0 {
			e.N = int64(i) + 1
		}
		if e.Process == 0 {
			e.Process = own
		}
		if e.Model == "" {
			e.Model = "m"
		}
		o.Put(e)
	}
	return &o
}

// charge returns a charge of 10 tokens at an instant.
func charge(kind sharedlog.Kind, at int64) *sharedlog.Event {
	return &sharedlog.Event{Kind: kind, At: at, Requests: 1, Count: tokens.Count{Input: 6, Output: 4}}
}

// settle returns the settlement of a reservation, with that many tokens.
func settle(kind sharedlog.Kind, ref int64, output int) *sharedlog.Event {
	return &sharedlog.Event{Kind: kind, Ref: ref, At: testInstant, Count: tokens.Count{Output: output}}
}

// written returns events in words: the kind and number of each, and what a tally has.
func written(events []*sharedlog.Event) (words []string) {
	for _, e := range events {
		word := fmt.Sprintf("%d:%d", e.Kind, e.N)
		if e.Kind == sharedlog.Tally {
			word = fmt.Sprintf("%s +%d +%d", e.Model, e.Requests, e.Total())
		}
		words = append(words, word)
	}
	return words
}

func TestPack(t *testing.T) {
	const old, late, over = testHorizon - 1, testHorizon, testDay - 1
	move := charge(sharedlog.Move, late)
	move.Ref = 1
	rest := charge(sharedlog.Use, old)
	rest.Ref = 9
	other := charge(sharedlog.Use, old)
	other.Process = own + 1
	for _, tt := range []struct {
		name   string
		open   map[int64]bool
		tried  int64
		events []*sharedlog.Event
		want   []string
	}{
		{name: "empty"},
		{name: "charges", events: []*sharedlog.Event{charge(sharedlog.Use, old), charge(sharedlog.Use, old)}, want: []string{"m +2 +20"}},
		{name: "of the minute", events: []*sharedlog.Event{charge(sharedlog.Use, late)}, want: []string{"1:1"}},
		{name: "of another day", events: []*sharedlog.Event{charge(sharedlog.Use, over)}},
		{name: "beyond an estimate, which the settlement has", events: []*sharedlog.Event{rest}},
		{name: "of another process", events: []*sharedlog.Event{other}, want: []string{"1:1"}},
		{
			name: "tried", tried: 1, events: []*sharedlog.Event{charge(sharedlog.Use, old), charge(sharedlog.Use, old)},
			want: []string{"1:1", "m +1 +10"},
		},
		{
			name: "amended", events: []*sharedlog.Event{charge(sharedlog.Reserve, old), settle(sharedlog.Amend, 1, 3)},
			want: []string{"m +1 +3"},
		},
		{
			name: "released", events: []*sharedlog.Event{charge(sharedlog.Reserve, old), settle(sharedlog.Release, 1, 0)},
			want: []string{"m +1 +10"},
		},
		{
			name: "cancelled", events: []*sharedlog.Event{charge(sharedlog.Reserve, old), settle(sharedlog.Cancel, 1, 0)},
			want: []string{"m +0 +0"},
		},
		{
			name: "amended in another day", events: []*sharedlog.Event{charge(sharedlog.Reserve, over), settle(sharedlog.Amend, 1, 30)},
		},
		{
			name: "open", open: map[int64]bool{1: true}, events: []*sharedlog.Event{charge(sharedlog.Reserve, old)},
			want: []string{"2:1"},
		},
		{
			name: "moved into the minute", events: []*sharedlog.Event{charge(sharedlog.Reserve, old), move, settle(sharedlog.Release, 1, 0)},
			want: []string{"2:1", "6:2", "4:3"},
		},
		{
			name: "settled where the charge is in the log", events: []*sharedlog.Event{settle(sharedlog.Amend, 50, 3)},
			want: []string{"3:1"},
		},
		{
			name: "across a reset", events: []*sharedlog.Event{charge(sharedlog.Use, old), {Kind: sharedlog.Reset, At: old}, charge(sharedlog.Use, old)},
			want: []string{"m +1 +10", "7:2", "m +1 +10"},
		},
		{
			name: "left lines", events: []*sharedlog.Event{{Kind: sharedlog.Wait}, {Kind: sharedlog.Leave, Ref: 1}},
		},
		{
			name: "lines", open: map[int64]bool{1: true}, events: []*sharedlog.Event{{Kind: sharedlog.Wait}, {Kind: sharedlog.Leave, Ref: 50}},
			want: []string{"10:1", "11:2"},
		},
		{
			name: "settings", events: []*sharedlog.Event{{Kind: sharedlog.Quota}, {Kind: sharedlog.Cooldown}, {Kind: sharedlog.Day}},
			want: []string{"9:1", "8:2", "14:3"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := put(tt.events...)
			o.Tried(tt.tried)
			tallies := o.Pack(presentOf(tt.open))
			if got := written(o.Events()); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			var made []*sharedlog.Event
			for _, e := range o.Events() {
				if e.N == 0 {
					made = append(made, e)
				}
			}
			if !slices.Equal(made, tallies) {
				t.Errorf("returns %q, has %q", written(tallies), written(made))
			}
			for _, e := range tallies {
				if e.Kind != sharedlog.Tally || e.At != testInstant {
					t.Errorf("a tally is %+v", e)
				}
			}
		})
	}
}

func TestPackSaturates(t *testing.T) {
	huge := charge(sharedlog.Use, 500)
	huge.Count = tokens.Count{Input: math.MaxInt}
	o := put(huge, charge(sharedlog.Use, 500))
	if o.Pack(presentOf(nil)); o.Events()[0].Total() != math.MaxInt || o.Events()[0].Requests != 2 {
		t.Errorf("the tally is %+v", o.Events()[0])
	}
}

// An outbox that cannot be packed is not tried at every event.
func TestIsLong(t *testing.T) {
	var o Outbox
	packed := 0
	for n := range int64(10 * packFrom) {
		o.Put(&sharedlog.Event{Process: own, N: n + 1, Kind: sharedlog.Cooldown})
		if o.IsLong() {
			o.Pack(presentOf(nil))
			packed++
		}
	}
	if packed != 4 { // at 10, 20, 40 and 80 thousand
		t.Errorf("packed %d times", packed)
	}
}

// history makes the events of a limiter at random, as it would: a reservation is settled once,
// and all times rise.
type history struct {
	rng    *rand.Rand
	open   map[int64]bool
	models map[int64]string // of reservations and waiters that are open
	events []*sharedlog.Event
}

func newHistory(rng *rand.Rand, n int) *history {
	h := &history{rng: rng, open: make(map[int64]bool), models: make(map[int64]string)}
	at := int64(0)
	for len(h.events) < n {
		at += rng.Int64N(2*testInstant/int64(n) + 1)
		h.add(min(at, testInstant))
	}
	return h
}

// add adds an event at an instant.
func (h *history) add(at int64) {
	e := &sharedlog.Event{Process: own, N: int64(len(h.events)) + 1, At: at, Model: string(rune('a' + h.rng.IntN(3)))}
	of := slices.Sorted(maps.Keys(h.open))
	switch draw := h.rng.IntN(19); {
	case draw < 5:
		e.Kind, e.Requests, e.Count = sharedlog.Use, 1, h.count()
	case draw < 12 || len(of) == 0:
		e.Kind, e.Requests, e.Count = sharedlog.Reserve, 1, h.count()
		h.open[e.N], h.models[e.N] = true, e.Model
	default:
		e.Ref = of[h.rng.IntN(len(of))]
		e.Model = h.models[e.Ref]
		delete(h.open, e.Ref)
		e.Kind = []sharedlog.Kind{sharedlog.Amend, sharedlog.Release, sharedlog.Cancel}[h.rng.IntN(3)]
		if e.Kind == sharedlog.Amend {
			e.Count = h.count()
		}
	}
	h.events = append(h.events, e)
}

func (h *history) count() tokens.Count {
	return tokens.Count{Input: h.rng.IntN(10), Output: h.rng.IntN(10)}
}

// usage is the day of a model.
type usage struct{ requests, tokens int }

// days returns what events add to the days of models, one after the other: the oracle.
func days(events []*sharedlog.Event) map[string]usage {
	days := make(map[string]usage)
	charges := make(map[int64]*sharedlog.Event)
	add := func(model string, requests, tokens int) {
		d := days[model]
		days[model] = usage{d.requests + requests, d.tokens + tokens}
	}
	for _, e := range events {
		charge := charges[e.Ref]
		switch {
		case e.Kind == sharedlog.Reset:
			maps.DeleteFunc(days, func(model string, _ usage) bool { return e.Model == "" || e.Model == model })
			maps.DeleteFunc(charges, func(_ int64, c *sharedlog.Event) bool { return e.Model == "" || e.Model == c.Model })
		case e.At < testDay:
		case e.Kind == sharedlog.Use, e.Kind == sharedlog.Tally:
			add(e.Model, e.Requests, e.Total())
		case e.Kind == sharedlog.Reserve:
			add(e.Model, e.Requests, e.Total())
			charges[e.N] = e
		case charge == nil:
		case e.Kind == sharedlog.Amend:
			add(e.Model, 0, e.Total()-charge.Total())
		case e.Kind == sharedlog.Cancel:
			add(e.Model, -1, -charge.Total())
		}
	}
	maps.DeleteFunc(days, func(_ string, d usage) bool { return d == usage{} })
	return days
}

// However an outbox is packed, its events add up to the same days, and what may be in the log or
// still counts is among them.
func TestPackKeepsTheDays(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(rng, 1+rng.IntN(60))
		o := put(h.events...)
		want := days(o.Events())
		o.Tried(rng.Int64N(20))
		n := int64(len(h.events))
		for range 2 {
			for _, e := range o.Pack(presentOf(h.open)) {
				n++
				e.Process, e.N = own, n
			}
			if got := days(o.Events()); !maps.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v\nof   %q\nleft %q", seed, got, want, written(h.events), written(o.Events()))
			}
		}
		left := numbers(o.Events())
		for _, e := range h.events {
			if (e.N <= o.tried || h.open[e.N] || e.At >= testHorizon && e.Requests > 0) && !slices.Contains(left, e.N) {
				t.Fatalf("seed %d: event %d is gone", seed, e.N)
			}
		}
	}
}
