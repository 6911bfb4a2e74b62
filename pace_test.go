// Burst: calls spread over the minute, before providers that judge in seconds, over restarts.

package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// Ten seconds' share of 60 requests a minute start back to back, the others one a
// second.
func TestPaceOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 60, Burst: 10 * time.Second})
		for i := range 10 {
			if !rl.CanSend("m", 0) {
				t.Fatalf("call %d of the burst is denied", i+1)
			}
			rl.RecordUsage("m", 0, 0)
		}
		for i := range 50 {
			d := rl.Decide("m", 0)
			if rl.CanSend("m", 0) || d.Allowed || d.Code != ratelimit.DecisionRPMLimit || !strings.Contains(d.Reason, "pace") || d.RetryAfter != time.Second {
				t.Fatalf("call %d after the burst: %+v", i+1, d)
			}
			time.Sleep(d.RetryAfter - 1)
			if rl.CanSend("m", 0) {
				t.Fatalf("call %d passes too early", i+1)
			}
			time.Sleep(time.Nanosecond)
			if !rl.CanSend("m", 0) {
				t.Fatalf("call %d is denied in its second", i+1)
			}
			rl.RecordUsage("m", 0, 0)
		}
		// The minute holds beside it: those of the burst leave it at its end.
		if d := rl.Decide("m", 0); d.Code != ratelimit.DecisionRPMLimit || strings.Contains(d.Reason, "pace") || d.RetryAfter != 10*time.Second+1 {
			t.Errorf("the minute is used up: %+v", d)
		}
	})
}

