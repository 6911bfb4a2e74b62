//go:build !nosqlite

// Shared: processes take turns, and wake each other.

package ratelimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedChildTakesTurns makes calls until its input ends, and says of each when it was
// asked for and when it was admitted. With tokens it cancels them, so that their room is
// free again.
func sharedChildTakesTurns(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error {
	in.Scan() // go
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		in.Scan()
		cancel()
	}()
	errs := make([]error, plan.Goroutines)
	var all sync.WaitGroup
	for g := range plan.Goroutines {
		all.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now().UnixNano()
				requests := []ratelimit.Request{{Model: plan.Model, PromptTokens: plan.PromptTokens}}
				if plan.Also != "" {
					requests = append(requests, ratelimit.Request{Model: plan.Also, PromptTokens: plan.PromptTokens})
					if g%2 == 1 {
						slices.Reverse(requests)
					}
				}
				r, err := rl.AcquireAll(ctx, requests...)
				if err != nil {
					if ctx.Err() == nil {
						errs[g] = err
					}
					return
				}
				fmt.Println(g, asked, time.Now().UnixNano())
				runtime.Gosched()
				if plan.PromptTokens > 0 {
					r.Cancel()
				} else {
					for _, r := range r {
						r.Commit(0, 0)
					}
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// sharedTurn is a wait of one goroutine that ended with its admission.
type sharedTurn struct {
	who             int
	asked, admitted int64
}

// sharedTurns lets processes take turns, and collects what they say of them, until done
// says of their number that it is enough.
func sharedTurns(t *testing.T, children []*sharedChild, goroutines int, done func(n int) bool) []sharedTurn {
	t.Helper()
	var mu sync.Mutex
	var turns []sharedTurn
	var all sync.WaitGroup
	enough := sync.OnceFunc(func() {
		for _, c := range children {
			c.in.Close()
		}
	})
	for _, c := range children {
		c.tell("go")
	}
	for i, c := range children {
		all.Go(func() {
			for line, ok := c.line(); ok; line, ok = c.line() {
				var turn sharedTurn
				if _, err := fmt.Sscan(line, &turn.who, &turn.asked, &turn.admitted); err != nil {
					t.Errorf("a process said %q", line)
					enough()
					continue
				}
				turn.who += i * goroutines
				mu.Lock()
				turns = append(turns, turn)
				if done(len(turns)) {
					enough()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return turns
}

// Callers that want more than there is, all the time, get equal shares. The time of a turn depends
// on the machine, so a wait is counted in turns: the other calls that are admitted meanwhile.
func TestSharedProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		scarce string
		quota  ratelimit.ModelQuota
		tokens int
		also   string
	}{
		{"one slot", ratelimit.ModelQuota{MaxInFlight: 1}, 0, ""},
		{"three slots", ratelimit.ModelQuota{MaxInFlight: 3}, 0, ""},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 25}, 10, ""},
		{"slots of two models, in either order", ratelimit.ModelQuota{MaxInFlight: 2}, 0, "n"},
	} {
		t.Run(test.scarce, func(t *testing.T) {
			const processes, goroutines = 4, 4
			const each = processes * goroutines
			most := times(20, 12, 1000) * each
			children := sharedStarted(t, processes, "turns", sharedPlan{
				Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": test.quota, "n": test.quota},
				Goroutines: goroutines, Model: "m", Also: test.also, PromptTokens: test.tokens,
			})
			turns := sharedTurns(t, children, goroutines, func(n int) bool { return n >= most })
			slices.SortFunc(turns, func(a, b sharedTurn) int { return int(a.admitted - b.admitted) })
			count := make([]int, each)
			passed, slowest := 0, time.Duration(0)
			waits := make([]time.Duration, len(turns))
			admitted := make([]int64, len(turns))
			for i, turn := range turns {
				admitted[i] = turn.admitted
			}
			for i, turn := range turns {
				count[turn.who]++
				waits[i] = time.Duration(turn.admitted - turn.asked)
				slowest = max(slowest, waits[i])
				first, _ := slices.BinarySearch(admitted, turn.asked)
				passed = max(passed, i-first)
			}
			slices.Sort(waits)
			byProcess := make([]int, processes)
			for who, n := range count {
				byProcess[who/goroutines] += n
			}
			took := time.Duration(admitted[len(turns)-1] - admitted[0])
			t.Logf("%d turns in %v: %v by process, %d to %d by goroutine; waits p50 %v, p99 %v, worst %v; at most %d others came first",
				len(turns), took, byProcess, slices.Min(count), slices.Max(count),
				waits[len(waits)/2], waits[len(waits)*99/100], slowest, passed)
			// In turn, each gets 1/16, and waits for 15 others. Processes begin one after the
			// other, and one that is not awake in time misses a turn.
			if least := len(turns) / each / 3; slices.Min(count) < least {
				t.Errorf("the turns were %v, want at least %d each", count, least)
			}
			if passed > 10*each {
				t.Errorf("one waited while %d others were admitted, want at most %d", passed, 10*each)
			}
		})
	}
}

// Small requests do not starve a large one, in the same process or in another. There is always
// room for a small one, and for the large one only if they wait.
func TestSharedLargeRequestIsNotStarved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		scarce string
		quota  ratelimit.ModelQuota
		small  int // tokens
		large  []ratelimit.Request
	}{
		{"slots", ratelimit.ModelQuota{MaxInFlight: 3}, 0, []ratelimit.Request{{Model: "m"}, {Model: "m"}, {Model: "m"}}},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 30}, 10, []ratelimit.Request{{Model: "m", PromptTokens: 30}}},
	} {
		t.Run(test.scarce, func(t *testing.T) {
			plan := sharedPlan{
				Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": test.quota},
				Goroutines: 4, Model: "m", PromptTokens: test.small,
			}
			rl := sharedLimiter(t, plan)
			children := sharedStarted(t, 2, "turns", plan)
			ctx, cancel := context.WithTimeout(context.Background(), sharedSafety)
			defer cancel()
			// The next large one comes when the small ones have had some turns again.
			const times, between = 10, 20
			var large []sharedTurn
			var all sync.WaitGroup
			next := make(chan struct{}, times+1)
			all.Go(func() {
				for range next {
					asked := time.Now().UnixNano()
					got, err := rl.AcquireAll(ctx, test.large...)
					if err != nil {
						t.Error(err)
						return
					}
					large = append(large, sharedTurn{asked: asked, admitted: time.Now().UnixNano()})
					got.Cancel()
				}
			})
			asked := 0
			small := sharedTurns(t, children, plan.Goroutines, func(n int) bool {
				if n/between > asked && asked < times {
					asked++
					next <- struct{}{}
				}
				return n >= (times+2)*between
			})
			close(next)
			all.Wait()
			if len(large) != times {
				t.Errorf("%d large ones were admitted, want %d", len(large), times)
			}
			worst, slowest := 0, int64(0)
			for _, turn := range large {
				before := 0
				for _, s := range small {
					if turn.asked < s.admitted && s.admitted < turn.admitted {
						before++
					}
				}
				worst, slowest = max(worst, before), max(slowest, turn.admitted-turn.asked)
			}
			t.Logf("%d small ones in all; at most %d came before a large one, which waited at most %v",
				len(small), worst, time.Duration(slowest))
			if most := 20 * 8; worst > most {
				t.Errorf("%d small ones came before a large one, want at most %d", worst, most)
			}
		})
	}
}

