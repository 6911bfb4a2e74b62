package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

func env(name string, other int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return other
}

func TestLoad(t *testing.T) {
	if os.Getenv("LOAD") == "" {
		t.Skip()
	}
	addr := os.Getenv("LOAD")
	ctx := context.Background()
	c0 := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer c0.Close()
	c0.FlushAll(ctx)
	empty := redis.NewScript("return 1")
	empty.Run(ctx, c0, []string{"k"})
	began, n := time.Now(), 0
	for time.Since(began) < time.Second {
		empty.Run(ctx, c0, []string{"k"})
		n++
	}
	bare := time.Since(began) / time.Duration(n)
	t.Logf("bare %v, %d/s", bare, n)
	cpu := func() (sum float64) {
		info := c0.Info(ctx, "cpu").Val()
		for line := range strings.Lines(info) {
			if v, ok := strings.CutPrefix(line, "used_cpu_user_main_thread:"); ok {
				f, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
				sum += f
			}
			if v, ok := strings.CutPrefix(line, "used_cpu_sys_main_thread:"); ok {
				f, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
				sum += f
			}
		}
		return sum
	}
	began, n = time.Now(), 0
	cpu0 := cpu()
	for time.Since(began) < time.Second {
		empty.Run(ctx, c0, []string{"k"})
		n++
	}
	t.Logf("cpu of bare %.1f us", (cpu()-cpu0)*1e6/float64(n))
	cpu0 = cpu()
	limiters, each := env("LIMITERS", 1), env("EACH", 1)
	var counts = make([]atomic.Int64, limiters)
	lat := make([][]time.Duration, limiters*each)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for i := range limiters {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
		s, err := redisstore.New(ctx, c, redisstore.Options{Prefix: "load"})
		if err != nil {
			t.Fatal(err)
		}
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{Store: s, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1 << 30, MaxTPM: 1 << 40, MaxInFlight: 1 << 20}},
			OnError: func(err error) { t.Log(err) }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer rl.Close()
		for g := range each {
			wg.Go(func() {
				for !stop.Load() {
					a := time.Now()
					r, d := rl.Reserve("m", 10, 10)
					lat[i*each+g] = append(lat[i*each+g], time.Since(a))
					if r == nil {
						t.Errorf("%+v", d)
						return
					}
					r.Commit(5, 5)
					counts[i].Add(1)
				}
			})
		}
	}
	time.Sleep(time.Duration(env("SECONDS", 2)) * time.Second)
	stop.Store(true)
	wg.Wait()
	var total, least, most int64 = 0, 1 << 60, 0
	for i := range counts {
		k := counts[i].Load()
		total, least, most = total+k, min(least, k), max(most, k)
	}
	all := slices.Concat(lat...)
	slices.Sort(all)
	secs := float64(env("SECONDS", 2))
	t.Logf("pairs/s %.0f (x%.2f of bare), slowest %.2f fastest %.2f of mean, p50 %v p99 %v max %v", float64(total)/secs, float64(total)/secs*bare.Seconds(),
		float64(least)/float64(total)*float64(limiters), float64(most)/float64(total)*float64(limiters), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	fmt.Println()
}
