// Benchmarks of single calls, of saving, of many models, and of what pools, classes and prices
// cost.

package ratelimit_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// benchSizes are the numbers of live entries at which every call is measured: a
// cost that grows shows. The same beside golang.org/x/time/rate is in
// internal/bench.
var benchSizes = []int{0, 100, 10_000, 1_000_000}

// benchSize is a size of a benchmark, a hundredth with -short, which only looks whether it runs.
func benchSize(n int) int {
	if testing.Short() {
		return n / 100
	}
	return n
}

// filledLimiter returns a limiter whose window of "m" holds n entries of 10
// tokens, spread over the last 20 seconds.
func filledLimiter(b *testing.B, n int, quota ratelimit.ModelQuota) *ratelimit.RateLimiter {
	b.Helper()
	rl := newLimiter(b, quota)
	rl.State["m"] = filledStats(n)
	rl.Stats("m")
	return rl
}

func filledStats(n int) *ratelimit.UsageStats {
	now := time.Now()
	stats := &ratelimit.UsageStats{DayStart: now, DayCount: n}
	for i := range n {
		at := now.Add(-time.Duration(n-i) * 20 * time.Second / time.Duration(n))
		stats.Requests = append(stats.Requests, at)
		stats.Tokens = append(stats.Tokens, ratelimit.TokenEntry{Time: at, Count: 10})
	}
	return stats
}

func BenchmarkCalls(b *testing.B) {
	roomy, paced, found := roomyQuota, roomyQuota, roomyQuota
	paced.Burst = 30 * time.Second
	found.AdaptiveFloorRPM = 1_000_000_000
	for _, n := range benchSizes {
		n = benchSize(n)
		calls := []struct {
			name  string
			quota ratelimit.ModelQuota
			call  func(rl *ratelimit.RateLimiter)
		}{
			{"CanSend", roomy, func(rl *ratelimit.RateLimiter) { rl.CanSend("m", 100) }},
			{"Decide", roomy, func(rl *ratelimit.RateLimiter) { rl.Decide("m", 100) }},
			{"DecideDenied", ratelimit.ModelQuota{MaxTPM: 10*n + 1}, func(rl *ratelimit.RateLimiter) { rl.Decide("m", 5*n+2) }},
			{"Stats", roomy, func(rl *ratelimit.RateLimiter) { rl.Stats("m") }},
			{"RecordUsage", roomy, func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 90, 10) }},
			{"PacedCanSend", paced, func(rl *ratelimit.RateLimiter) { rl.CanSend("m", 100) }},
			{"PacedRecordUsage", paced, func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 90, 10) }},
			{"FoundCanSend", found, func(rl *ratelimit.RateLimiter) { rl.CanSend("m", 100) }},
			{"FoundReserve", found, func(rl *ratelimit.RateLimiter) { reserveAndCommit(rl, 80) }},
			{"PacedReserve", paced, func(rl *ratelimit.RateLimiter) { reserveAndCommit(rl, 80) }},
			{"Reserve", roomy, func(rl *ratelimit.RateLimiter) { reserveAndCommit(rl, 80) }},
		}
		for _, c := range calls {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				rl := filledLimiter(b, n, c.quota)
				b.ReportAllocs()
				for b.Loop() {
					c.call(rl)
				}
			})
		}
	}
}

// reserveAndCommit makes a call that used another amount than was estimated.
func reserveAndCommit(rl *ratelimit.RateLimiter, used int) {
	r, _ := rl.Reserve("m", 90, 10)
	r.Commit(used, 10)
}

// BenchmarkLeaving measures the one call at which a million entries leave.
func BenchmarkLeaving(b *testing.B) {
	n := benchSize(1_000_000)
	stats := filledStats(n)
	rl := newLimiter(b, ratelimit.ModelQuota{MaxRPM: 1 << 30})
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		old := *stats
		shift := time.Minute - time.Since(stats.Requests[n-1]) + 20*time.Millisecond
		for i := range old.Requests {
			old.Requests[i] = old.Requests[i].Add(-shift)
			old.Tokens[i].Time = old.Requests[i]
		}
		rl.State["m"] = &old
		rl.Stats("m")
		b.StartTimer()
		rl.CanSend("m", 1)
	}
}