// A process that waits learns soon that another one made room.
func TestSharedWaiterWakes(t *testing.T) {
	t.Parallel()
	reserve := sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10}
	for _, test := range []struct {
		when   string
		change sharedOrder
	}{
		{"a call ends", sharedOrder{Do: "commit", PromptTokens: 10}},
		{"a call is cancelled", sharedOrder{Do: "cancel"}},
		{"the quota is raised", sharedOrder{Do: "quota", Model: "m", Quota: ratelimit.ModelQuota{MaxInFlight: 2, MaxTPM: 100}}},
		{"tokens are given back", sharedOrder{Do: "commit"}},
	} {
		t.Run(test.when, func(t *testing.T) {
			quota := ratelimit.ModelQuota{MaxInFlight: 1, MaxTPM: 100}
			if test.when == "tokens are given back" {
				quota = ratelimit.ModelQuota{MaxTPM: 10}
			}
			agents := sharedStarted(t, 2, "agent", sharedPlan{
				Path: sqlitePath(t), Margin: time.Hour, Quotas: map[string]ratelimit.ModelQuota{"m": quota},
			})
			a, b := agents[0], agents[1]
			var latencies []time.Duration
			for range times(5, 3, 200) {
				a.admitted(reserve)
				b.order(sharedOrder{Do: "acquire", Model: "m", PromptTokens: 10})
				waiting(a, "m")
				// The longer one waits, the less often it looks. So this is no wait for
				// something, it is how long the call takes.
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				made := a.does(test.change)
				got := b.answer()
				if got.Error != "" {
					t.Fatal(got.Error)
				}
				latencies = append(latencies, got.Ended.Sub(made.Began))
				b.does(sharedOrder{Do: "cancel"})
				if test.change.Do == "quota" {
					a.does(sharedOrder{Do: "cancel"})
					a.does(sharedOrder{Do: "quota", Model: "m", Quota: quota})
				}
				a.does(sharedOrder{Do: "reset", Model: "m"})
			}
			slices.Sort(latencies)
			t.Logf("woke after %v (p50), %v (worst)", latencies[len(latencies)/2], latencies[len(latencies)-1])
			if worst := latencies[len(latencies)-1]; worst > 10*time.Second {
				t.Errorf("woke after %v", worst)
			}
			a.end()
			b.end()
		})
	}
}