func TestPaceDecides(t *testing.T) {
	type quota = ratelimit.ModelQuota
	const s = time.Second
	type call struct{ input, output int }
	tests := []struct {
		name  string
		quota quota
		calls []call // at once
		pause time.Duration
		ask   call
		code  ratelimit.DecisionCode
		retry time.Duration
	}{
		{"the first", quota{MaxRPM: 60, Burst: 1}, nil, 0, call{}, ratelimit.DecisionAllowed, 0},
		{"a share of less than a call", quota{MaxRPM: 60, Burst: 1}, []call{{}}, 0, call{}, ratelimit.DecisionRPMLimit, s},
		{"a share of one call", quota{MaxRPM: 60, Burst: s}, []call{{}}, 0, call{}, ratelimit.DecisionRPMLimit, s},
		{"a share of a call and a half", quota{MaxRPM: 60, Burst: 3 * s / 2}, []call{{}}, 0, call{}, ratelimit.DecisionRPMLimit, s / 2},
		{"a share that the quota does not divide", quota{MaxRPM: 70, Burst: 6 * s}, make([]call, 6), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"and one more", quota{MaxRPM: 70, Burst: 6 * s}, make([]call, 7), 0, call{}, ratelimit.DecisionRPMLimit, 857_142_858},
		{"zero is the whole minute", quota{MaxRPM: 60}, make([]call, 59), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"a minute is the whole minute", quota{MaxRPM: 60, Burst: time.Minute}, make([]call, 59), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"more than a minute, too", quota{MaxRPM: 60, Burst: time.Hour}, make([]call, 59), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"nearly a minute", quota{MaxRPM: 60, Burst: time.Minute - 1}, make([]call, 59), 0, call{}, ratelimit.DecisionRPMLimit, 1},
		{"tokens", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{600, 0}}, 0, call{700, 0}, ratelimit.DecisionTPMLimit, 3 * s},
		{"tokens that fit", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{600, 0}}, 0, call{400, 0}, ratelimit.DecisionAllowed, 0},
		{"prompt and output", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{500, 100}}, 0, call{600, 100}, ratelimit.DecisionTPMLimit, 3 * s},
		{"input tokens", quota{MaxITPM: 6000, Burst: 10 * s}, []call{{1000, 9999}}, 0, call{1, 9999}, ratelimit.DecisionITPMLimit, s / 100},
		{"output tokens", quota{MaxOTPM: 6000, Burst: 10 * s}, []call{{9999, 1000}}, 0, call{9999, 1}, ratelimit.DecisionOTPMLimit, s / 100},
		{"nothing of what is spread", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{1000, 0}}, 0, call{}, ratelimit.DecisionAllowed, 0},
		{"a call larger than the burst", quota{MaxTPM: 6000, Burst: 10 * s}, nil, 0, call{6000, 0}, ratelimit.DecisionAllowed, 0},
		{"one before it", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{100, 0}}, 0, call{2000, 0}, ratelimit.DecisionTPMLimit, s},
		{"is paid for afterwards", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{3000, 0}}, 0, call{100, 0}, ratelimit.DecisionTPMLimit, 30*s - 9*s},
		{"also by who asks for nothing", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{3000, 0}}, 0, call{}, ratelimit.DecisionTPMLimit, 20 * s},
		{"some of it is paid", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{3000, 0}}, 12 * s, call{100, 0}, ratelimit.DecisionTPMLimit, 9 * s},
		{"larger than the minute", quota{MaxTPM: 6000, Burst: 10 * s}, []call{{60_000, 0}}, 0, call{1, 0}, ratelimit.DecisionTPMLimit, 60*s + 1},
		{"both, requests first", quota{MaxRPM: 60, MaxTPM: 6000, Burst: 10 * s}, []call{{2000, 0}, {}, {}, {}, {}, {}, {}, {}, {}, {}}, 0, call{}, ratelimit.DecisionRPMLimit, 10 * s},
		{"the minute holds beside it", quota{MaxRPM: 60, MaxTPM: 600, Burst: s}, []call{{600, 0}}, 0, call{1, 0}, ratelimit.DecisionRPMLimit, 60*s + 1},
		{"no limit of the minute", quota{MaxRPD: 9, Burst: s}, make([]call, 8), 0, call{}, ratelimit.DecisionAllowed, 0},
		{"nothing to spread", quota{Burst: s}, make([]call, 8), 0, call{}, ratelimit.DecisionUnlimited, 0},
		{"the whole burst is back", quota{MaxRPM: 60, Burst: 10 * s}, make([]call, 10), 10 * s, call{}, ratelimit.DecisionAllowed, 0},
		{"the largest limits", quota{MaxRPM: maxInt, MaxTPM: maxInt, Burst: s}, []call{{maxInt / 2, 0}}, 0, call{1, 0}, ratelimit.DecisionTPMLimit, 29*s + 30*s/time.Duration(maxInt) + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, tt.quota)
				for _, c := range tt.calls {
					rl.RecordUsage("m", c.input, c.output)
				}
				time.Sleep(tt.pause)
				req := ratelimit.Request{Model: "m", PromptTokens: tt.ask.input, OutputTokens: tt.ask.output}
				d := rl.DecideRequest(req)
				if d.Code != tt.code || d.RetryAfter != tt.retry || d.Allowed != (tt.retry == 0) || d.Never {
					t.Fatalf("%+v, want %s after %v", d, tt.code, tt.retry)
				}
				if d.Allowed {
					return
				}
				time.Sleep(d.RetryAfter - 1)
				if early := rl.DecideRequest(req); early.Allowed {
					t.Error("it passes a nanosecond early")
				}
				time.Sleep(time.Nanosecond)
				if late := rl.DecideRequest(req); !late.Allowed {
					t.Errorf("it does not pass in time: %+v", late)
				}
			})
		})
	}
}

func TestPaceOfANegativeBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := ratelimit.NewWithConfig(ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1, Burst: -time.Second}}})
		if want := `invalid quota: model "m": Burst (burst) is -1s, want 0 or more`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		for _, quota := range []ratelimit.ModelQuota{{Burst: -1}, {MaxRPM: 5, Burst: -1}, {MaxRPD: 5, Burst: -1}} {
			rl := newLimiter(t, ratelimit.ModelQuota{})
			rl.SetQuota("m", quota)
			for range 2 {
				d := rl.Decide("m", 1)
				if r, _ := rl.Reserve("m", 1, 1); rl.CanSend("m", 1) || r != nil || d.Allowed || !d.Never || d.Code != ratelimit.DecisionInvalidQuota || !strings.Contains(d.Reason, "Burst (burst) is negative") {
					t.Errorf("%+v: %+v", quota, d)
				}
				rl.RecordUsage("m", 1, 1)
			}
		}
	})
}

const maxInt = int(^uint(0) >> 1)

