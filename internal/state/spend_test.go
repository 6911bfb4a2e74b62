package state_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Changes of the same periods come to the same in any order, unless the sum is below zero on the
// way.
func TestSpendChangesCommute(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var changes []state.Spend
		for range 1 + random.IntN(6) {
			amount := money.Amount(1 + random.IntN(50))
			changes = append(changes, state.Spend{
				Day:   state.SpendPeriod{Begin: 100, End: 200, Spent: amount},
				Month: state.SpendPeriod{Begin: 0, End: 1000, Spent: amount},
			})
		}
		sum := func() (s state.Spend) {
			for _, c := range changes {
				s.Add(c)
			}
			return s
		}
		want := sum()
		random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		if got := sum(); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		var before state.Spend
		before.Add(changes[0])
		again := before
		again.Add(want.Less(before))
		if again != want {
			t.Fatalf("%+v and what is more is %+v, want %+v", before, again, want)
		}
	}
}

// What can be read is written so that the same is read again.
func FuzzSpendText(f *testing.F) {
	for _, text := range []string{
		"[0,0,0,0,0,0]", "[1,2,3,4,5,6]", "[1,2,-3,4,5,6]", "[2,1,0,0,0,0]", "[1,2,3]", "[1,2,3,4,5,6,7]", "{}", "null", "[1,2,3,4,5,6] ", "[1.5,2,3,4,5,6]",
		"[1,2,3,4,5,6,7,8,9]", "[1,2,3,4,5,6,7,8,-9]", "[1,2,3,4,5,6,7,8,9,10]", "[0,0,0,0,0,0,0,0,0,10,11,12,13]", "[0,0,0,0,0,0,0,0,0,-10,-11,12,13]",
		"[0,0,0,0,0,0,0,0,0,12,13,10,11]", "[0,0,0,0,0,0,0,0,0,-9223372036854775808,9223372036854775807,9223372036854775807,9223372036854775807]",
		state.SpendText(state.Spend{Day: state.SpendPeriod{Begin: math.MinInt64, End: math.MinInt64 + 1, Spent: money.Max}}),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		change, err := state.ParseSpendChange(text)
		if err != nil {
			return
		}
		if again, err := state.ParseSpendChange(state.SpendText(change)); err != nil || again != change {
			t.Errorf("%q is %+v, and again %+v, %v", text, change, again, err)
		}
		if s, err := state.ParseSpend(text); err == nil && (s != change || s.Day.Spent < 0 || s.Month.Spent < 0) {
			t.Errorf("%q is %+v and %+v", text, change, s)
		}
		var s state.Spend
		s.Add(change)
		s.Add(change)
		if s.Day.Spent < 0 || s.Month.Spent < 0 {
			t.Errorf("%q twice is %+v", text, s)
		}
		if again, err := state.ParseSpend(state.SpendText(s)); err != nil || again != s {
			t.Errorf("%q twice is %+v, and again %+v, %v", text, s, again, err)
		}
	})
}
