// Package main is a program on an earlier version of this library, which uses all that a shared
// store holds. See Everything and EverythingRedis.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

type reply struct {
	Allowed bool
	Error   string
	Corrupt bool
}

func say(r reply, err error) {
	if err != nil {
		r.Error, r.Corrupt = err.Error(), errors.Is(err, ratelimit.ErrCorruptState)
	}
	text, _ := json.Marshal(r)
	fmt.Println(string(text))
}

func main() {
	cfg := ratelimit.Config{
		Shared: os.Args[1] == "shared", LeaseTTL: lease(), Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Prices: map[string]money.Price{"m": {Input: 1 << 20, Output: 1 << 21}, "paid": {Input: 1 << 30, Output: 1 << 30}},
	}
	rl, err := open(cfg)
	if say(reply{}, err); err != nil {
		return
	}
	defer rl.Close()
	var held []*ratelimit.Reservation
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		order, path, _ := strings.Cut(in.Text(), " ")
		switch order {
		case "reserve":
			r, d := rl.Reserve("m", 10, 0)
			held = append(held, r)
			say(reply{Allowed: d.Allowed}, rl.Err())
		case "fill":
			held = append(held, fill(rl)...)
			say(reply{}, rl.Err())
		case "reset":
			rl.Reset("")
			say(reply{}, rl.Err())
		case "persist":
			say(reply{}, rl.Persist())
		case "dump":
			say(reply{}, dump(rl, path))
		}
	}
}

func lease() time.Duration {
	ttl, err := time.ParseDuration(os.Args[3])
	if err != nil {
		panic(err)
	}
	return ttl
}

func open(cfg ratelimit.Config) (*ratelimit.RateLimiter, error) {
	return ratelimit.NewWithSQLiteConfig(os.Args[2], cfg)
}

// fill does a bit of everything, and returns what it holds.
func fill(rl *ratelimit.RateLimiter) (held []*ratelimit.Reservation) {
	rl.SetClasses(map[string]ratelimit.Class{"live": {Weight: 3, ReservePercent: 20}, "batch": {Weight: 1}})
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 1000, MaxITPM: 900, MaxOTPM: 800, MaxTPD: 5000, MaxInFlight: 9})
	rl.SetQuota("zoned", ratelimit.ModelQuota{MaxRPM: 7, MaxRPD: 70, DayZone: "Pacific/Kiritimati"})
	rl.SetQuota("paid", ratelimit.ModelQuota{MaxSpendPerDay: 1 << 40, MaxSpendPerMonth: 1 << 41, DayZone: "America/New_York"})
	rl.SetQuota("search", ratelimit.ModelQuota{AdaptiveFloorRPM: 5, AdaptiveCeilingRPM: 500, AdaptiveFloorInFlight: 1, AdaptiveCeilingInFlight: 30})
	rl.SetQuota("like-*", ratelimit.ModelQuota{MaxRPM: 40})
	rl.SetQuota("gone", ratelimit.ModelQuota{MaxRPM: 41})
	rl.RemoveQuota("gone")
	rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{"m": {MaxRPM: 60}, "said": {MaxTPD: 8}})
	rl.SetPool("p", ratelimit.Pool{Models: []string{"m", "like-*"}, Quota: ratelimit.ModelQuota{MaxTPM: 3000, MaxInFlight: 50}})
	rl.SetPool("dropped", ratelimit.Pool{Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxTPM: 3000}})
	rl.RecordUsage("forgotten", 9, 9)
	rl.RecordUsage("m", 1, 2)
	rl.Reset("forgotten")
	rl.RemovePool("dropped")
	hold := func(model string, in, out int) *ratelimit.Reservation {
		r, d := rl.Reserve(model, in, out)
		if r == nil {
			panic(fmt.Sprintf("%+v", d))
		}
		return r
	}
	hold("m", 30, 40).Commit(3, 4)
	hold("m", 50, 60).Cancel()
	hold("m", 7, 8).Commit(7, 8)
	moved := hold("m", 5, 6)
	time.Sleep(20 * time.Millisecond)
	moved.Arrived(time.Now())
	held = append(held, moved, hold("m", 11, 12), hold("like-a", 13, 14), hold("search", 1, 1))
	for _, class := range []string{"live", "batch"} {
		rs, d := rl.ReserveContext(ratelimit.WithClass(context.Background(), class), ratelimit.Request{Model: "m", PromptTokens: 20, OutputTokens: 1})
		if !d.Allowed {
			panic(d.Reason)
		}
		if rs[0].Commit(21, 2); class == "live" {
			held = append(held, hold("like-b", 1, 0))
		}
	}
	rl.RecordUsage("zoned", 4, 5)
	rl.RecordUsage("unlisted", 6, 7)
	rl.RecordUsage("paid", 1000, 2000)
	held = append(held, hold("paid", 500, 600))
	rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "search", Problem: "rate_limited", Status: 429})
	rl.Cooldown("cooled", time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	rl.CooldownFor("m", time.Hour, ratelimit.CauseRateLimited)
	for range 40 {
		rl.ObserveAnswer("m", ratelimit.Usage{PromptTokens: 2}, ratelimit.Usage{PromptTokens: 3, OutputTokens: 4})
	}
	return held
}

// dumped is what the program says of names. Quotas and classes are as fmt prints them with %+v.
type dumped struct {
	Stats, Pools                      map[string]ratelimit.ModelStats
	Quotas, Said, PoolQuotas, Classes map[string]string
	Members                           map[string][]string
	Causes                            map[string]ratelimit.Cause
}

func dump(rl *ratelimit.RateLimiter, path string) error {
	d := dumped{
		Stats: rl.AllStats(), Pools: make(map[string]ratelimit.ModelStats), Quotas: make(map[string]string), Said: printed(rl.AccountQuotas()),
		PoolQuotas: make(map[string]string), Members: make(map[string][]string), Classes: printed(rl.Classes()),
		Causes: make(map[string]ratelimit.Cause),
	}
	for _, name := range []string{"m", "zoned", "paid", "search", "like-a", "like-b", "unlisted", "said", "cooled", "forgotten", "gone"} {
		d.Stats[name] = rl.Stats(name)
		if _, q, ok := rl.QuotaFor(name); ok {
			d.Quotas[name] = fmt.Sprintf("%+v", q)
		}
		d.Causes[name] = rl.Decide(name, 1).Cause
	}
	for name := range rl.Pools() {
		pool, _ := rl.Pool(name)
		d.Pools[name], d.PoolQuotas[name], d.Members[name] = rl.PoolStats(name), fmt.Sprintf("%+v", pool.Quota), pool.Models
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func printed[V any](all map[string]V) map[string]string {
	texts := make(map[string]string)
	for name, v := range all {
		texts[name] = fmt.Sprintf("%+v", v)
	}
	return texts
}
