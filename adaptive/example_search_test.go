package adaptive_test

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// A limiter with a lock, a clock and a bucket of its own needs only the search.
func ExampleRateSearch() {
	s, err := adaptive.NewRateSearch(adaptive.RateConfig{
		Floor: limit.PerSecond(1), Ceiling: limit.PerSecond(1000), Start: limit.PerSecond(100),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var next int64 // when the next unit passes
	take := func(at int64) bool {
		if at < next {
			return false
		}
		if s.Ready(at) {
			s.Raise(at)
		}
		s.Count(at, 1)
		next = at + int64(s.Gap())
		return true
	}
	const second = int64(time.Second)
	fmt.Println(take(0), take(second/200), take(second/100))
	for range 20 { // of one event
		s.Refused(second, second/2)
	}
	fmt.Println(s.Rate().Limit(), "a second, known:", s.State(second).Knee/1e9, "are too many")
	// Output:
	// true false true
	// 95 a second, known: 100 are too many
}

// A limiter that counts the calls under way itself needs only the search.
func ExampleSlotSearch() {
	s, err := adaptive.NewSlotSearch(adaptive.ConcurrencyConfig{Floor: 1, Ceiling: 100, Start: 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	underWay := 0
	begin := func() bool {
		if underWay >= s.Limit() {
			return false
		}
		if underWay++; underWay == s.Limit() {
			s.Full()
		}
		return true
	}
	end := func(at, took int64, overloaded bool) {
		underWay--
		if overloaded {
			s.Overloaded(at, took)
		} else if s.Ended(at); s.Ready(at) {
			s.Raise(at)
		}
	}
	for begin() {
	}
	fmt.Println(underWay, "calls at once")
	for range 20 {
		end(int64(time.Minute), int64(time.Second), false)
	}
	fmt.Println(s.Limit(), "were never too many")
	begin()
	end(int64(2*time.Minute), int64(time.Second), true)
	fmt.Println(s.Limit(), "after overload")
	// Output:
	// 20 calls at once
	// 40 were never too many
	// 20 after overload
}
