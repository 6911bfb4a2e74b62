package tally

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The oracle keeps every call.
func TestMinuteAgreesWithOracle(t *testing.T) {
	type call struct {
		at      int64
		refused bool
	}
	random := rand.New(rand.NewPCG(1, 1))
	var m Minute
	var calls []call
	now := int64(0)
	for range 5000 {
		now += random.Int64N(int64(5 * time.Second))
		if random.IntN(200) == 0 {
			now += random.Int64N(int64(time.Hour))
		}
		c := call{now, random.IntN(2) == 0}
		if calls = append(calls, c); c.refused {
			m.At(now).Refused++
		} else {
			m.At(now).Admitted++
		}
		var least, most Calls
		for _, c := range calls {
			for _, in := range []struct {
				of  *Calls
				age int64
			}{{&least, int64(time.Minute)}, {&most, int64(time.Minute) + span}} {
				switch age := now - c.at; {
				case age > in.age:
				case c.refused:
					in.of.Refused++
				default:
					in.of.Admitted++
				}
			}
		}
		got := m.Last(now)
		if got.Refused < least.Refused || got.Refused > most.Refused || got.Admitted < least.Admitted || got.Admitted > most.Admitted {
			t.Fatalf("at %v: %+v, want between %+v and %+v", time.Duration(now), got, least, most)
		}
	}
}

// A minute after the last call there is none.
func TestMinuteEnds(t *testing.T) {
	var m Minute
	m.At(0).Refused = 9
	for at, want := range map[time.Duration]int{0: 9, time.Minute: 9, 70*time.Second - 1: 9, 70 * time.Second: 0, time.Hour: 0} {
		if got := m.Last(int64(at)); got != (Calls{Refused: want}) {
			t.Errorf("after %v: %+v, want %d", at, got, want)
		}
	}
}

// Each row: calls that estimate and use as much.
func TestOff(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		calls, estimated, used int
		want                   bool
	}{
		{"right", 1000, 100, 100, false},
		{"a quarter", 1000, 100, 25, false},
		{"less than a quarter", 1000, 100, 24, true},
		{"twice", 1000, 100, 200, false},
		{"more than twice", 1000, 100, 203, true},
		{"too few", 31, 100, 1, false},
		{"enough", 32, 100, 1, true},
		{"no estimate", 32, 0, 10, true},
		{"nothing", 32, 0, 0, false},
		{"huge", 10_000, math.MaxInt, math.MaxInt, false},
	} {
		var e Estimates
		for range tt.calls {
			e.Add(tt.estimated, tt.used)
		}
		if e.Off() != tt.want || e.Calls < 0 || e.Estimated < 0 || e.Used < 0 {
			t.Errorf("%s: %t of %+v", tt.name, e.Off(), e)
		}
	}
}

// A program that corrects its estimates is believed after some hundred calls.
func TestEstimatesForget(t *testing.T) {
	var e Estimates
	for range 100_000 {
		e.Add(1000, 10)
	}
	n := 0
	for ; e.Off(); n++ {
		e.Add(10, 10)
	}
	if n == 0 || n > 1000 {
		t.Errorf("believed after %d calls", n)
	}
	for range 1000 {
		e.Add(10, 10)
	}
	if e.Estimated != e.Used && e.Estimated > e.Used+e.Used/10 {
		t.Errorf("%+v after a thousand", e)
	}
}
