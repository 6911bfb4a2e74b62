package outbox

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
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

// added is an event and what it added to the day.
type added struct {
	*sharedlog.Event
	what sharedlog.DayAdded
}

// put returns an outbox of events of this process.
func put(events ...added) *Outbox {
	var o Outbox
	for i, a := range events {
		a.N = int64(i) + 1
		if a.Process == 0 {
			a.Process = own
		}
		o.Add(a.Event, a.what)
	}
	return &o
}

// charge returns a charge of 10 tokens of model "m" at an instant.
func charge(kind sharedlog.Kind, at int64) added {
	e := &sharedlog.Event{Kind: kind, Model: "m", At: at, Requests: 1, Count: tokens.Count{Input: 6, Output: 4}}
	return added{e, sharedlog.DayAdded{Requests: 1, Tokens: 10}}
}

// settle returns the settlement of the first event, which is a reservation, and what it adds.
func settle(kind sharedlog.Kind, requests, tokens int) added {
	e := &sharedlog.Event{Kind: kind, Model: "m", Ref: 1, At: testInstant}
	return added{e, sharedlog.DayAdded{Requests: requests, Tokens: tokens}}
}

// other returns an event that adds nothing to the day.
func other(kind sharedlog.Kind, ref int64) added {
	return added{Event: &sharedlog.Event{Kind: kind, Model: "m", Ref: ref, At: testInstant}}
}

const rate, slots = state.RateAnew, state.SlotsAnew

