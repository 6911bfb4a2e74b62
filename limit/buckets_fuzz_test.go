package limit_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// With any parameters and times, nothing panics, and every decision is true.
func FuzzBuckets(f *testing.F) {
	f.Add(100, int64(time.Second), 100, int64(0), 1, int64(5), 100)
	f.Add(math.MaxInt, int64(1), math.MaxInt, int64(math.MaxInt64), math.MaxInt, int64(math.MinInt64), 1)
	f.Add(math.MaxInt, int64(7), 3, int64(1), 3, int64(0), 3)
	f.Add(1, int64(1<<60), 1, int64(1<<61), 1, int64(-1<<61), 1)
	f.Add(3, int64(time.Second), 5, int64(-1), 5, int64(333_333_333), 2)
	f.Fuzz(func(t *testing.T, count int, per int64, capacity int, step1 int64, n1 int, step2 int64, n2 int) {
		for _, kind := range bucketKinds {
			l, err := kind.make(limit.Rate{Count: count, Per: time.Duration(per)}, capacity)
			if err != nil {
				if !errors.Is(err, limit.ErrInvalid) {
					t.Fatal(err)
				}
				continue
			}
			checkFuzzed(t, kind.name, l, capacity, []time.Time{
				noon, noon.Add(time.Duration(step1)), noon.Add(time.Duration(step2)), {}, time.Unix(math.MaxInt64, 0),
			}, []int{n1, n2, capacity})
		}
	})
}

// checkFuzzed takes all n at all times, and checks what each decision says.
func checkFuzzed(t *testing.T, name string, l limit.Holder, capacity int, times []time.Time, ns []int) {
	for _, now := range times {
		for _, n := range ns {
			d := l.TakeAt(now, n)
			switch {
			case d.Remaining < 0 || d.Remaining > capacity, d.RetryAfter < 0, d.ResetAfter < 0:
				t.Fatalf("%s: %d units of %d at %v: %+v", name, n, capacity, now, d)
			case d.Never != (n < 0 || n > capacity), d.Never && d.OK, n == 0 && !d.OK:
				t.Fatalf("%s: %d units of %d at %v: %+v", name, n, capacity, now, d)
			case d.OK != (d.RetryAfter == 0) && !d.Never:
				t.Fatalf("%s: %d units of %d at %v: %+v", name, n, capacity, now, d)
			}
			if d.OK || d.Never || d.RetryAfter == math.MaxInt64 { // or longer
				continue
			}
			if early := l.TakeAt(now.Add(d.RetryAfter-1), n); early.OK || early.RetryAfter != 1 {
				t.Fatalf("%s: %d units of %d at %v: %+v, a nanosecond early %+v", name, n, capacity, now, d, early)
			}
			if hold, late := l.HoldAt(now.Add(d.RetryAfter), n); !late.OK {
				t.Fatalf("%s: %d units of %d at %v: %+v, then %+v", name, n, capacity, now, d, late)
			} else {
				hold.Cancel()
			}
		}
	}
}