// An estimate that was too high comes back, as if it had been right.
func TestPaceSettles(t *testing.T) {
	const s = time.Second
	type step struct {
		name string
		do   func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation)
		wait time.Duration // until 1000 tokens pass, after it
	}
	commit := func(n int) func(*ratelimit.RateLimiter, *ratelimit.Reservation) {
		return func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Commit(n, 0) }
	}
	for _, tt := range []step{
		{"as estimated", commit(1000), 8 * s},
		{"less", commit(400), 2 * s},
		{"none", commit(0), 0},
		{"more", commit(1500), 13 * s},
		{"cancelled", func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Cancel() }, 0},
		{"arrived", func(_ *ratelimit.RateLimiter, r *ratelimit.Reservation) { r.Arrived(time.Now()); r.Commit(1000, 0) }, 10 * s},
		{"less, and others came since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.RecordUsage("m", 500, 0)
			r.Commit(100, 0)
		}, 5 * s},
		{"less after a pause, and others came since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			time.Sleep(7 * s)
			rl.RecordUsage("m", 500, 0)
			r.Commit(0, 0)
		}, 5 * s},
		{"another quota since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
		}, 4 * s},
		{"another burst since", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 6000, Burst: 12 * s})
		}, 6 * s},
		{"none any more", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 6000})
		}, 0},
		{"reset", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) { rl.Reset("m") }, 0},
		{"another quota, and it arrives", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
			rl.CanSend("m", 1)
			for range 3 {
				r.Arrived(time.Now())
				time.Sleep(s)
			}
			r.Commit(500, 0)
		}, s},
		{"another quota, it arrives, and is cancelled", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.RecordUsage("m", 0, 0)
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
			rl.CanSend("m", 1)
			r.Arrived(time.Now())
			r.Cancel()
		}, 4 * s},
		{"another quota, and settled", func(rl *ratelimit.RateLimiter, r *ratelimit.Reservation) {
			rl.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 12_000, Burst: 5 * s})
			rl.CanSend("m", 1)
			r.Commit(0, 0)
		}, 4 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, ratelimit.ModelQuota{MaxTPM: 6000, Burst: 10 * s})
				rl.CanSend("m", 1)
				r, d := rl.Reserve("m", 1000, 0)
				if r == nil {
					t.Fatal(d)
				}
				time.Sleep(2 * s)
				tt.do(rl, r)
				if d := rl.Decide("m", 1000); d.RetryAfter != tt.wait {
					t.Errorf("%+v, want to wait for %v", d, tt.wait)
				}
				r.Cancel()
			})
		})
	}
}

// Waiters are served when the pace lets them, in order.
func TestPaceServesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 120, Burst: time.Second})
		start := time.Now()
		type served struct {
			who int
			at  time.Duration
		}
		order := make(chan served, 20)
		for i := range 20 {
			go func() {
				r, err := rl.Acquire(t.Context(), "m", 1, 1)
				if err != nil {
					t.Error(err)
				}
				order <- served{i, time.Since(start)}
				r.Commit(1, 1)
			}()
			synctest.Wait()
		}
		for i := range 20 {
			want := served{i, time.Duration(max(i-1, 0)) * time.Second / 2}
			if got := <-order; got != want {
				t.Errorf("%+v was served, want %+v", got, want)
			}
		}
	})
}

func ExampleModelQuota_burst() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: "/dev/null/none", // nothing is saved
		Quotas: map[string]ratelimit.ModelQuota{
			"gpt-4o": {MaxRPM: 60, Burst: 2 * time.Second},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d := rl.Decide("gpt-4o", 0)
		fmt.Println(d.Allowed, d.RetryAfter.Round(time.Second), d.Reason)
		rl.RecordUsage("gpt-4o", 500, 100)
	}
	// Output:
	// true 0s within the quota
	// true 0s within the quota
	// false 1s pace: requests are spread over the minute, and the burst is used up
}

// sliceJudge is a provider that allows so many requests and tokens in each slice of time
// that begins on the clock. What it refuses does not count.
type sliceJudge struct {
	length           time.Duration
	requests, tokens int // zero is no limit

	slice                    time.Time
	usedRequests, usedTokens int
}

func (j *sliceJudge) allows(at time.Time, tokens int) bool {
	if slice := at.Truncate(j.length); slice != j.slice {
		j.slice, j.usedRequests, j.usedTokens = slice, 0, 0
	}
	return (j.requests == 0 || j.usedRequests+1 <= j.requests) && (j.tokens == 0 || j.usedTokens+tokens <= j.tokens)
}

func (j *sliceJudge) charge(tokens int) { j.usedRequests++; j.usedTokens += tokens }

// bucketJudge is a provider with a bucket of requests that is refilled all the time.
type bucketJudge struct {
	every, room time.Duration // one request in every; room for so much
	empty       time.Time
}