// found returns an event of what was found of a model, with which searches begin anew.
func found(model string, anew int64) added {
	return added{Event: &sharedlog.Event{
		Kind: sharedlog.Found, Model: model, At: testInstant, Text: state.FoundText(state.Found{Anew: anew}),
	}}
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
	move := func(at int64, is sharedlog.DayAdded) added { // of the first event
		e := &sharedlog.Event{Kind: sharedlog.Move, Model: "m", Ref: 1, At: at, Requests: 1, Count: tokens.Count{Input: 6, Output: 4}}
		return added{e, is}
	}
	beyond := other(sharedlog.Use, 9)
	beyond.At = old
	foreign := charge(sharedlog.Use, old)
	foreign.Process = own + 1
	for _, tt := range []struct {
		name   string
		open   map[int64]bool
		tried  int64
		events []added
		want   []string
	}{
		{name: "empty"},
		{name: "charges", events: []added{charge(sharedlog.Use, old), charge(sharedlog.Use, old)}, want: []string{"m +2 +20"}},
		{name: "of the minute", events: []added{charge(sharedlog.Use, late)}, want: []string{"1:1"}},
		{name: "of another day", events: []added{charge(sharedlog.Use, over)}},
		{name: "beyond an estimate, which the settlement has", events: []added{beyond}},
		{name: "of another process", events: []added{foreign}, want: []string{"1:1"}},
		{
			name: "tried", tried: 1, events: []added{charge(sharedlog.Use, old), charge(sharedlog.Use, old)},
			want: []string{"1:1", "m +1 +10"},
		},
		{
			name: "what was found", events: []added{found("m", rate), found("m", rate), found("n", rate), found("m", rate), other(sharedlog.Answers, 0)},
			want: []string{"21:3", "21:4", "20:5"},
		},
		{
			name: "what was found, tried", tried: 1, events: []added{found("m", rate), found("m", rate), found("m", rate)},
			want: []string{"21:1", "21:3"},
		},
		{
			name: "what was found, in two searches", events: []added{found("m", rate), found("m", slots), found("m", rate), found("m", 0), found("m", 0)},
			want: []string{"21:2", "21:3", "21:5"},
		},
		{
			name: "what was found, in both searches", events: []added{found("m", rate), found("m", slots), found("m", rate|slots), found("m", slots)},
			want: []string{"21:3", "21:4"},
		},
		{
			name: "amended", events: []added{charge(sharedlog.Reserve, old), settle(sharedlog.Amend, 0, -7)},
			want: []string{"m +1 +3"},
		},
		{
			name: "released", events: []added{charge(sharedlog.Reserve, old), settle(sharedlog.Release, 0, 0)},
			want: []string{"m +1 +10"},
		},
		{
			name: "cancelled", events: []added{charge(sharedlog.Reserve, old), settle(sharedlog.Cancel, -1, -10)},
			want: []string{"m +0 +0"},
		},
		{
			name: "cancelled with its day over", events: []added{charge(sharedlog.Reserve, over), settle(sharedlog.Cancel, -1, -10)},
		},
		{
			name: "amended with its day over", events: []added{charge(sharedlog.Reserve, over), settle(sharedlog.Amend, 0, 20)},
			want: []string{"m +0 +20"},
		},
		{
			name: "open", open: map[int64]bool{1: true}, events: []added{charge(sharedlog.Reserve, old)},
			want: []string{"2:1"},
		},
		{
			name: "moved", events: []added{charge(sharedlog.Reserve, over), move(old, sharedlog.DayAdded{}), settle(sharedlog.Release, 0, 0)},
		},
		{
			name:   "moved to another day",
			events: []added{charge(sharedlog.Reserve, over), move(old, sharedlog.DayAdded{Requests: 1, Tokens: 10}), settle(sharedlog.Amend, 0, -2)},
			want:   []string{"m +1 +8"},
		},
		{
			name: "moved into the minute", events: []added{charge(sharedlog.Reserve, old), move(late, sharedlog.DayAdded{}), settle(sharedlog.Release, 0, 0)},
			want: []string{"2:1", "6:2", "4:3"},
		},
		{
			name: "settled where the charge is in the log", events: []added{other(sharedlog.Amend, 50)},
			want: []string{"3:1"},
		},
		{
			name: "across a reset", events: []added{charge(sharedlog.Use, old), other(sharedlog.Reset, 0), charge(sharedlog.Use, old)},
			want: []string{"m +1 +10", "7:2", "m +1 +10"},
		},
		{
			name: "cancelled after a reset", events: []added{
				charge(sharedlog.Reserve, old), other(sharedlog.Reset, 0), charge(sharedlog.Use, old), settle(sharedlog.Cancel, 0, 0),
			},
			want: []string{"m +1 +10", "7:2", "m +1 +10"},
		},
		{name: "left lines", events: []added{other(sharedlog.Wait, 0), other(sharedlog.Leave, 1)}},
		{
			name: "lines", open: map[int64]bool{1: true}, events: []added{other(sharedlog.Wait, 0), other(sharedlog.Leave, 50)},
			want: []string{"10:1", "11:2"},
		},
		{
			name: "settings", events: []added{other(sharedlog.Quota, 0), other(sharedlog.Cooldown, 0), other(sharedlog.Day, 0)},
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
	huge.what.Tokens = math.MaxInt
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

// history makes the events of a limiter at random, as it would: a reservation is settled once, and
// all times rise.
type history struct {
	rng    *rand.Rand
	open   map[int64]*sharedlog.Event // by number
	usage  usage
	events []added
}

func newHistory(rng *rand.Rand, n int) *history {
	h := &history{rng: rng, open: make(map[int64]*sharedlog.Event), usage: newUsage()}
	at := int64(0)
	for len(h.events) < n {
		at += rng.Int64N(2*testInstant/int64(n) + 1)
		e := h.draw(min(at, testInstant))
		was := h.usage.days[day{e.Model, e.At >= testDay}]
		h.usage.apply(e)
		is := h.usage.days[day{e.Model, e.At >= testDay}]
		a := added{e, sharedlog.DayAdded{Requests: is.Requests - was.Requests, Tokens: is.Tokens - was.Tokens}}
		if e.Kind == sharedlog.Reset {
			a.what = sharedlog.DayAdded{}
		}
		h.events = append(h.events, a)
	}
	return h
}

// draw returns an event at an instant.
func (h *history) draw(at int64) *sharedlog.Event {
	e := &sharedlog.Event{Process: own, N: int64(len(h.events)) + 1, At: at, Model: string(rune('a' + h.rng.IntN(3)))}
	count := tokens.Count{Input: h.rng.IntN(10), Output: h.rng.IntN(10)}
	open := slices.Sorted(maps.Keys(h.open))
	draw := h.rng.IntN(20)
	switch {
	case draw == 0:
		if e.Kind = sharedlog.Reset; h.rng.IntN(3) == 0 {
			e.Model = ""
		}
		return e
	case draw < 6:
		e.Kind, e.Requests, e.Count = sharedlog.Use, 1, count
		return e
	case draw < 12 || len(open) == 0:
		e.Kind, e.Requests, e.Count = sharedlog.Reserve, 1, count
		h.open[e.N] = e
		return e
	}
	of := h.open[open[h.rng.IntN(len(open))]]
	e.Ref, e.Model = of.N, of.Model
	switch {
	case draw < 14 && h.usage.charges[of.N] != nil: // one that is forgotten does not move
		e.Kind, e.Requests, e.Count = sharedlog.Move, 1, of.Count
		return e
	case draw < 16:
		e.Kind, e.Count = sharedlog.Amend, count
	case draw < 18:
		e.Kind = sharedlog.Release
	default:
		e.Kind = sharedlog.Cancel
	}
	delete(h.open, of.N)
	return e
}

// usage is the oracle: it counts the days event by event.
type usage struct {
	days    map[day]sharedlog.DayAdded
	charges map[int64]*sharedlog.Event // by the number of the reservation
}

// day is the present or the last day of a model.
type day struct {
	model   string
	present bool
}

func newUsage() usage {
	return usage{make(map[day]sharedlog.DayAdded), make(map[int64]*sharedlog.Event)}
}

func (u *usage) add(model string, at int64, requests, tokens int) {
	d := day{model, at >= testDay}
	is := u.days[d]
	u.days[d] = sharedlog.DayAdded{Requests: is.Requests + requests, Tokens: is.Tokens + tokens}
}

func (u *usage) apply(e *sharedlog.Event) {
	charge := u.charges[e.Ref]
	today := charge != nil && charge.At >= testDay == (e.At >= testDay)
	switch {
	case e.Kind == sharedlog.Reset:
		maps.DeleteFunc(u.days, func(d day, _ sharedlog.DayAdded) bool { return e.Model == "" || e.Model == d.model })
		maps.DeleteFunc(u.charges, func(_ int64, c *sharedlog.Event) bool { return e.Model == "" || e.Model == c.Model })
	case e.Kind == sharedlog.Use, e.Kind == sharedlog.Tally:
		u.add(e.Model, e.At, e.Requests, e.Total())
	case e.Kind == sharedlog.Reserve:
		u.add(e.Model, e.At, e.Requests, e.Total())
		u.charges[e.N] = e
	case charge == nil:
	case e.Kind == sharedlog.Move:
		if !today {
			u.add(e.Model, e.At, e.Requests, e.Total())
		}
		u.charges[e.Ref] = e
	case e.Kind == sharedlog.Amend && today:
		u.add(e.Model, e.At, 0, e.Total()-charge.Total())
	case e.Kind == sharedlog.Amend:
		u.add(e.Model, e.At, 0, e.Over(charge.Count).Total())
	case e.Kind == sharedlog.Cancel && today:
		u.add(e.Model, e.At, -1, -charge.Total())
	}
}

// present returns the present days of all models that have something in theirs.
func (u *usage) present() map[day]sharedlog.DayAdded {
	days := maps.Clone(u.days)
	maps.DeleteFunc(days, func(d day, is sharedlog.DayAdded) bool { return !d.present || is == sharedlog.DayAdded{} })
	return days
}

// However often an outbox is packed, its events add up to the same days, and what may be in the
// log, is open or still counts is among them.
func TestPackKeepsTheDays(t *testing.T) {
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(rng, 1+rng.IntN(60))
		o, open, want := put(h.events...), make(map[int64]bool), h.usage.present()
		for n := range h.open {
			open[n] = true
		}
		o.Tried(rng.Int64N(20))
		n := int64(len(h.events))
		for range 2 {
			for _, e := range o.Pack(presentOf(open)) {
				n++
				e.Process, e.N = own, n
			}
			packed := newUsage()
			for _, e := range o.Events() {
				packed.apply(e)
			}
			if got := packed.present(); !maps.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v\nleft %q", seed, got, want, written(o.Events()))
			}
		}
		left := numbers(o.Events())
		for _, e := range h.events {
			stays := e.N <= o.tried || open[e.N] || e.At >= testHorizon && e.Requests > 0 && e.Kind != sharedlog.Move
			if stays && !slices.Contains(left, e.N) {
				t.Fatalf("seed %d: event %d is gone", seed, e.N)
			}
		}
	}
}
