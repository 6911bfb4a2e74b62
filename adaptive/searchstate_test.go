package adaptive_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// What is resumed is what was found, without age as it was, and brought into the bounds.
func TestResume(t *testing.T) {
	full := adaptive.SearchState{Level: 101e9, Knee: 90e9, Step: 6e9, Raised: 5e9, Streak: 2, Lowered: 7}
	aged := func(level, knee int64, age time.Duration) adaptive.SearchState {
		return adaptive.SearchState{Level: level, Knee: knee, Lowered: 7 + int64(age)}
	}
	for _, c := range []struct {
		name  string
		state adaptive.SearchState
		age   time.Duration
		want  adaptive.SearchState
	}{
		{"as it was", full, 0, full},
		{"of tomorrow", full, -24 * time.Hour, full},
		{"of half an hour", full, 30 * time.Minute, aged(76e9, 101e9, 30*time.Minute)},
		{"of an hour", full, time.Hour, aged(51e9, 101e9, time.Hour)},
		{"of an age", full, math.MaxInt64, adaptive.SearchState{Level: 1e9, Knee: 101e9, Lowered: math.MaxInt64}},
		{"nothing", adaptive.SearchState{}, time.Hour, adaptive.SearchState{Level: 10e9}},
		{"no level", adaptive.SearchState{Knee: 5e9, Step: 1, Streak: 5, Lowered: 1}, 0, adaptive.SearchState{Level: 10e9}},
		{"negative", adaptive.SearchState{Level: -1, Knee: -1}, 0, adaptive.SearchState{Level: 10e9}},
		{"negative parts", adaptive.SearchState{Level: 10e9, Knee: -1, Step: -1, Raised: -1, Streak: -1, Lowered: -1}, 0, adaptive.SearchState{Level: 10e9}},
		{
			"too much", adaptive.SearchState{Level: math.MaxInt64, Knee: math.MaxInt64, Step: math.MaxInt64, Raised: math.MaxInt64, Streak: math.MaxInt64, Lowered: 1}, 0,
			adaptive.SearchState{Level: 1000e9, Knee: 1000e9, Step: 1000e9, Raised: 1000e9, Streak: 6, Lowered: 1},
		},
		{"too little", adaptive.SearchState{Level: 1, Knee: 1, Step: 1}, 0, adaptive.SearchState{Level: 1e9, Knee: 1e9, Step: 1}},
	} {
		for _, at := range []int64{0, math.MaxInt64, sec} {
			s := newRateSearch(t, nil)
			s.Resume(c.state, at, c.age)
			if got := s.State(at); got != c.want {
				t.Errorf("%s, at %d: %+v, want %+v", c.name, at, got, c.want)
			}
		}
	}
}

// The steps and the row of refusals count for a minute.
func TestResumeForgets(t *testing.T) {
	for age, want := range map[time.Duration]int64{time.Minute - 1: 2, time.Minute: 0} {
		s := newSlotSearch(t, nil)
		s.Resume(adaptive.SearchState{Level: 100e3, Knee: 100e3, Step: 2, Raised: 2, Streak: 2}, 0, age)
		if got := s.State(0); got.Step != want || got.Raised != want || got.Streak != want || got.Level < 98e3 {
			t.Errorf("after %v: %+v", age, got)
		}
	}
}

// Refusals of calls that were sent before the rate was lowered, by whomever, lower nothing.
func TestResumeLowered(t *testing.T) {
	s := newRateSearch(t, nil)
	s.Resume(adaptive.SearchState{Level: 9e9, Lowered: 3 * sec}, 100*sec, 2*time.Second)
	if s.Refused(100*sec, 5*sec) {
		t.Error("a call sent before the decrease lowered the rate again")
	}
	if !s.Refused(100*sec, 5*sec-1) {
		t.Error("a call sent after the decrease did not lower the rate")
	}
}

// A drought that begins in a resumed row of refusals ends, though nobody knows at which rate the
// row began.
func TestDroughtOfAResumedRow(t *testing.T) {
	s := newRateSearch(t, nil)
	s.Resume(adaptive.SearchState{Level: 100e9, Knee: 100e9, Streak: 2, Lowered: 1}, 0, 0)
	for at := sec / 10; at < 10*sec; at += sec / 10 {
		if s.Ready(at) {
			s.Raise(at)
		}
		if s.Count(at, 1); at < 5*sec {
			s.Refused(at, 0)
		}
	}
	if got := s.State(10 * sec); got.Level < 2e9 || got.Streak != 0 {
		t.Errorf("behind the drought: %+v", got)
	}
}

// A refusal of a call that was sent later than it was refused says as much as one of which that is
// not known.
func TestRefusedBeforeItWasSent(t *testing.T) {
	levels := make(map[int64]bool)
	for _, took := range []int64{0, -1, math.MinInt64 / 2, math.MinInt64} {
		s := newRateSearch(t, nil)
		s.Resume(adaptive.SearchState{Level: 1000e9}, 0, 0)
		s.Count(sec, 5000)
		s.RefusedUntil(sec, took, 31*sec)
		levels[s.State(sec).Level] = true
	}
	if len(levels) != 1 {
		t.Errorf("the levels are %v", levels)
	}
}

