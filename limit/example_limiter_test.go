package limit_test

import (
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// weekdays is a Limiter of one's own: it admits everything from Monday to Friday.
type weekdays struct{}

func (weekdays) TakeAt(now time.Time, n int) limit.Decision {
	if n < 0 {
		return limit.Decision{Never: true}
	}
	day := now.Weekday()
	if n == 0 || day != time.Saturday && day != time.Sunday {
		return limit.Decision{OK: true, Remaining: 1 << 30}
	}
	monday := now.Truncate(24*time.Hour).AddDate(0, 0, (8-int(day))%7)
	return limit.Decision{RetryAfter: monday.Sub(now)}
}

// A Limiter of one's own beside one of the package.
func ExampleLimiter() {
	pace, err := limit.NewGCRA(limit.PerMinute(60), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	l := limit.All(pace, weekdays{})
	friday := time.Date(2030, 1, 4, 23, 59, 59, 0, time.UTC)
	fmt.Println(l.TakeAt(friday, 1).OK)
	fmt.Println(l.TakeAt(friday, 1).RetryAfter)
	fmt.Println(l.TakeAt(friday.Add(time.Second), 1).RetryAfter)
	// Output:
	// true
	// 1s
	// 48h0m0s
}
