package redislimit_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// Bad input names the field and the value.
func TestInvalidInput(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	type O = redislimit.Options
	window := func(units int, length time.Duration, o O) func() error {
		return func() error {
			_, one := redislimit.NewFixedWindow(client, units, length, o)
			_, two := redislimit.NewSlidingCounter(client, units, length, o)
			_, three := redislimit.NewSlidingLog(client, units, length, o)
			for _, err := range []error{two, three} {
				if after(err) != after(one) {
					return fmt.Errorf("%w, but %w", one, err)
				}
			}
			return one
		}
	}
	bucket := func(rate limit.Rate, burst int, o O) func() error {
		return func() error { _, err := redislimit.NewTokenBucket(client, rate, burst, o); return err }
	}
	const week = 7 * 24 * time.Hour
	for _, tt := range []struct {
		make func() error
		want string
	}{
		{window(0, week, O{}), "limit is 0, want 1 to 2^50"},
		{window(min(1<<50+1, math.MaxInt), week, O{}), "limit is 1125899906842625, want 1 to 2^50"},
		{window(1, 0, O{}), "window is 0s, want 1µs to 306600h0m0s"},
		{window(1, 40*52*week, O{}), "window is 349440h0m0s, want 1µs to 306600h0m0s"},
		{window(1, 1500, O{}), "window is 1.5µs, want whole microseconds"},
		{window(1, week, O{Prefix: "{a}"}), `Options.Prefix is "{a}", want a name without braces`},
		{window(1, week, O{Timeout: -1}), "Options.Timeout is -1ns, want 0 or more"},
		{window(1, week, O{CacheDenials: -1}), "Options.CacheDenials is -1, want 0 or more"},
		{window(1, week, O{HoldTTL: -1}), "Options.HoldTTL is -1ns, want 0 to 9600h0m0s"},
		{window(1, week, O{OnFailure: redislimit.Local(0)}), "Options.OnFailure is none of FailClosed, FailOpen and Local of a share above 0 and at most 1"},
		{window(1, week, O{OnFailure: redislimit.Local(1.5)}), "Options.OnFailure is none of FailClosed, FailOpen and Local of a share above 0 and at most 1"},
		{window(1, week, O{OnFailure: redislimit.Local(math.NaN())}), "Options.OnFailure is none of FailClosed, FailOpen and Local of a share above 0 and at most 1"},
		{bucket(limit.Rate{}, 1, O{}), "rate.Count is 0, want 1 to 2^50"},
		{bucket(limit.Rate{Count: 1}, 1, O{}), "rate.Per is 0s, want 1ns to 306600h0m0s"},
		{bucket(limit.PerSecond(1), 0, O{}), "burst is 0, want 1 to 2^50"},
		{bucket(limit.Rate{Count: 1, Per: week}, min(1<<40, math.MaxInt), O{}), "burst is 1099511627776, which takes longer than 306600h0m0s at 1/168h0m0s"},
		{bucket(limit.Rate{Count: min(1<<50-1, math.MaxInt), Per: 7}, 1, O{}), "rate is 1125899906842623/7ns, of 1125899906842623000 units in 7 µs, want at most 2^50 units"},
		{func() error { _, err := redislimit.NewFixedWindow(nil, 1, week, O{}); return err }, "client is nil"},
		{func() error { _, err := redislimit.NewGroup((*redis.Client)(nil), O{}); return err }, "client is nil"},
		{func() error { _, err := redislimit.NewOrigin(client, ""); return err }, `prefix is "", want a name without braces`},
		{func() error { _, err := redislimit.NewExchange(client, "}"); return err }, `prefix is "}", want a name without braces`},
	} {
		err := tt.make()
		if err == nil || !errors.Is(err, limit.ErrInvalid) || after(err) != tt.want || !strings.HasPrefix(err.Error(), "new ") {
			t.Errorf("got  %v\nwant new …: invalid parameter: %s", err, tt.want)
		}
	}
}

// after returns what an error says about the parameter.
func after(err error) string {
	_, text, _ := strings.Cut(fmt.Sprint(err), "invalid parameter: ")
	return text
}

// A call with bad input is an error in all modes, and asks nothing.
func TestInvalidCalls(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	for _, mode := range []redislimit.Failure{redislimit.FailClosed, redislimit.FailOpen, redislimit.Local(1)} {
		l := must(redislimit.NewFixedWindow(client, 10, time.Second, redislimit.Options{OnFailure: mode, OnError: func(err error) { t.Error(err) }}))
		for _, tt := range []struct {
			key  string
			n    int
			op   string
			want string
		}{
			{"", 1, "a", `take: invalid parameter: key is "", want a name`},
			{"}k", 1, "a", `take: invalid parameter: key is "}k", want one that does not begin with a closing brace`},
			{"k", -1, "a", "take: invalid parameter: n is -1, want 0 or more"},
			{"k", 1, "", `take: invalid parameter: operation is "", want 1 to 200 bytes without braces and line breaks`},
			{"k", 1, "{x}", `take: invalid parameter: operation is "{x}", want 1 to 200 bytes without braces and line breaks`},
		} {
			d, err := l.Take(redislimit.WithOperation(t.Context(), tt.op), tt.key, tt.n)
			if err == nil || err.Error() != tt.want || !errors.Is(err, limit.ErrInvalid) || d != (limit.Decision{}) {
				t.Errorf("got  %+v, %v\nwant %s", d, err, tt.want)
			}
		}
	}
}

// Keys of any bytes are keys of their own, and limiters of other prefixes, kinds, windows and rates
// count on their own.
func TestKeysAndLimitersAreApart(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		var all []redislimit.Limiter
		for _, prefix := range []string{"", "other"} {
			o := redislimit.Options{Timeout: patience, Prefix: prefix}
			for _, window := range []time.Duration{time.Minute, time.Hour} {
				all = append(all, must(redislimit.NewFixedWindow(s.client, 10, window, o)), must(redislimit.NewSlidingCounter(s.client, 10, window, o)),
					must(redislimit.NewSlidingLog(s.client, 10, window, o)), must(redislimit.NewTokenBucket(s.client, limit.Rate{Count: 7, Per: window}, 10, o)))
			}
		}
		keys := []string{"a", "{a}", "{a", "a}", "a}:ratelimit:1:w:60000000", "\x00", "\xff", "\xfe", "é", " ", "a\n", strings.Repeat("k", 3000)}
		g := newGroup(s)
		for i, key := range keys {
			for k, l := range all {
				h, ds, err := g.HoldAll(t.Context(), redislimit.Charge{Limiter: l, Key: key, N: 9})
				if err != nil || !ds[0].OK || ds[0].Remaining != 1 || h.Commit(t.Context(), 5) != nil {
					t.Fatalf("key %d of limiter %d: %+v, %v", i, k, ds, err)
				}
			}
		}
		for i, key := range keys {
			for k, l := range all {
				if d := take(t, l, key, 0); d.Remaining != 5 {
					t.Errorf("key %d of limiter %d: %d remain, want 5", i, k, d.Remaining)
				}
			}
		}
		// A limit can be changed while programs run.
		higher := must(redislimit.NewFixedWindow(s.client, 30, time.Minute, redislimit.Options{Timeout: patience}))
		lower := must(redislimit.NewFixedWindow(s.client, 2, time.Minute, redislimit.Options{Timeout: patience}))
		if one, other := take(t, higher, "a", 0), take(t, lower, "a", 1); one.Remaining != 25 || other.OK || other.Remaining != 0 || other.RetryAfter != time.Minute {
			t.Errorf("with a limit of 30: %+v; of 2: %+v", one, other)
		}
	})
}
