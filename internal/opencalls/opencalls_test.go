package opencalls

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

const span = int64(time.Minute)

func TestNilSumIsEmpty(t *testing.T) {
	var s *Sum
	s.EndDay()
	if c, border, end := s.Since(7); c != (Charges{}) || border != (Charges{}) || end != 7 || s.Today() != (Charges{}) {
		t.Errorf("%+v %+v %d", c, border, end)
	}
}

func TestDayEndsForAllCalls(t *testing.T) {
	s := New(span)
	s.OpenToday(tokens.Count{Input: 3, Output: 4})
	s.OpenToday(tokens.Count{Input: 1})
	s.CloseToday(tokens.Count{Input: 1})
	if got := s.Today(); got != (Charges{1, 3, 4}) || got.Total() != 7 {
		t.Errorf("the day has %+v", got)
	}
	if s.EndDay(); s.Today() != (Charges{}) {
		t.Errorf("the new day has %+v", s.Today())
	}
}

// Tokens beyond the bound count as the bound, when they come and when they go.
func TestHugeChargesCancelOut(t *testing.T) {
	s := New(span)
	huge := tokens.Count{Input: math.MaxInt, Output: 5}
	s.Open(0, huge)
	s.Open(0, huge)
	s.Close(0, huge)
	c, border, _ := s.Since(0)
	if c.add(border); c.Input <= 0 || c.Input > largest || c.Output != 5 || c.Requests != 1 {
		t.Errorf("%+v", c)
	}
}

// The oracle keeps every open call.
func TestSumAgreesWithOracle(t *testing.T) {
	for _, span := range []int64{1, span, span + int64(250*time.Millisecond), int64(24 * time.Hour)} {
		type call struct {
			at    int64
			count tokens.Count
		}
		random := rand.New(rand.NewPCG(uint64(span), 1))
		s := New(span)
		var open []call
		now := -5 * span
		for range 5000 {
			now += random.Int64N(span/20 + 1)
			switch n := len(open); {
			case n > 0 && random.IntN(3) > 0:
				i := random.IntN(n)
				s.Close(open[i].at, open[i].count)
				open[i] = open[n-1]
				open = open[:n-1]
			default:
				c := call{now - random.Int64N(span/2+1), tokens.Count{Input: random.IntN(100), Output: random.IntN(100)}}
				s.Open(c.at, c.count)
				open = append(open, c)
			}
			from := now - random.Int64N(span+1)
			got, border, end := s.Since(from)
			var exact, ofBorder Charges
			for _, c := range open {
				switch {
				case c.at >= end:
					exact.add(chargesOf(c.count))
				case c.at >= from:
					ofBorder.add(chargesOf(c.count))
				}
			}
			if got != exact || border.Requests < ofBorder.Requests || border.Total() < ofBorder.Total() {
				t.Fatalf("since %d: %+v and %+v up to %d, want %+v and at least %+v", from, got, border, end, exact, ofBorder)
			}
			if length := end - from; length > max(span/7, 1<<32) {
				t.Fatalf("a piece is %v long", time.Duration(length))
			}
		}
	}
}
