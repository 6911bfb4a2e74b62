package outbox

import (
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// own is the process of the tests.
const own = 7

// numbers returns the numbers of events.
func numbers(events []*sharedlog.Event) (ns []int64) {
	for _, e := range events {
		ns = append(ns, e.N)
	}
	return ns
}

func TestRemove(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int64
		want []int64
		was  bool
	}{
		{"the first", 1, []int64{2, 3}, true},
		{"one between", 2, []int64{1, 3}, true},
		{"the last", 3, []int64{1, 2}, true},
		{"another", 4, []int64{1, 2, 3}, false},
	} {
		var o Outbox
		var events []*sharedlog.Event
		for n := range int64(3) {
			events = append(events, &sharedlog.Event{Process: own, N: n + 1, Kind: sharedlog.Use})
			o.Add(events[n], sharedlog.DayAdded{Requests: 1})
		}
		if was := o.Remove(sharedlog.Key{Process: own, N: tt.n}); was != tt.was || !slices.Equal(numbers(o.Events()), tt.want) {
			t.Errorf("%s: %v, left are %v", tt.name, was, numbers(o.Events()))
		}
		for _, e := range events {
			if _, known := o.Added(e); known == (tt.was && e.N == tt.n) {
				t.Errorf("%s: what event %d added is known: %v", tt.name, e.N, known)
			}
		}
		if o.Remove(sharedlog.Key{Process: own + 1, N: 1}) {
			t.Errorf("%s: removes an event of another process", tt.name)
		}
	}
}

// An outbox that is replaced knows what its events added, and forgets those that left.
func TestReplace(t *testing.T) {
	var o Outbox
	stays := &sharedlog.Event{Process: own, N: 1, Kind: sharedlog.Use}
	leaves := &sharedlog.Event{Process: own, N: 2, Kind: sharedlog.Use}
	comes := &sharedlog.Event{Process: own, N: 3, Kind: sharedlog.Day}
	o.Add(stays, sharedlog.DayAdded{Requests: 1, Tokens: 5, End: 100})
	o.Add(leaves, sharedlog.DayAdded{Requests: 1, Tokens: 6, End: 100})
	o.Replace([]*sharedlog.Event{comes, stays})
	if got := numbers(o.Events()); !slices.Equal(got, []int64{3, 1}) {
		t.Errorf("has %v", got)
	}
	if added, known := o.Added(stays); !known || added != (sharedlog.DayAdded{Requests: 1, Tokens: 5, End: 100}) {
		t.Errorf("the event that stays added %+v, %v", added, known)
	}
	for _, e := range []*sharedlog.Event{leaves, comes} {
		if _, known := o.Added(e); known {
			t.Errorf("knows what event %d added", e.N)
		}
	}
	if o.Replace(nil); len(o.Events())+len(o.added) != 0 {
		t.Errorf("an empty outbox has %d events and knows of %d", len(o.Events()), len(o.added))
	}
}

// Places in line end with the process, all else is for others.
func TestLasting(t *testing.T) {
	for kind := sharedlog.Use; kind <= sharedlog.ReleaseAll; kind++ {
		want := 1
		switch kind {
		case sharedlog.Wait, sharedlog.Leave, sharedlog.Gone, sharedlog.Evict:
			want = 0
		}
		var o Outbox
		o.Put(&sharedlog.Event{Process: own, N: 1, Kind: kind})
		if got := o.Lasting(); got != want {
			t.Errorf("kind %d: %d", kind, got)
		}
	}
}
