// Burst before providers that judge in seconds.

package ratelimit_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

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
