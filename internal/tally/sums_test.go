package tally

import (
	"math"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

func TestOpenIsWhatHasNotEnded(t *testing.T) {
	var a Sums
	for range 4 {
		a.Reserved.Add(state.Count{Input: 10, Output: 5}, 100)
	}
	c := &account.Call{Tokens: state.Count{Input: 10, Output: 5}, Most: 100, Cost: 80}
	a.End(c, account.Committed, state.Count{Input: 7, Output: 9})
	a.End(c, account.Cancelled, state.Count{})
	a.End(c, account.Expired, state.Count{})
	if want := (Sum{Calls: 1, Input: 10, Output: 5, Money: 100}); a.Open() != want {
		t.Errorf("open are %+v, want %+v", a.Open(), want)
	}
	if want := (Sum{Calls: 1, Input: 7, Output: 9, Money: 80}); a.Settled != want {
		t.Errorf("settled are %+v, want %+v", a.Settled, want)
	}
	sum := a
	sum.Plus(&a)
	sum.Less(&a)
	if sum != a {
		t.Errorf("%+v, want %+v", sum, a)
	}
}

func TestSumsStopAtTheLargestNumber(t *testing.T) {
	most := state.Count{Input: math.MaxInt, Output: math.MaxInt}
	s := Sum{Input: math.MaxInt64 - 1, Output: math.MaxInt64 - 1, Money: math.MaxInt64}
	s.Add(most, math.MaxInt64)
	if want := (Sum{Calls: 1, Input: math.MaxInt64, Output: math.MaxInt64, Money: math.MaxInt64}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

func TestABookWithoutRoomAddsUpUnderOther(t *testing.T) {
	var b Book
	b.Of("known", true).Reserved.Calls = 1
	b.Of("new", false).Reserved.Calls++
	b.Of("newer", false).Reserved.Calls++
	b.Of("known", false).Reserved.Calls++
	if len(b) != 2 || b["known"].Reserved.Calls != 2 || b[Other].Reserved.Calls != 2 {
		t.Errorf("%v", b)
	}
}
