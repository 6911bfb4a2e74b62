package sharedlog

import (
	"slices"
	"testing"
)

// begun is the places of the events that have begun something that has not ended.
type begun map[int64]bool

func (b begun) InForce(e *Event) bool  { return b[e.Seq] }
func (b begun) PassTail(e *Event) bool { return b[e.Seq] }

// tailOf returns a tail of n events with the places from 1 on, each as old as its place says.
func tailOf(n int) *Tail {
	var tail Tail
	for i := range int64(n) {
		tail.Push(&Event{Seq: i + 1, At: i + 1})
	}
	return &tail
}

func TestTailExpired(t *testing.T) {
	for _, tt := range []struct {
		name    string
		events  int
		horizon int64
		open    begun
		passed  int
		drops   [][2]int64
	}{
		{"empty", 0, 100, nil, 0, nil},
		{"too few to be worth a page", 100, SweepFrom, nil, 0, nil},
		{"enough", 100, SweepFrom + 1, nil, SweepFrom, [][2]int64{{1, SweepFrom}}},
		{"no more than the most", 2 * SweepMost, 2 * SweepMost, nil, SweepMost, [][2]int64{{1, SweepMost}}},
		{"without those in force", 100, 41, begun{1: true, 5: true, 6: true}, 40, [][2]int64{{2, 4}, {7, 40}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tail := tailOf(tt.events)
			x := tail.Expired(tt.open, tt.horizon)
			if len(x.Events) != tt.passed || !slices.Equal(x.Drops, tt.drops) {
				t.Errorf("passes %d, drops %v; want %d and %v", len(x.Events), x.Drops, tt.passed, tt.drops)
			}
			if n := len(tail.Live()); n != tt.events {
				t.Errorf("%d events are left before the step", n)
			}
			tail.Pass(tt.open, &x)
			if n := len(tail.Live()); n != tt.events-tt.passed {
				t.Errorf("%d events are left after the step", n)
			}
		})
	}
}

// Events between the places of a sweep may belong to another log: only neighbours are dropped
// in one go.
func TestTailExpiredKeepsGaps(t *testing.T) {
	var tail Tail
	for i := range int64(SweepFrom) {
		tail.Push(&Event{Seq: 1 + i + i/16*10})
	}
	x := tail.Expired(begun{}, 1)
	if want := [][2]int64{{1, 16}, {27, 42}}; !slices.Equal(x.Drops, want) {
		t.Errorf("drops %v, want %v", x.Drops, want)
	}
}

// What was in force when a step was planned may have ended when it is written.
func TestTailPassOfWhatWasClosedMeanwhile(t *testing.T) {
	tail, open := tailOf(SweepFrom), begun{3: true, 7: true}
	x := tail.Expired(open, 1000)
	delete(open, 3)
	tail.Pass(open, &x)
	next := tail.Expired(open, 1000)
	if want := [][2]int64{{3, 3}}; !slices.Equal(next.Drops, want) {
		t.Errorf("drops %v, want %v", next.Drops, want)
	}
	tail.DropLater(7) // while the step is being written
	tail.Pass(open, &next)
	if last := tail.Expired(open, 1000); !slices.Equal(last.Drops, [][2]int64{{7, 7}}) {
		t.Errorf("drops %v, want 7 alone", last.Drops)
	}
}

func TestTailTrim(t *testing.T) {
	for _, tt := range []struct {
		name            string
		horizon, folded int64
		want            int64
	}{
		{"all that others have deleted", 100, 4, 5},
		{"nothing that counts", 3, 4, 3},
		{"nothing", 0, 0, 1},
	} {
		tail := tailOf(10)
		tail.Trim(begun{}, tt.horizon, tt.folded)
		if got := tail.Live()[0].Seq; got != tt.want {
			t.Errorf("%s: begins with %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A limiter that only reads never deletes anything.
func TestTailHasAnEnd(t *testing.T) {
	var tail Tail
	for i := range int64(100_000) {
		tail.Push(&Event{Seq: i + 1, At: i + 1})
		tail.Trim(begun{}, i-100, i)
		tail.DropLater(i + 1)
	}
	if n, room, drops := len(tail.Live()), cap(tail.events), len(tail.drops); n > 110 || room > 1000 || drops > 2*SweepMost {
		t.Errorf("%d events in room for %d, %d drops", n, room, drops)
	}
}

// An event that others have folded is there because it was in force. One that is not any more is
// deleted.
func TestTailMeet(t *testing.T) {
	var tail Tail
	for seq := range int64(6) {
		tail.Meet(begun{2: true}, &Event{Seq: seq + 1}, 3)
	}
	x := tail.Expired(begun{}, 0)
	if live := tail.Live(); len(live) != 3 || live[0].Seq != 4 || !slices.Equal(x.Drops, [][2]int64{{1, 1}, {3, 3}}) {
		t.Errorf("%d events on the tail, drops %v", len(live), x.Drops)
	}
}
