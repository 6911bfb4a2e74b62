package opencalls

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

const span = int64(time.Minute)

func chargesOf(c tokens.Count) *Charges {
	return &Charges{Requests: 1, Input: c.Input, Output: c.Output}
}

func TestNilSumIsEmpty(t *testing.T) {
	var s *Sum
	s.BeginDay(1)
	if oldest, over := s.Ages(9, 1); oldest != 0 || over != 0 || s.Calls() != 0 {
		t.Errorf("the oldest is %d old, and %d are old", oldest, over)
	}
	if c, border, end := s.Since(7); c != (Charges{}) || border != (Charges{}) || end != 7 || s.Today() != (Charges{}) {
		t.Errorf("%+v %+v %d", c, border, end)
	}
}

func TestTodayIsTheDaysCalls(t *testing.T) {
	const length = int64(1) << shift
	s := New()
	yesterday, long, now := tokens.Count{Input: 1}, tokens.Count{Input: 3, Output: 4}, tokens.Count{Output: 10}
	s.Open(0, yesterday)
	s.BeginDay(2 * length)
	s.Open(3*length, long)
	s.Open(40*length, now) // all others have left their pieces
	if got := s.Today(); got != (Charges{2, 3, 14, 0}) || got.Total() != 17 {
		t.Errorf("the day has %+v", got)
	}
	s.Close(0, yesterday)
	s.Close(3*length, long)
	if got := s.Today(); got != (Charges{1, 0, 10, 0}) {
		t.Errorf("after the others are closed, the day has %+v", got)
	}
	s.BeginDay(41 * length)
	if s.Today() != (Charges{}) {
		t.Errorf("the new day has %+v", s.Today())
	}
	s.BeginDay(2 * length) // the clock was set back
	s.Close(40*length, now)
	if s.Today() != (Charges{}) {
		t.Errorf("a call of yesterday leaves %+v", s.Today())
	}
}

func TestArrivedCallsGiveNoRequestBack(t *testing.T) {
	const length = int64(1) << shift
	s, c := New(), tokens.Count{Input: 3, Output: 4}
	for i := range int64(3) {
		s.Open(i*length, c)
	}
	s.Arrive(0, 1)
	s.Arrive(2*length, 1)
	today, _, _ := s.Since(0)
	for of, want := range map[state.Dimension]int{state.RPM: 1, state.RPD: 1, state.ITPM: 9, state.TPM: 21} {
		if got := s.Today().Of(of); got != want {
			t.Errorf("%v: %d may be given back, want %d", of, got, want)
		}
	}
	if s.Calls() != 3 || s.Arrived() != 2 || today.Arrived != 1 { // the first is in the border
		t.Errorf("%d calls, %d arrived, %+v in the minute", s.Calls(), s.Arrived(), today)
	}
	s.Open(40*length, c) // the others leave their pieces
	s.Arrive(0, -1)
	s.Close(0, c)
	if got := s.Today().Of(state.RPD); got != 2 || s.Arrived() != 1 {
		t.Errorf("after one is closed, %d may be given back, and %d arrived", got, s.Arrived())
	}
	if (*Sum)(nil).Arrived() != 0 {
		t.Error("a nil sum has calls that arrived")
	}
}

func TestHugeChargesCancelOut(t *testing.T) {
	s := New()
	huge := tokens.Count{Input: math.MaxInt, Output: 5}
	for range 3 {
		s.Open(0, huge)
	}
	for range 2 {
		s.Close(0, huge)
	}
	if _, border, _ := s.Since(0); border != (Charges{1, math.MaxInt, 5, 0}) {
		t.Errorf("%+v", border)
	}
}

// The oracle keeps every open call.
func TestSumAgreesWithOracle(t *testing.T) {
	for _, span := range []int64{1, span, span + int64(250*time.Millisecond), int64(time.Hour)} {
		type call struct {
			at    int64
			count tokens.Count
		}
		random := rand.New(rand.NewPCG(uint64(span), 1))
		s := New()
		var open []call
		now := -5 * span
		for range 5000 {
			now += random.Int64N(span/20 + 1)
			if n := len(open); n > 0 && random.IntN(3) > 0 {
				i := random.IntN(n)
				s.Close(open[i].at, open[i].count)
				open[i] = open[n-1]
				open = open[:n-1]
			} else {
				c := call{now - random.Int64N(span/2+1), tokens.Count{Input: random.IntN(100), Output: random.IntN(100)}}
				s.Open(c.at, c.count)
				open = append(open, c)
			}
			from := now - random.Int64N(span+1)
			got, border, end := s.Since(from)
			var exact, ofBorder, all Charges
			oldest, sure, maybe := int64(0), 0, 0
			for _, c := range open {
				age := now - c.at
				if oldest = max(oldest, age); age >= int64(time.Minute) {
					maybe++
				}
				if age >= int64(time.Minute)+1<<shift {
					sure++
				}
				switch {
				case c.at >= end:
					exact.add(chargesOf(c.count))
				case c.at >= from:
					ofBorder.add(chargesOf(c.count))
				}
				all.add(chargesOf(c.count))
			}
			const known = (pieces - 2) << shift // of calls that are older, only that
			age, over := s.Ages(now, int64(time.Minute))
			if age > oldest || age < min(oldest-1<<shift, known) || over < sure || over > maybe || s.Calls() != len(open) {
				t.Fatalf("at %d the oldest is %d old, want %d; %d of %d are old, want %d to %d", now, age, oldest, over, s.Calls(), sure, maybe)
			}
			// Calls that are charged into the past may be in a piece that is over.
			late := span > 1<<shift*pieces && got != exact
			if got != exact && !late || border.Requests < ofBorder.Requests || border.Total() < ofBorder.Total() {
				t.Fatalf("since %d: %+v and %+v up to %d, want %+v and at least %+v", from, got, border, end, exact, ofBorder)
			}
			if length := end - from; length > 1<<shift && span <= int64(time.Minute) {
				t.Fatalf("a piece is %v long", time.Duration(length))
			}
			if today := s.Today(); today != all {
				t.Fatalf("today is %+v, want %+v", today, all)
			}
		}
	}
}

// Calls of a day that is over are still open, and old.
func TestAgesOverDays(t *testing.T) {
	const length = int64(1) << shift
	s, c := New(), tokens.Count{Input: 1}
	s.Open(0, c)
	s.Open(length, c)
	s.BeginDay(30 * length)
	for i := range int64(40) {
		s.Open((30+i)*length, c)
	}
	s.BeginDay(65 * length)
	s.Close(0, c)
	now := 70 * length
	age, over := s.Ages(now, span)
	if age < span || age > now-length || over < 41-16 || over > 41 || s.Calls() != 41 {
		t.Errorf("the oldest is %v old, and %d of %d are old", time.Duration(age), over, s.Calls())
	}
	s.Close(length, c)
	for i := range int64(40) {
		s.Close((30+i)*length, c)
	}
	if age, over := s.Ages(now, span); age != 0 || over != 0 || s.Calls() != 0 {
		t.Errorf("after the last the oldest is %d old, and %d of %d are old", age, over, s.Calls())
	}
}
