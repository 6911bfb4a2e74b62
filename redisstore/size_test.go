// What a prefix takes of the server: memory for a charge, days and models without end, and no
// script that keeps others waiting.

package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// keyOf returns a key of the prefix.
func keyOf(name string) string { return "{" + prefix + "}:ratelimit:3:" + name }

// memoryOf returns what all keys of the prefix take of a server, in bytes.
func memoryOf(t testing.TB, server *redistest.Server) (bytes int64) {
	t.Helper()
	for _, key := range keys(t, server.Client(), prefix) {
		bytes += server.Do("MEMORY", "USAGE", key, "SAMPLES", 0).(int64)
	}
	return bytes
}

// each calls f for 0 to n-1, by many goroutines.
func each(n int, f func(i int)) {
	const goroutines = 100
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := g; i < n; i += goroutines {
				f(i)
			}
		})
	}
	all.Wait()
}

// A live charge takes at most 200 bytes, with its settlement, of a few models and of many.
func TestMemoryOfCharges(t *testing.T) {
	t.Parallel()
	const most = 200
	for _, models := range []int{1, 100} {
		t.Run(fmt.Sprint(models, " models"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			quotas := make(map[string]ratelimit.ModelQuota)
			for i := range models {
				quotas[nameOf(i)] = plenty[model]
			}
			rl := machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: quotas}}.start(t)
			empty := memoryOf(t, server)
			charges := times(5_000, 100_000)
			var denied sync.Map
			each(charges, func(i int) {
				r, d := rl.Reserve(nameOf(i%models), 1000+i, 500)
				if r == nil {
					denied.Store(d.Code, true)
					return
				}
				r.Commit(1000+i%100, i%700)
			})
			denied.Range(func(code, _ any) bool {
				t.Errorf("denied: %v", code)
				return true
			})
			all := memoryOf(t, server)
			each := float64(all-empty) / float64(charges)
			t.Logf("%d bytes empty, %.0f bytes a charge", empty, each)
			if each > most {
				t.Errorf("a charge takes %.0f bytes, want at most %d", each, most)
			}
		})
	}
}

// A live charge with its settlement takes at most 60 bytes where calls come in tens, and 120 where
// they come one by one. The images are in that.
func TestMemoryOfBatches(t *testing.T) {
	t.Parallel()
	for together, most := range map[int]float64{10: 60, 1: 120} {
		t.Run(fmt.Sprint(together, " together"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rl := machine{addr: server.Addr()}.start(t)
			empty, charges := memoryOf(t, server), times(5_000, 50_000)
			for range charges / together {
				calls := make([]*ratelimit.Reservation, together)
				var all sync.WaitGroup
				for i := range calls {
					all.Go(func() { calls[i], _ = rl.Reserve(model, 1000+i, 500) })
				}
				all.Wait()
				for i, call := range calls {
					all.Go(func() { call.Commit(900+i, 300) })
				}
				all.Wait()
			}
			each := most + 1
			redistest.Eventually(t, fmt.Sprintf("a charge takes %v bytes at most", most), func() bool {
				each = float64(memoryOf(t, server)-empty) / float64(charges)
				return each <= most
			})
			t.Logf("%d bytes empty, %.1f bytes a charge", empty, each)
		})
	}
}

// nameOf returns a name of a model, as long as names are.
func nameOf(i int) string { return fmt.Sprintf("provider-model-%d-2026-11-22", i) }

// What a prefix takes does not grow with the days, although each of them brings other models.
func TestMemoryOfDays(t *testing.T) {
	t.Parallel()
	models, days := times(1_000, 40_000), times(5, 30)
	server := redistest.Start(t, redistest.Ahead(0))
	var memory []int64
	for day := range days {
		server.SetAhead(time.Duration(day) * 25 * time.Hour)
		rl := machine{addr: server.Addr(), limiter: ratelimit.Config{MaxModels: 2 * models}}.start(t)
		each(models, func(i int) { rl.RecordUsage(fmt.Sprintf("%s-day-%d", nameOf(i), day), 10, 10) })
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "what is long over is gone", func() bool {
			rl.RecordUsage(model, 1, 1) // which carries what is to be deleted
			return server.Do("XLEN", keyOf("log")).(int64) <= int64(models)+1000
		})
		dropReplaced(t, server)
		memory = append(memory, memoryOf(t, server))
		if err := rl.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("bytes by day: %d", memory)
	settled := max(memory[1], memory[2]) // the days of the models of two days are kept
	if last := memory[len(memory)-1]; last > settled+settled/2 {
		t.Errorf("%d bytes after %d days, %d after 3", last, days, settled)
	}
}

// dropReplaced drops the images that have a newer one, and that are kept for a minute for those
// that may be loading them.
func dropReplaced(t testing.TB, server *redistest.Server) {
	t.Helper()
	client := server.Client()
	for _, key := range keys(t, client, prefix) {
		if left := client.PTTL(t.Context(), key).Val(); left > 0 && left <= time.Minute {
			client.Del(t.Context(), key)
		}
	}
}

// No script keeps the server for long, however much there is. A slow machine may stop a script in
// its middle, so a few may be slow by chance.
func TestScriptsAreShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config("slowlog-log-slower-than 1000", "slowlog-max-len 10000"))
	charges, models, waiters := times(5_000, 100_000), times(500, 40_000), times(100, 1_000)
	quotas := map[string]ratelimit.ModelQuota{model: plenty[model], "line": {MaxInFlight: 1}}
	m := machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: quotas, MaxModels: 2 * models}}
	one, two := m.start(t), m.start(t)
	each(models, func(i int) { one.RecordUsage(nameOf(i), 10, 10) })
	each(charges, func(i int) {
		rl := one
		if i%2 == 0 {
			rl = two
		}
		if r, _ := rl.Reserve(model, 10, 10); r != nil {
			r.Commit(5, 5)
		}
	})
	ctx := t.Context()
	var all sync.WaitGroup
	for i := range waiters {
		rl := one
		if i%2 == 0 {
			rl = two
		}
		all.Go(func() {
			if r, err := rl.Acquire(ctx, "line", 1, 1); err == nil {
				r.Commit(1, 1)
			}
		})
	}
	all.Wait()
	m.start(t) // which reads all of it
	one.Reset(model)
	one.Reset("")
	slow := server.Client().SlowLogGet(t.Context(), -1).Val()
	var longest time.Duration
	var what []string
	for _, s := range slow {
		if longest = max(longest, s.Duration); s.Duration == longest {
			what = s.Args[:min(2, len(s.Args))]
		}
	}
	calls := commandCalls(t, server)
	t.Logf("%d of %d commands took longer than 1 ms, the longest %v: %q", len(slow), calls, longest, what)
	if isLong() && len(slow) > calls/100 { // which is for a machine with nothing else to do
		t.Errorf("%d of %d commands took longer than 1 ms, the longest %v: %q", len(slow), calls, longest, what)
	}
}

// commandCalls returns how many scripts and reads of the stream a server has run.
func commandCalls(t testing.TB, server *redistest.Server) (calls int) {
	t.Helper()
	for _, line := range []string{"evalsha", "eval", "xread", "xrange", "hscan"} {
		var n int
		fmt.Sscanf(infoOf(t, server, "commandstats", "cmdstat_"+line+":calls="), "%d", &n)
		calls += n
	}
	return calls
}