// The searches say in JSON all that they know.
func TestSearchStateRoundTrip(t *testing.T) {
	want := adaptive.SearchState{Level: 1, Knee: 2, Step: 3, Raised: 4, Streak: 5, Lowered: 6}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got adaptive.SearchState
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("%s: %+v, %v", data, got, err)
	}
	if data, _ := json.Marshal(adaptive.SearchState{}); string(data) != `{"level":0}` {
		t.Errorf("nothing is %s", data)
	}
}

// What is restored without age goes on as it did: the next refusals take as much off, and the
// next windows add as much.
func TestRestoreIsTheIdentity(t *testing.T) {
	for name, do := range map[string]func(r *adaptive.Rate, now time.Time) time.Time{
		"in a row of refusals": func(r *adaptive.Rate, now time.Time) time.Time {
			for range 3 {
				r.RefusedAt(now, adaptive.Refusal{})
				now = now.Add(2 * time.Second)
			}
			return now
		},
		"beyond the knee": func(r *adaptive.Rate, now time.Time) time.Time {
			r.RefusedAt(now, adaptive.Refusal{})
			return use(r, now, time.Minute)
		},
	} {
		r, again := newRate(t, startAt(100)), newRate(t, nil)
		now := do(r, noon)
		again.Restore(r.StateAt(now), now)
		if again.StateAt(now) != r.StateAt(now) {
			t.Errorf("%s: %+v, want %+v", name, again.StateAt(now), r.StateAt(now))
		}
		r.RefusedAt(now, adaptive.Refusal{})
		again.RefusedAt(now, adaptive.Refusal{})
		if again.StateAt(now) != r.StateAt(now) {
			t.Errorf("%s, then refused: %+v, want %+v", name, again.StateAt(now), r.StateAt(now))
		}
	}
	c, again := newConcurrency(t, slotsAtStart(100)), newConcurrency(t, nil)
	held := acquire(c, noon)
	held[0].OverloadedAt(noon.Add(time.Second), 0)
	again.Restore(c.StateAt(noon.Add(time.Minute)), noon.Add(time.Minute))
	if got, want := again.StateAt(noon.Add(time.Minute)), c.StateAt(noon.Add(time.Minute)); got != want || got.Streak != 1 {
		t.Errorf("slots: %+v, want %+v", got, want)
	}
}

// Whatever is resumed, at whatever instant and age, and whatever comes after it: the limits stay
// within their bounds, and a state without age is the state.
func FuzzResume(f *testing.F) {
	f.Add(int64(10e9), int64(9e9), int64(1), int64(2), int64(3), int64(4), int64(5), int64(6), []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64), []byte{})
	f.Fuzz(func(t *testing.T, level, knee, step, raised, streak, lowered, at, age int64, ops []byte) {
		state := adaptive.SearchState{Level: level, Knee: knee, Step: step, Raised: raised, Streak: streak, Lowered: lowered}
		r := newRateSearch(t, func(c *adaptive.RateConfig) { c.Floor = limit.Every(time.Hour); c.Start = c.Floor })
		s := newSlotSearch(t, func(c *adaptive.ConcurrencyConfig) { c.Floor, c.Start = 2, 2 })
		r.Resume(state, at, time.Duration(age))
		s.Resume(state, at, time.Duration(age))
		checkSearches(t, r, s, at)
		for ; len(ops) >= 9; ops = ops[9:] {
			number := int64(binary.LittleEndian.Uint64(ops[1:9]))
			at = number
			switch ops[0] % 6 {
			case 0:
				r.Count(at, int(number))
				s.Ended(at)
			case 1:
				r.Refused(at, number>>1)
				s.Overloaded(at, number<<1)
			case 2:
				if r.Ready(at) {
					r.Raise(at)
				}
				if s.Ready(at) {
					s.Raise(at)
				}
			case 3:
				r.Raise(at)
				s.Raise(at)
			case 4:
				r.Failed(at)
				s.Full()
			case 5:
				r.Resume(r.State(at), at, time.Duration(number<<3))
				s.Resume(s.State(at), at, time.Duration(number<<3))
			}
			checkSearches(t, r, s, at)
		}
	})
}

// checkSearches checks that the limits are within their bounds, and that each state resumed is
// the state.
func checkSearches(t *testing.T, r *adaptive.RateSearch, s *adaptive.SlotSearch, at int64) {
	t.Helper()
	rate, slots := r.State(at), s.State(at)
	if gap := r.Gap(); gap < time.Millisecond || gap > time.Hour+time.Second || s.Limit() < 2 || s.Limit() > 1000 {
		t.Fatalf("one in %v, %d slots", gap, s.Limit())
	}
	for _, state := range []adaptive.SearchState{rate, slots} {
		if min(state.Knee, state.Step, state.Raised, state.Streak, state.Lowered) < 0 {
			t.Fatalf("%+v", state)
		}
	}
	again, slotsAgain := *r, *s
	again.Resume(rate, at, 0)
	slotsAgain.Resume(slots, at, 0)
	if again.State(at) != rate || slotsAgain.State(at) != slots {
		t.Fatalf("%+v and %+v, want %+v and %+v", again.State(at), slotsAgain.State(at), rate, slots)
	}
}