// BenchmarkLongestCall makes calls until a model has more than a million live entries, and others
// while as many leave. It reports the longest single call beside the longest of as many turns of a
// loop that only reads the clock, because the machine and the garbage collector hold up both, and
// how many of each take more than half a millisecond.
func BenchmarkLongestCall(b *testing.B) {
	roomy, paced := roomyQuota, roomyQuota
	paced.Burst = 30 * time.Second
	var r *ratelimit.Reservation
	record := func(rl *ratelimit.RateLimiter) { rl.RecordUsage("m", 90, 10) }
	reserve := func(rl *ratelimit.RateLimiter) { r, _ = rl.Reserve("m", 90, 10) }
	growth := benchSize(1<<20 + 5000)
	for _, bench := range []struct {
		name         string
		quota        ratelimit.ModelQuota
		filled       int // entries that are about to leave
		calls        int
		before, call func(rl *ratelimit.RateLimiter)
	}{
		{"RecordUsage/Growing", roomy, 0, growth, nil, record},
		{"RecordUsage/Leaving", roomy, growth, 2 * growth, nil, record},
		{"PacedRecordUsage/Growing", paced, 0, growth, nil, record},
		{"PacedRecordUsage/Leaving", paced, growth, 2 * growth, nil, record},
		{"Reserve/Growing", roomy, 0, growth, nil, reserve},
		{"Commit/Growing", roomy, 0, growth, reserve, func(*ratelimit.RateLimiter) { r.Commit(80, 10) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var longest, nothing time.Duration
			var long, longNothing int
			for b.Loop() {
				rl := newLimiter(b, bench.quota)
				if bench.filled > 0 {
					rl.State["m"] = leavingStats(bench.filled)
					rl.Stats("m")
				}
				for range bench.calls {
					if bench.before != nil {
						bench.before(rl)
					}
					began := time.Now()
					bench.call(rl)
					took := time.Since(began)
					if longest = max(longest, took); took > time.Millisecond/2 {
						long++
					}
				}
				for range bench.calls {
					took := time.Since(time.Now())
					if nothing = max(nothing, took); took > time.Millisecond/2 {
						longNothing++
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(longest.Seconds()*1000, "longest-ms")
			b.ReportMetric(nothing.Seconds()*1000, "nothing-ms")
			b.ReportMetric(float64(long)/float64(b.N), "long")
			b.ReportMetric(float64(longNothing)/float64(b.N), "long-nothing")
		})
	}
}

// leavingStats is filledStats of which the entries leave within the second that comes.
func leavingStats(n int) *ratelimit.UsageStats {
	stats := filledStats(n)
	for i := range stats.Requests {
		age := time.Minute - time.Second*time.Duration(i)/time.Duration(n)
		stats.Requests[i] = stats.DayStart.Add(-age)
		stats.Tokens[i].Time = stats.Requests[i]
	}
	return stats
}

// BenchmarkPersist also reports hold-ups, see benchWatched.
func BenchmarkPersist(b *testing.B) {
	for _, backend := range backends {
		for _, models := range []int{1, 1000, 100_000} {
			models = max(benchSize(models), 1)
			b.Run(fmt.Sprintf("%s/%d-models", backend, models), func(b *testing.B) {
				rl := newLimiterWith(b, ratelimit.Config{
					Backend:  backend,
					FilePath: filepath.Join(b.TempDir(), "state"),
					Quotas:   map[string]ratelimit.ModelQuota{"other": {MaxRPM: 1 << 30}},
				})
				defer rl.Close()
				for i := range models {
					rl.State[fmt.Sprint("m", i)] = filledStats(benchSize(100_000) / models)
				}
				benchWatched(b, rl, func() {
					if err := rl.Persist(); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkMarshal is what BenchmarkPersist of one model would cost by way of
// yaml.Marshal, before anything is written.
func BenchmarkMarshal(b *testing.B) {
	state := map[string]*ratelimit.UsageStats{"m": filledStats(benchSize(100_000))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := yaml.Marshal(state); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPersistNew measures the SQLite Persist of 1,000 new entries on top of
// 100,000.
func BenchmarkPersistNew(b *testing.B) {
	rl := newLimiterWith(b, ratelimit.Config{Backend: "sqlite", FilePath: filepath.Join(b.TempDir(), "state.db")})
	defer rl.Close()
	rl.State["m"] = filledStats(benchSize(100_000))
	started := time.Now()
	if err := rl.Persist(); err != nil {
		b.Fatal(err)
	}
	first := time.Since(started)
	for b.Loop() {
		b.StopTimer()
		for range 1000 {
			rl.RecordUsage("m", 1, 1)
		}
		b.StartTimer()
		if err := rl.Persist(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
}

// BenchmarkLoad also reports hold-ups, see benchWatched.
func BenchmarkLoad(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend, func(b *testing.B) {
			rl := newLimiterWith(b, ratelimit.Config{Backend: backend, FilePath: filepath.Join(b.TempDir(), "state")})
			defer rl.Close()
			rl.State["m"] = filledStats(benchSize(100_000))
			if err := rl.Persist(); err != nil {
				b.Fatal(err)
			}
			benchWatched(b, rl, func() {
				if err := rl.Load(); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// manyModels returns a limiter with 100,000 models of one entry each.
func manyModels(b *testing.B) *ratelimit.RateLimiter {
	rl := newLimiter(b, ratelimit.ModelQuota{})
	for i := range benchSize(100_000) {
		rl.RecordUsage(fmt.Sprint("m", i), 1, 1)
	}
	return rl
}

// BenchmarkAllStats reads, and so prunes, 100,000 models.
func BenchmarkAllStats(b *testing.B) {
	rl := manyModels(b)
	benchWatched(b, rl, func() { rl.AllStats() })
}

// BenchmarkBackgroundPrune prunes 100,000 models all the time.
func BenchmarkBackgroundPrune(b *testing.B) {
	rl := manyModels(b)
	benchWatched(b, rl, func() {
		stop := rl.BackgroundPrune(time.Microsecond)
		time.Sleep(20 * time.Millisecond)
		stop()
	})
}

// benchWatched measures work, and beside it the longest that a RecordUsage and a
// CanSend on another model took together meanwhile (held-up-ms). The machine and
// the garbage collector hold calls up, too: the same on a limiter that has
// nothing to do with the work is elsewhere-ms. Every other turn watches the one
// or the other.
func benchWatched(b *testing.B, rl *ratelimit.RateLimiter, work func()) {
	apart := newLimiter(b, ratelimit.ModelQuota{})
	var heldUp, elsewhere time.Duration
	for b.Loop() {
		stop := watchHoldUp(rl)
		work()
		heldUp = max(heldUp, stop())

		b.StopTimer()
		stop = watchHoldUp(apart)
		work()
		elsewhere = max(elsewhere, stop())
		b.StartTimer()
	}
	b.ReportMetric(float64(heldUp.Microseconds())/1000, "held-up-ms")
	b.ReportMetric(float64(elsewhere.Microseconds())/1000, "elsewhere-ms")
}

// watchHoldUp calls CanSend and RecordUsage all the time until the returned
// function is called, which tells the longest that two of them took.
func watchHoldUp(rl *ratelimit.RateLimiter) (stop func() time.Duration) {
	quit, done := make(chan struct{}), make(chan time.Duration)
	go func() {
		var longest time.Duration
		for {
			select {
			case <-quit:
				done <- longest
				return
			default:
			}
			started := time.Now()
			rl.RecordUsage("other", 1, 1)
			rl.CanSend("other", 1)
			longest = max(longest, time.Since(started))
			time.Sleep(20 * time.Microsecond)
		}
	}()
	return func() time.Duration {
		close(quit)
		return <-done
	}
}

// benchModels are the numbers of models that hold state at which a call must cost the same.
var benchModels = []int{10, 1_000, 10_000, 50_000}

// BenchmarkManyModels measures calls on few models beside many that hold state.
func BenchmarkManyModels(b *testing.B) {
	const few = 10
	for _, n := range benchModels {
		n = max(benchSize(n), benchModels[0])
		names := make([]string, n+few)
		for i := range names {
			names[i] = fmt.Sprint("model", i)
		}
		call := func(rl *ratelimit.RateLimiter, i int) {
			r, _ := rl.Reserve(names[i%few], 1, 1)
			r.Commit(2, 1)
		}
		// under makes a limiter with n models under the quota "*", all of which are busy.
		under := func(b *testing.B) *ratelimit.RateLimiter {
			every := map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1 << 30}}
			rl := newLimiterWith(b, ratelimit.Config{Quotas: every, MaxModels: n})
			for _, name := range names[:n] {
				rl.RecordUsage(name, 1, 1)
			}
			rl.CanSend(names[n], 1) // finds that there is no place
			return rl
		}
		b.Run(fmt.Sprintf("ReserveWhileSomebodyWaits/%d", n), func(b *testing.B) {
			quotas := map[string]ratelimit.ModelQuota{"busy": {MaxRPM: 1}}
			for _, name := range names {
				quotas[name] = ratelimit.ModelQuota{MaxRPM: 1 << 30}
			}
			rl := newLimiterWith(b, ratelimit.Config{Quotas: quotas})
			for _, name := range names[:n] {
				rl.Reserve(name, 1, 1)
			}
			rl.RecordUsage("busy", 1, 1)
			benchWaiter(b, rl, "busy")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				call(rl, i)
			}
		})
		b.Run(fmt.Sprintf("CommitAndNewName/%d", n), func(b *testing.B) {
			rl := under(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				call(rl, i)
				if rl.CanSend(names[n], 1) {
					b.Fatal("there is a place")
				}
			}
		})
		b.Run(fmt.Sprintf("NewNameForAnother/%d", n), func(b *testing.B) {
			rl := under(b)
			rl.Reset(names[0])
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r, _ := rl.Reserve(names[n+i%few], 1, 1)
				r.Cancel()
			}
		})
		b.Run(fmt.Sprintf("CommitWhileSomebodyWaitsForAPlace/%d", n), func(b *testing.B) {
			rl := under(b)
			benchWaiter(b, rl, names[n])
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				call(rl, i)
			}
		})
	}
}

// BenchmarkLongLine measures a charge while many wait for the model, each until a deadline.
func BenchmarkLongLine(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := newLimiter(b, ratelimit.ModelQuota{MaxInFlight: 1, MaxTPM: 1 << 30, Burst: 30 * time.Second})
			held, _ := rl.Reserve("m", 1, 1)
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			var all sync.WaitGroup
			for range n {
				all.Go(func() { rl.Acquire(ctx, "m", 1, 1) })
			}
			for rl.Stats("m").Waiting < n {
				runtime.Gosched()
			}
			b.ReportAllocs()
			for b.Loop() {
				rl.RecordUsage("m", 1, 1)
			}
			cancel()
			all.Wait()
			held.Cancel()
		})
	}
}

// benchWaiter has somebody wait for a model until the benchmark ends.
func benchWaiter(b *testing.B, rl *ratelimit.RateLimiter, model string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		rl.Acquire(ctx, model, 1, 1)
	}()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	for rl.Stats(model).Waiting == 0 {
		runtime.Gosched()
	}
}

// BenchmarkPools reserves and commits calls of a model in k pools, in turns with a model in none,
// and reports how many times as long that takes. Each pool may add 0.6.
func BenchmarkPools(b *testing.B) {
	for _, k := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			reportTurns(b, callsOf(b, ratelimit.Config{}, ""), callsOf(b, ratelimit.Config{Pools: kPools(k)}, ""))
		})
	}
}

// BenchmarkFairShares is BenchmarkPools for four classes, for prices, and for two pools beside
// them. Four classes and two pools may take 2.5 times as long as none.
func BenchmarkFairShares(b *testing.B) {
	classes := map[string]ratelimit.Class{"a": {Weight: 3}, "b": {}, "c": {Ahead: true}, "d": {MaxQueue: 100}}
	reserved := maps.Clone(classes)
	reserved["b"] = ratelimit.Class{ReservePercent: 10}
	for _, c := range []struct {
		name, class string
		config      ratelimit.Config
	}{
		{"classes", "b", ratelimit.Config{Classes: classes}},
		{"reserve", "b", ratelimit.Config{Classes: reserved}},
		{"classes and pools", "", ratelimit.Config{Classes: classes, Pools: kPools(2)}},
		{"classes and pools", "b", ratelimit.Config{Classes: classes, Pools: kPools(2)}},
		{"reserve and pools", "", ratelimit.Config{Classes: reserved, Pools: kPools(2)}},
		{"reserve and pools", "b", ratelimit.Config{Classes: reserved, Pools: kPools(2)}},
		{"prices", "", ratelimit.Config{Prices: map[string]money.Price{"m": {Input: money.USD(3), Output: money.USD(15)}}}},
	} {
		b.Run(c.name+"/class="+c.class, func(b *testing.B) {
			reportTurns(b, callsOf(b, ratelimit.Config{}, c.class), callsOf(b, c.config, c.class))
		})
	}
}

// kPools returns k pools in which "m" is.
func kPools(k int) map[string]ratelimit.Pool {
	pools := make(map[string]ratelimit.Pool)
	for i := range k {
		pools[fmt.Sprint("pool ", i)] = ratelimit.Pool{Models: []string{"m", "n*"}, Quota: roomyQuota}
	}
	return pools
}

var roomyQuota = ratelimit.ModelQuota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30}

// reportTurns takes turns with two functions that return nanoseconds, and reports the medians and
// their ratio.
func reportTurns(b *testing.B, none, some func() float64) {
	var without, with []float64
	for b.Loop() {
		without, with = append(without, none()), append(with, some())
	}
	slices.Sort(without)
	slices.Sort(with)
	half := len(with) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(without[half], "none-ns")
	b.ReportMetric(with[half], "ns-call")
	b.ReportMetric(with[half]/without[half], "x-none")
	b.ReportMetric(with[0]/without[0], "x-least")
}

// callsOf returns a function that makes calls of a class to "m", and returns the nanoseconds of
// each.
func callsOf(b *testing.B, config ratelimit.Config, class string) func() float64 {
	config.Quotas = map[string]ratelimit.ModelQuota{"m": roomyQuota}
	rl, ctx := newLimiterWith(b, config), b.Context()
	request := ratelimit.Request{Model: "m", PromptTokens: 100, OutputTokens: 50, Class: class}
	call := func() {
		rs, d := rl.ReserveContext(ctx, request)
		if !d.Allowed {
			b.Fatal(d)
		}
		rs[0].Commit(100, 40)
	}
	if class == "" {
		call = func() {
			r, d := rl.Reserve("m", 100, 50)
			if !d.Allowed {
				b.Fatal(d)
			}
			r.Commit(100, 40)
		}
	}
	return func() float64 {
		const before, turn = 600, 400 // which a power of two has room for: a long minute does not grow
		rl.Reset("")
		for range before {
			call()
		}
		began := time.Now()
		for range turn {
			call()
		}
		return float64(time.Since(began)) / turn
	}
}

// BenchmarkEnterAndLeave is one waiter of a class that comes and goes while many wait.
func BenchmarkEnterAndLeave(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl := newLimiterWith(b, ratelimit.Config{
				Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
				Classes: map[string]ratelimit.Class{"a": {Weight: 3}, "b": {}, "c": {Ahead: true}, "d": {}},
			})
			held, _ := rl.Reserve("m", 1, 1)
			defer held.Cancel()
			ctx, cancel := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					rl.AcquireAll(ctx, ratelimit.Request{Model: "m", Class: string(rune('a' + i%4)), Flow: fmt.Sprint(i % 100)})
				})
			}
			for rl.Stats("m").Waiting < n {
				time.Sleep(time.Millisecond)
			}
			gone, end := context.WithCancel(b.Context())
			end()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				served := make(chan bool)
				one, stop := context.WithCancel(b.Context())
				go func() {
					rl.AcquireAll(one, ratelimit.Request{Model: "m", Class: string(rune('a' + i%4))})
					close(served)
				}()
				for rl.Stats("m").Waiting <= n {
					rl.AcquireAll(gone, ratelimit.Request{Model: "m"})
				}
				stop()
				<-served
			}
			b.StopTimer()
			cancel()
			all.Wait()
		})
	}
}
