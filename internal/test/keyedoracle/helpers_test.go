package keyedoracle_test

import (
	"context"
	"os"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// isLong reports whether the tests run in their long forms.
func isLong() bool { return os.Getenv("RATELIMIT_LONG") != "" }

// times returns how often a test does something in its short and in its long form.
func times(short, long int) int {
	if isLong() {
		return long
	}
	return max(1, short/racetest.Factor)
}

// seeds returns how many seeds a figure is the worst of.
func seeds() uint64 { return uint64(times(2, 10)) }

// fleetSizes are the numbers of processes of a fleet; with the race detector, one.
func fleetSizes() []int {
	if racetest.Factor > 1 && !isLong() {
		return []int{5}
	}
	return []int{3, 5, 9}
}

// newLimiter returns a limiter that is closed with the test.
func newLimiter(t testing.TB, o keyed.Options) *keyed.Limiter {
	t.Helper()
	lim, err := keyed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lim.Close(context.Background()) })
	return lim
}

// take is TakeAt without an error.
func take(t testing.TB, lim *keyed.Limiter, now time.Time, r keyed.Request) limit.Decision {
	t.Helper()
	d, err := lim.TakeAt(context.Background(), now, r)
	if err != nil {
		t.Fatalf("%s: %v", describeRequest(r), err)
	}
	return d
}

// count returns what counts of a counter at an instant, whatever its limit is: a free request at a
// limit that is above all that the tests charge.
func count(t testing.TB, lim *keyed.Limiter, now time.Time, r keyed.Request) int {
	t.Helper()
	const plenty = 1 << 30
	r.Limit, r.Cost = plenty, keyed.Free
	return plenty - take(t, lim, now, r).Remaining
}
