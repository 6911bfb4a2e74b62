package breaker

import (
	"math/rand/v2"
	"testing"
	"time"
)

// oracle is a breaker that keeps every call, and counts them again at each.
type oracle struct {
	settings Settings
	ended    []ended
	latest   time.Duration
	open     bool
	probe    int // the call that probes; 0 for none
	until    time.Duration
	since    int // calls up to here passed before the last change
	last     int // call
}

type ended struct {
	at     time.Duration
	failed bool
}

func (o *oracle) enter(at time.Duration) (call int) {
	o.latest = max(o.latest, at)
	if o.open && o.latest < o.until {
		return 0
	}
	if o.last++; o.open {
		o.probe, o.until, o.since = o.last, o.latest+o.settings.Open, o.last-1
	}
	return o.last
}

func (o *oracle) leave(call int, at time.Duration, outcome Outcome) {
	o.latest = max(o.latest, at)
	switch {
	case call <= o.since || o.open && call != o.probe:
	case o.open && outcome == Success:
		o.open, o.probe, o.ended, o.since = false, 0, nil, o.last
	case o.open && outcome == Failure:
		o.trip()
	case o.open:
		o.probe, o.until = 0, o.latest
	case outcome != Unknown:
		o.ended = append(o.ended, ended{o.latest, outcome == Failure})
		calls, failures := 0, 0
		width := o.settings.Window / 50
		for _, e := range o.ended {
			if o.latest/width-e.at/width < 50 {
				if calls++; e.failed {
					failures++
				}
			}
		}
		if calls >= o.settings.Calls && failures*100 >= calls*o.settings.Percent {
			o.trip()
		}
	}
}

func (o *oracle) trip() {
	o.open, o.probe, o.until, o.since = true, 0, o.latest+o.settings.Open, o.last
}

func TestRatioDecidesLikeOracle(t *testing.T) {
	trips, closes := 0, 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		settings := Settings{
			Window: time.Duration(1+rnd.IntN(5)) * time.Second, Calls: 1 + rnd.IntN(30),
			Percent: 1 + rnd.IntN(100), Open: time.Duration(1+rnd.IntN(5000)) * ms,
		}
		r, o := New(settings), &oracle{settings: settings}
		r.Enter(start) // from which the cells are counted
		type both struct {
			pass Pass
			call int
		}
		var under []both
		at, gap, bad := time.Duration(0), 1+rnd.Int64N(int64(settings.Window)/5), rnd.IntN(101)
		for step := range 2000 {
			at += time.Duration(rnd.Int64N(gap))
			seen := max(0, at-time.Duration(rnd.Int64N(int64(settings.Window)/4))) // they come out of order
			if rnd.IntN(40) == 0 {
				bad, gap = rnd.IntN(101), 1+rnd.Int64N(int64(settings.Window)/5)
			}
			if len(under) == 0 || len(under) < 20 && rnd.IntN(2) == 0 {
				pass, ok := r.Enter(start.Add(seen))
				call := o.enter(seen)
				if ok != (call != 0) {
					t.Fatalf("seed %d, step %d: a call passes is %v, want %v", seed, step, ok, call != 0)
				}
				if ok && rnd.IntN(50) != 0 { // the others never end
					under = append(under, both{pass, call})
				}
			} else {
				i := rnd.IntN(len(under))
				outcome := Success
				if rnd.IntN(100) < bad {
					outcome = Failure
				} else if rnd.IntN(10) == 0 {
					outcome = Unknown
				}
				was := o.open
				r.Leave(under[i].pass, start.Add(seen), outcome)
				o.leave(under[i].call, seen, outcome)
				if o.open && !was {
					trips++
				} else if was && !o.open {
					closes++
				}
				under[i] = under[len(under)-1]
				under = under[:len(under)-1]
			}
			if got, want := r.IsOpen(start.Add(seen)), o.open && o.latest < o.until; got != want {
				t.Fatalf("seed %d, step %d: open is %v, want %v", seed, step, got, want)
			}
		}
	}
	if trips < 300 || closes < 300 {
		t.Errorf("opened %d times and closed %d times, want 300 each at least", trips, closes)
	}
}
