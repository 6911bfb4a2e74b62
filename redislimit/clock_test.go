package redislimit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

// kinds returns a limiter of each kind that admits 100 a minute, 100 at once.
func kinds(s standing, o redislimit.Options) map[string]redislimit.Limiter {
	return kindsIn(s, time.Minute, o)
}

// kindsIn returns limiters of 100 units in a window.
func kindsIn(s standing, window time.Duration, o redislimit.Options) map[string]redislimit.Limiter {
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	return map[string]redislimit.Limiter{
		"fixed window":    must(redislimit.NewFixedWindow(s.client, 100, window, o)),
		"sliding counter": must(redislimit.NewSlidingCounter(s.client, 100, window, o)),
		"sliding log":     must(redislimit.NewSlidingLog(s.client, 100, window, o)),
		"token bucket":    must(redislimit.NewTokenBucket(s.client, limit.Rate{Count: 100, Per: window}, 100, o)),
	}
}

func take(t testing.TB, l redislimit.Limiter, key string, n int) limit.Decision {
	t.Helper()
	d, err := l.Take(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The clock of the server goes an hour ahead, or back, or both, in the middle of a minute, and the
// limit is used up before and asked for all the time. What passes is at most the limit once more
// for a leap ahead, nothing for one back, and afterwards what passes in two windows: nobody is
// locked out for an hour.
func TestServerClockJumps(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		for name, jumps := range map[string][]time.Duration{
			"back": {-time.Hour}, "ahead": {time.Hour}, "ahead and back": {time.Hour, -time.Hour},
			"back a little": {-time.Microsecond},
		} {
			for kind, l := range kinds(s, redislimit.Options{}) {
				t.Run(kind+" "+name, func(t *testing.T) {
					now := epoch.Add(30 * time.Second)
					key := kind + name
					s.setTime(now)
					if d := take(t, l, key, 100); !d.OK {
						t.Fatalf("at first: %+v", d)
					}
					for _, jump := range jumps {
						now = now.Add(jump)
						s.setTime(now)
						passed := 0
						for take(t, l, key, 1).OK {
							passed++
						}
						if want := map[bool]int{true: 100}[jump > 0]; passed != want {
							t.Errorf("%d pass right after %v, want %d", passed, jump, want)
						}
					}
					d := take(t, l, key, 1)
					if d.OK || d.RetryAfter <= 0 || d.RetryAfter > 2*time.Minute {
						t.Errorf("after the jump: %+v, want a refusal for less than two windows", d)
					}
					s.setTime(now.Add(d.RetryAfter - time.Microsecond))
					if early := take(t, l, key, 1); early.OK {
						t.Error("passes a microsecond before RetryAfter")
					}
					s.setTime(now.Add(d.RetryAfter))
					if !take(t, l, key, 1).OK {
						t.Error("refused at RetryAfter")
					}
					s.setTime(now.Add(2 * time.Minute))
					if d := take(t, l, key, 100); !d.OK && kind != "sliding counter" {
						t.Errorf("two windows after the jump: %+v", d)
					}
					s.setTime(now.Add(4 * time.Minute))
					if d := take(t, l, key, 0); kind == "sliding counter" && d.Remaining != 100 {
						t.Errorf("four windows after the jump: %+v", d)
					}
				})
			}
		}
	})
}

// A denied call may be the only one that sees that the clock went back: it must not leave the state
// in the future.
func TestDenialsSeeTheClockGoBack(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		for kind, l := range kinds(s, redislimit.Options{}) {
			now := epoch.Add(time.Hour)
			s.setTime(now)
			take(t, l, kind, 100)
			now = epoch
			for range 240 { // two minutes, half a second at a time
				s.setTime(now)
				if take(t, l, kind, 100).OK {
					break
				}
				now = now.Add(500 * time.Millisecond)
			}
			if waited := now.Sub(epoch); waited >= 2*time.Minute {
				t.Errorf("%s: the whole limit is back after %v, want at most two windows", kind, waited)
			}
		}
	})
}