func (j *bucketJudge) allows(at time.Time, _ int) bool {
	if j.empty.Before(at) {
		j.empty = at
	}
	return j.empty.Add(j.every).Sub(at) <= j.room
}

func (j *bucketJudge) charge(int) { j.empty = j.empty.Add(j.every) }

type judge interface {
	allows(at time.Time, tokens int) bool
	charge(tokens int)
}

// Providers that say 60,000 a minute mean 1,000 a second, or 10,000 in ten. Many workers
// call as fast as the limiter lets them; each call takes up to 30 ms to
// arrive. With Burst none is refused, and what the provider allows is used.
func TestPaceKeepsProvidersThatJudgeInSeconds(t *testing.T) {
	t.Parallel()
	const (
		s  = time.Second
		ms = time.Millisecond
	)
	tests := []struct {
		name    string
		judges  func() []judge
		quota   ratelimit.ModelQuota
		workers int
		length  time.Duration // of the play
		tokens  int           // a call takes 1 to so many
		most    float64       // requests a minute that the provider allows; tokens where that is what limits
		of      string
	}{
		{"600 a minute, judged in slices of 1 s and 10 s",
			func() []judge {
				return []judge{&sliceJudge{length: s, requests: 10}, &sliceJudge{length: 10 * s, requests: 100}}
			},
			ratelimit.ModelQuota{MaxRPM: 580, Burst: 100 * ms}, 40, 5 * time.Minute, 1, 600, "requests"},
		{"60,000 a minute, judged as 1,000 a second",
			func() []judge {
				return []judge{&sliceJudge{length: s, requests: 1000}, &sliceJudge{length: 10 * s, requests: 10_000}}
			},
			ratelimit.ModelQuota{MaxRPM: 58_000, Burst: ms}, 200, 20 * s, 1, 60_000, "requests"},
		{"60,000 tokens a minute, judged in slices of 10 s",
			func() []judge { return []judge{&sliceJudge{length: 10 * s, tokens: 10_000}} },
			ratelimit.ModelQuota{MaxTPM: 58_000, Burst: 100 * ms}, 40, 5 * time.Minute, 200, 60_000, "tokens"},
		{"600 a minute, out of a bucket of ten seconds",
			func() []judge { return []judge{&bucketJudge{every: 100 * ms, room: 10*s + 30*ms}} },
			ratelimit.ModelQuota{MaxRPM: 600, Burst: 10 * s}, 40, 5 * time.Minute, 1, 600, "requests"},
	}
	for _, tt := range tests {
		tt.length /= min(racetest.Factor, 4)
		t.Run(tt.name, func(t *testing.T) {
			play := func(quota ratelimit.ModelQuota) (accepted, refused, tokens int) {
				synctest.Test(t, func(t *testing.T) {
					rl := newLimiter(t, quota)
					judges := tt.judges()
					var mu sync.Mutex
					var workers sync.WaitGroup
					begin := time.Now()
					for w := range tt.workers {
						random := rand.New(rand.NewPCG(uint64(w), 3))
						workers.Go(func() {
							for {
								n := 1 + random.IntN(tt.tokens)
								r, err := rl.Acquire(t.Context(), "m", n, 0)
								if err != nil {
									t.Error(err)
									return
								}
								if time.Since(begin) >= tt.length {
									r.Cancel()
									return
								}
								time.Sleep(time.Duration(random.Int64N(int64(30 * ms)))) // on its way
								mu.Lock()
								ok := true
								for _, j := range judges {
									ok = ok && j.allows(time.Now(), n)
								}
								if ok {
									accepted++
									tokens += n
									for _, j := range judges {
										j.charge(n)
									}
								} else {
									refused++
								}
								mu.Unlock()
								time.Sleep(100 * ms) // the answer
								r.Commit(n, 0)
							}
						})
					}
					workers.Wait()
				})
				return accepted, refused, tokens
			}
			accepted, refused, tokens := play(tt.quota)
			most := tt.most * tt.length.Minutes()
			used := float64(accepted) / most
			if tt.of == "tokens" {
				used = float64(tokens) / most
			}
			even := tt.quota
			even.Burst = 0
			_, without, _ := play(even)
			t.Logf("in %v with Burst %v: %d refused, %.1f %% used; without: %d refused", tt.length, tt.quota.Burst, refused, 100*used, without)
			if refused > 0 || used < 0.95 {
				t.Errorf("%d refused, %.1f %% used; want none, and 95 %%", refused, 100*used)
			}
			if without == 0 {
				t.Error("without Burst nothing is refused: the provider judges too mildly to show anything")
			}
		})
	}
}

