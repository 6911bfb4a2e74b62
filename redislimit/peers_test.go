package redislimit_test

import (
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// row is a request and what is to come of it.
type row struct {
	at             time.Duration // since the first
	n              int
	ok             bool
	remaining      int
	reset, retry   time.Duration
	resetTolerance time.Duration // where the table of the peer has one
}

func checkRows(t *testing.T, s standing, l redislimit.Limiter, key string, rows []row) {
	t.Helper()
	for i, r := range rows {
		s.setTime(epoch.Add(r.at))
		d := take(t, l, key, r.n)
		if d.OK != r.ok || d.Remaining != r.remaining || d.RetryAfter != r.retry || (d.ResetAfter-r.reset).Abs() > r.resetTolerance {
			t.Errorf("row %d: %d at %v: %+v, want %+v", i, r.n, r.at, d, r)
		}
	}
}

const (
	ms = time.Millisecond
	s1 = time.Second
)

// The table of throttled's tests of GCRA (v2.15.0, TestRateLimit: 1 a second, a burst of 4 beyond
// the first), with its figures. Its RetryAfter of -1 is 0 here. Row 12 peeks: throttled has OK with
// RetryAfter of what a unit waits for, here only a refusal has one.
func TestTableOfThrottled(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		l := must(redislimit.NewTokenBucket(s.client, limit.PerSecond(1), 5, redislimit.Options{Timeout: patience}))
		checkRows(t, s, l, "foo", []row{
			{0, 6, false, 5, 0, 0, 0},
			{0, 1, true, 4, 1 * s1, 0, 0},
			{0, 1, true, 3, 2 * s1, 0, 0},
			{0, 1, true, 2, 3 * s1, 0, 0},
			{0, 1, true, 1, 4 * s1, 0, 0},
			{0, 1, true, 0, 5 * s1, 0, 0},
			{0, 1, false, 0, 5 * s1, 1 * s1, 0},
			{3000 * ms, 1, true, 2, 3000 * ms, 0, 0},
			{3100 * ms, 1, true, 1, 3900 * ms, 0, 0},
			{4000 * ms, 1, true, 1, 4000 * ms, 0, 0},
			{8000 * ms, 1, true, 4, 1000 * ms, 0, 0},
			{9500 * ms, 1, true, 4, 1000 * ms, 0, 0},
			{9500 * ms, 0, true, 4, 1 * s1, 0, 0},
			{9500 * ms, 2, true, 2, 3 * s1, 0, 0},
			{9500 * ms, 5, false, 2, 3 * s1, 3 * s1, 0},
			{15000 * ms, 6, false, 5, 0, 0, 0},
		})
	})
}

// throttled's TestRateLimitCustomPeriod (3 in 10 ms, no burst) sleeps a period after each refusal,
// and its TestRateLimitPeekReturnsRetryAfter asks twice at one instant.
func TestPeriodOfThrottled(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		o := redislimit.Options{Timeout: patience}
		l := must(redislimit.NewTokenBucket(s.client, limit.Rate{Count: 3, Per: 10 * ms}, 1, o))
		now := epoch
		for i := range 27 {
			s.setTime(now)
			d := take(t, l, "bar", 1)
			if d.OK != (i%2 == 0) {
				t.Errorf("call %d: %+v", i, d)
			}
			if !d.OK {
				if d.RetryAfter != 3334*time.Microsecond { // 3333⅓, rounded up
					t.Errorf("call %d: retry after %v", i, d.RetryAfter)
				}
				now = now.Add(10 * ms)
			}
		}
		slow := must(redislimit.NewTokenBucket(s.client, limit.PerSecond(3), 1, o))
		checkRows(t, s, slow, "peek", []row{
			{0, 1, true, 0, 333334 * time.Microsecond, 0, 0},
			{0, 1, false, 0, 333334 * time.Microsecond, 333334 * time.Microsecond, 0},
			{0, 0, true, 0, 333334 * time.Microsecond, 0, 0},
			{333333 * time.Microsecond, 1, false, 0, 1 * time.Microsecond, 1 * time.Microsecond, 0},
			{333334 * time.Microsecond, 1, true, 0, 333333 * time.Microsecond, 0, 1 * time.Microsecond},
		})
	})
}

// The figures of redis_rate's suite (v10.0.1, 10 a second, a burst of 10): TestAllow, then
// TestAllowN_IncrementZero. Its 99 s of waiting for 1,000 units are Never here, because they do not
// fit in any burst. TestRetryAfter: 1 a millisecond, a burst of 1, never longer than that.
func TestTableOfRedisRate(t *testing.T) {
	t.Run("a clock that stands", func(t *testing.T) {
		onServers(t, func(t *testing.T, s standing) {
			o := redislimit.Options{Timeout: patience}
			l := must(redislimit.NewTokenBucket(s.client, limit.PerSecond(10), 10, o))
			checkRows(t, s, l, "test_id", []row{
				{0, 1, true, 9, 100 * ms, 0, 0},
				{0, 2, true, 7, 300 * ms, 0, 0},
				{0, 7, true, 0, 1000 * ms, 0, 0},
				{0, 1, false, 0, 1000 * ms, 100 * ms, 0},
				{0, 1000, false, 0, 1000 * ms, 0, 0},
			})
			checkRows(t, s, l, "increment zero", []row{
				{0, 0, true, 10, 0, 0, 0},
				{0, 1, true, 9, 100 * ms, 0, 0},
				{0, 0, true, 9, 100 * ms, 0, 0},
			})
		})
	})
	// What fails there is the clock: seconds of today as floats have no more than 200 ns, and a
	// reply of 14 digits 100 µs. Here it is a real clock of today.
	t.Run("a clock that goes", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		s := standing{client: newClient(t, server.Addr())}
		fast := must(redislimit.NewTokenBucket(s.client, limit.Every(ms), 1, redislimit.Options{Timeout: patience}))
		refused := 0
		for range 1000 {
			if d := take(t, fast, "test_id", 1); d.RetryAfter > ms || d.OK == (d.RetryAfter > 0) || d.RetryAfter%time.Microsecond != 0 {
				t.Fatalf("%+v", d)
			} else if !d.OK {
				refused++
			}
		}
		t.Logf("%d of 1,000 refused", refused)
	})
}