// A thousand calls in one microsecond all count, though they are alike.
func TestSameMicrosecond(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		o := redislimit.Options{Timeout: patience}
		s.setTime(epoch.Add(123_456 * time.Microsecond))
		for name, l := range map[string]redislimit.Limiter{
			"fixed window":    must(redislimit.NewFixedWindow(s.client, 990, time.Minute, o)),
			"sliding counter": must(redislimit.NewSlidingCounter(s.client, 990, time.Minute, o)),
			"sliding log":     must(redislimit.NewSlidingLog(s.client, 990, time.Minute, o)),
			"token bucket":    must(redislimit.NewTokenBucket(s.client, limit.PerMinute(990), 990, o)),
		} {
			passed := 0
			for range 1000 {
				if take(t, l, "same", 1).OK {
					passed++
				}
			}
			if passed != 990 {
				t.Errorf("%s: %d of 1,000 pass, want 990", name, passed)
			}
		}
	})
}

// A client whose clock is 26 years behind shares a limit with one whose clock is right: in a bubble
// of synctest it is the year 2000.
func TestClientClocksDoNotMatter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Ahead(0))
	server.SetTime(epoch)
	right := kinds(standing{client: newClient(t, server.Addr())}, redislimit.Options{})
	synctest.Test(t, func(t *testing.T) {
		behind := kinds(standing{client: newClient(t, server.Addr())}, redislimit.Options{})
		for kind := range right {
			for i := range 100 {
				l := []redislimit.Limiter{right[kind], behind[kind]}[i%2]
				d := take(t, l, "k", 1)
				if !d.OK || d.Remaining != 99-i {
					t.Fatalf("%s: call %d: %+v", kind, i, d)
				}
			}
			if one, other := take(t, right[kind], "k", 1), take(t, behind[kind], "k", 1); one != other || one.OK {
				t.Errorf("%s: one client hears %+v, the other %+v", kind, one, other)
			}
		}
	})
}

// A state ends as late after many charges as after one, also if the clock goes back meanwhile.
func TestStatesEndAfterManyCharges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Ahead(0))
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1}) // keeps no records
	defer client.Close()
	server.SetTime(epoch)
	all := kinds(standing{client: client}, redislimit.Options{})
	most := map[string]time.Duration{
		"fixed window": 30 * time.Second, "sliding counter": 90 * time.Second, "sliding log": time.Minute, "token bucket": 3 * time.Second,
	}
	for _, at := range []time.Duration{0, 59 * time.Second, 90 * time.Second, 30 * time.Second, 30*time.Second + time.Millisecond} {
		server.SetTime(epoch.Add(at))
		for kind, l := range all {
			take(t, l, kind, 1)
		}
	}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		kind, _, _ := strings.Cut(key[1:], "}")
		ttl := client.PTTL(t.Context(), key).Val()
		if want := most[kind]; ttl <= want-2*time.Second || ttl > want+time.Second {
			t.Errorf("%s ends in %v, want about %v", key, ttl, want)
		}
	}
}

// What a limiter keeps ends by itself, with the state that it is of.
func TestEverythingEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Ahead(0))
	s := standing{client: newClient(t, server.Addr())}
	server.SetTime(epoch)
	for kind, l := range kinds(s, redislimit.Options{}) {
		take(t, l, kind, 1)
		take(t, l, kind, 1000) // never passes
	}
	group := must(redislimit.NewGroup(s.client, redislimit.Options{Timeout: patience, HoldTTL: time.Minute}))
	h, _, err := group.HoldAll(t.Context(), redislimit.Charge{Limiter: kinds(s, redislimit.Options{})["sliding log"], Key: "g", N: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Commit(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	keys := s.client.Keys(t.Context(), "*").Val()
	if len(keys) != 4*2+2 {
		t.Errorf("there are %d keys, want one for each limiter and one for each charge, and two of the group: %q", len(keys), keys)
	}
	for _, key := range keys {
		if ttl := s.client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 2*time.Minute+time.Second {
			t.Errorf("%s ends in %v, want less than two windows", key, ttl)
		}
	}
	server.SetTime(epoch.Add(3 * time.Minute))
	redistest.Eventually(t, "all keys have ended", func() bool { return s.client.DBSize(t.Context()).Val() == 0 })
}