// What was started before a restart counts after it, in both backends.
func TestPaceAcrossRestart(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for _, tt := range []struct {
			name  string
			calls int           // before, one after the other as soon as they may
			pause time.Duration // while nothing runs
			then  int           // that start at once afterwards
		}{
			{"nothing before", 0, 0, 10},
			{"a part of the burst", 4, 0, 6},
			{"the burst", 10, 0, 0},
			{"busy for long", 300, 0, 0},
			{"busy for some time, and a short pause", 55, 3 * time.Second, 3},
			{"busy for long, and idle", 300, 2 * time.Minute, 10},
		} {
			t.Run(backend+"/"+tt.name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				synctest.Test(t, func(t *testing.T) {
					cfg := ratelimit.Config{Backend: backend, FilePath: path, Quotas: map[string]ratelimit.ModelQuota{
						"m": {MaxRPM: 60, Burst: 10 * time.Second},
					}}
					rl := newLimiterWith(t, cfg)
					for range tt.calls {
						if _, err := rl.Acquire(t.Context(), "m", 0, 0); err != nil {
							t.Fatal(err)
						}
					}
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
					if err := rl.Close(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.pause)
					// The quota comes from the file.
					cfg.Quotas, cfg.Providers = nil, []ratelimit.Provider{ratelimit.ProviderLocal}
					again := newLimiterWith(t, cfg)
					defer again.Close()
					if err := again.Load(); err != nil {
						t.Fatal(err)
					}
					if q := again.Quotas["m"]; q != (ratelimit.ModelQuota{MaxRPM: 60, Burst: 10 * time.Second}) {
						t.Errorf("quota %+v", q)
					}
					started := 0
					for again.CanSend("m", 0) {
						again.RecordUsage("m", 0, 0)
						started++
					}
					if started != tt.then {
						t.Errorf("%d calls start at once, want %d: %+v", started, tt.then, again.Decide("m", 0))
					}
				})
			})
		}
	}
}

// Several limiters that share a file keep one pace: never more than the burst and what
// the rate gives start in any time, and hardly less.
func TestPaceIsShared(t *testing.T) {
	needSQLite(t)
	t.Parallel()
	const (
		rpm   = 120
		burst = 5 * time.Second
		runs  = 4 * time.Minute / min(racetest.Factor, 4)
	)
	path := filepath.Join(t.TempDir(), "shared.db")
	synctest.Test(t, func(t *testing.T) {
		var started []time.Time
		open := func() *ratelimit.RateLimiter {
			return newLimiterWith(t, ratelimit.Config{Backend: "sqlite", FilePath: path, Shared: true, Quotas: map[string]ratelimit.ModelQuota{
				"m": {MaxRPM: rpm, MaxTPM: 1000 * rpm, Burst: burst},
			}})
		}
		limiters := []*ratelimit.RateLimiter{open(), open(), open()}
		random := rand.New(rand.NewPCG(1, 2))
		begin := time.Now()
		for time.Since(begin) < runs {
			i := random.IntN(len(limiters))
			if random.IntN(100) == 0 { // one leaves, and another comes
				limiters[i].Close()
				limiters[i] = open()
			}
			r, d := limiters[i].Reserve("m", 1000, 0)
			if d.Allowed {
				started = append(started, time.Now())
				r.Commit(random.IntN(1000), 0)
				continue
			}
			if !strings.Contains(d.Reason, "per minute") && !strings.HasPrefix(d.Reason, "pace: ") {
				t.Fatalf("%+v", d)
			}
			time.Sleep(min(d.RetryAfter, 50*time.Millisecond))
		}
		for _, rl := range limiters {
			rl.Close()
		}
		for i, from := range started {
			for n, to := range started[i:] {
				if most := int(burst.Seconds()*rpm/60+to.Sub(from).Seconds()*rpm/60) + 1; n+1 > most {
					t.Fatalf("%d calls in %v, at most %d may start", n+1, to.Sub(from), most)
				}
			}
		}
		if want := int(runs.Minutes() * rpm * 95 / 100); len(started) < want {
			t.Errorf("%d calls in %v, want at least %d", len(started), runs, want)
		}
		t.Logf("%d calls", len(started))
	})
}
