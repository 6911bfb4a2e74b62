package limit_test

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Two limits hold for one call: one of a second, and one of a day.
func ExampleAll() {
	second, err := limit.NewGCRA(limit.PerSecond(10), 2)
	if err != nil {
		panic(err)
	}
	day, err := limit.NewGCRA(limit.Rate{Count: 1000, Per: 24 * time.Hour}, 1000)
	if err != nil {
		panic(err)
	}
	both := limit.All(second, day)

	now := time.Unix(1_800_000_000, 0)
	for range 3 {
		d := both.TakeAt(now, 1)
		fmt.Println(d.OK, d.RetryAfter)
	}
	fmt.Println("left of the day:", day.TakeAt(now, 0).Remaining)
	// Output:
	// true 0s
	// true 0s
	// false 100ms
	// left of the day: 998
}

// A hold of a Set is set aside with all of its members.
func ExampleSet_HoldAt() {
	a, err := limit.NewGCRA(limit.PerSecond(1), 5)
	if err != nil {
		panic(err)
	}
	b, err := limit.NewGCRA(limit.PerSecond(1), 3)
	if err != nil {
		panic(err)
	}
	now := time.Unix(1_800_000_000, 0)
	hold, _ := limit.All(a, b).HoldAt(now, 2)
	fmt.Println(a.TakeAt(now, 0).Remaining, b.TakeAt(now, 0).Remaining)
	hold.Cancel() // the call was never made
	fmt.Println(a.TakeAt(now, 0).Remaining, b.TakeAt(now, 0).Remaining)
	// Output:
	// 3 1
	// 5 3
}

// A user's limit within that of the company.
func ExampleTree() {
	limiter := func(burst int) limit.Limiter {
		g, err := limit.NewGCRA(limit.PerMinute(60), burst)
		if err != nil {
			panic(err)
		}
		return g
	}
	company, err := limit.NewTree("company", limiter(3))
	if err != nil {
		panic(err)
	}
	ann, err := company.Child("ann", limiter(2))
	if err != nil {
		panic(err)
	}
	bob, err := company.Child("bob", limiter(2))
	if err != nil {
		panic(err)
	}

	now := time.Unix(1_800_000_000, 0)
	for _, user := range []*limit.Tree{ann, ann, ann, bob, bob} {
		if d, refused := user.TakePathAt(now, 1); d.OK {
			fmt.Println(user.Path(), "passes")
		} else {
			fmt.Println(user.Path(), "is refused by", refused.Name(), "for", d.RetryAfter)
		}
	}
	// Output:
	// [company ann] passes
	// [company ann] passes
	// [company ann] is refused by ann for 1s
	// [company bob] passes
	// [company bob] is refused by company for 1s
}

// The shards together are the limit: 10 units are 4, 3 and 3.
func ExampleSharded() {
	s, err := limit.NewSharded(limit.PerMinute(60), 10, 3)
	if err != nil {
		panic(err)
	}
	now := time.Unix(1_800_000_000, 0)
	passed := 0
	for s.AllowN(now, 1) {
		passed++
	}
	fmt.Println(passed, "pass, the next after", s.TakeAt(now, 1).RetryAfter)
	// Output:
	// 10 pass, the next after 3s
}

// All requests for a key take from one shard.
func ExampleSharded_Shard() {
	s, err := limit.NewSharded(limit.PerMinute(60), 12, 4)
	if err != nil {
		panic(err)
	}
	now := time.Unix(1_800_000_000, 0)
	key := s.Shard("ann")
	for key.TakeAt(now, 1).OK {
	}
	fmt.Println(s.TakeAt(now, 0).Remaining, "are left for the others")
	// Output:
	// 9 are left for the others
}

// A limiter for every address, for at most two at a time.
func ExampleKeyed() {
	perAddress, err := limit.NewKeyed(2, time.Hour, func(address string) (limit.Limiter, error) {
		return limit.NewGCRA(limit.PerSecond(1), 1)
	})
	if err != nil {
		panic(err)
	}
	start := time.Unix(1_800_000_000, 0)
	for _, request := range []struct {
		at      time.Duration
		address string
	}{
		{0, "a"}, {0, "a"}, {300 * time.Millisecond, "b"},
		{500 * time.Millisecond, "c"}, // a is the first that can be forgotten
		{time.Second, "c"},
	} {
		d, err := perAddress.TakeAt(request.address, start.Add(request.at), 1)
		fmt.Println(request.address, d.OK, d.RetryAfter, err)
	}
	// Output:
	// a true 0s <nil>
	// a false 1s <nil>
	// b true 0s <nil>
	// c false 500ms <nil>
	// c true 0s <nil>
}

// A call of a user that fails is not counted.
func ExampleKeyed_HoldAt() {
	perUser, err := limit.NewKeyed(1000, time.Hour, func(user string) (limit.Limiter, error) {
		return limit.NewSlidingLog(3, time.Minute)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1_800_000_000, 0)
	hold, d, err := perUser.HoldAt("ann", now, 2)
	fmt.Println(d.OK, d.Remaining, err)
	hold.Cancel()
	d, err = perUser.TakeAt("ann", now, 3)
	fmt.Println(d.OK, d.Remaining, err)
	// Output:
	// true 1 <nil>
	// true 0 <nil>
}
