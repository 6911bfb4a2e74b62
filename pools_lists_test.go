// Random calls of models in overlapping pools against plain lists of charges.

package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// poolCharge is a call, and what it counts as to its model and each of its pools.
type poolCharge struct {
	at     time.Time
	tokens int
	in     []string // "model a", "pool p", in the order in which they deny
	open   bool
	res    *ratelimit.Reservation
	rest   bool // what a call took beyond its estimate, which is no request
}

// poolOracle keeps every charge, and scans them all at every question. It knows no days.
type poolOracle struct {
	limits  map[string]ratelimit.ModelQuota // by the names in poolCharge.in
	charges []*poolCharge
}

func (o *poolOracle) used(name string, at time.Time) (requests, tokens, open int) {
	for _, c := range o.charges {
		if !slices.Contains(c.in, name) {
			continue
		}
		if at.Sub(c.at) <= time.Minute {
			tokens += c.tokens
			if !c.rest {
				requests++
			}
		}
		if c.open {
			open++
		}
	}
	return requests, tokens, open
}

// denies returns the first that denies a call at a time, whether a call in flight has to end, and
// whether it never passes.
func (o *poolOracle) denies(in []string, tokens int, at time.Time) (name string, event, never bool) {
	for _, of := range in {
		q := o.limits[of]
		requests, used, open := o.used(of, at)
		slots := q.MaxInFlight > 0 && open >= q.MaxInFlight
		if slots || q.MaxRPM > 0 && requests >= q.MaxRPM || q.MaxTPM > 0 && used+tokens > q.MaxTPM {
			if name == "" {
				name = of
			}
			event = event || slots
			never = never || q.MaxTPM > 0 && tokens > q.MaxTPM
		}
	}
	return name, event, never
}

// wait returns how long it takes until a call passes, if time alone makes it pass.
func (o *poolOracle) wait(in []string, tokens int, now time.Time) time.Duration {
	var ends []time.Duration
	for _, c := range o.charges {
		if left := c.at.Add(time.Minute + 1).Sub(now); left > 0 {
			ends = append(ends, left)
		}
	}
	slices.Sort(ends)
	for _, wait := range ends {
		if name, _, _ := o.denies(in, tokens, now.Add(wait)); name == "" {
			return wait
		}
	}
	return 0
}

func (o *poolOracle) check(t *testing.T, what string, d ratelimit.Decision, in []string, tokens int) {
	t.Helper()
	name, event, never := o.denies(in, tokens, time.Now())
	wantPool, wait := "", time.Duration(0)
	fmt.Sscanf(name, "pool %s", &wantPool)
	if name != "" && !event && !never {
		wait = o.wait(in, tokens, time.Now())
	}
	if d.Allowed != (name == "") || d.Pool != wantPool || d.Never != never || d.RetryAfter != wait {
		t.Fatalf("%s of %q with %d tokens is %+v, want denied by %q, never %t, %v", what, in, tokens, d, name, never, wait)
	}
}

func TestPoolsAgainstLists(t *testing.T) {
	members := map[string][]string{"all": {"*"}, "ab": {"a", "b"}, "bc": {"c", "b*"}, "solo": {"d"}}
	for seed := range manySeeds(t, 30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 21))
				quota := func(scale int) (q ratelimit.ModelQuota) {
					if r.IntN(3) > 0 {
						q.MaxRPM = 1 + r.IntN(4*scale)
					}
					if r.IntN(2) > 0 {
						q.MaxTPM = 1 + r.IntN(60*scale)
					}
					if r.IntN(3) == 0 {
						q.MaxInFlight = 1 + r.IntN(3*scale)
					}
					return q
				}
				o := &poolOracle{limits: make(map[string]ratelimit.ModelQuota)}
				cfg := ratelimit.Config{Quotas: quotas{}, Pools: pools{}}
				in := map[string][]string{}
				for _, model := range []string{"a", "b", "c", "d"} {
					cfg.Quotas[model] = quota(1)
					o.limits["model "+model] = cfg.Quotas[model]
					in[model] = []string{"model " + model}
				}
				for _, name := range []string{"ab", "all", "bc", "solo"} {
					cfg.Pools[name] = ratelimit.Pool{Models: members[name], Quota: quota(2)}
					o.limits["pool "+name] = cfg.Pools[name].Quota
				}
				for model, names := range map[string][]string{"a": {"ab", "all"}, "b": {"ab", "all", "bc"}, "c": {"all", "bc"}, "d": {"all", "solo"}} {
					for _, name := range names {
						in[model] = append(in[model], "pool "+name)
					}
				}
				rl := newLimiterWith(t, cfg)
				for range 300 {
					model, tokens := string("abcd"[r.IntN(4)]), r.IntN(40)
					switch r.IntN(8) {
					case 0:
						time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
					case 1, 2:
						o.settle(r)
					case 3:
						rl.RecordUsage(model, tokens, 0)
						o.charges = append(o.charges, &poolCharge{at: time.Now(), tokens: tokens, in: in[model]})
					case 4:
						o.check(t, "Decide", rl.Decide(model, tokens), in[model], tokens)
						if name, _, _ := o.denies(in[model], tokens, time.Now()); rl.CanSend(model, tokens) != (name == "") {
							t.Fatalf("CanSend of %s %d", model, tokens)
						}
					default:
						res, d := rl.Reserve(model, tokens, 0)
						o.check(t, "Reserve", d, in[model], tokens)
						if res != nil {
							o.charges = append(o.charges, &poolCharge{at: time.Now(), tokens: tokens, in: in[model], open: true, res: res})
						}
					}
					o.checkStats(t, rl)
				}
			})
		})
	}
}

// settle commits or cancels an open call.
func (o *poolOracle) settle(r *rand.Rand) {
	for i, c := range o.charges {
		if !c.open || r.IntN(3) > 0 {
			continue
		}
		c.open = false
		if r.IntN(3) == 0 {
			c.res.Cancel()
			o.charges = slices.Delete(o.charges, i, i+1)
			return
		}
		tokens := r.IntN(60)
		if c.res.Commit(tokens, 0); time.Since(c.at) > time.Minute && tokens > c.tokens {
			o.charges = append(o.charges, &poolCharge{at: time.Now(), tokens: tokens - c.tokens, in: c.in, rest: true})
			return
		}
		c.tokens = tokens
		return
	}
}

// checkStats compares all that is used.
func (o *poolOracle) checkStats(t *testing.T, rl *ratelimit.RateLimiter) {
	t.Helper()
	for name := range o.limits {
		var of string
		var s ratelimit.ModelStats
		if n, _ := fmt.Sscanf(name, "pool %s", &of); n == 1 {
			s = rl.PoolStats(of)
		} else {
			s = rl.Stats(name[len("model "):])
		}
		requests, tokens, open := o.used(name, time.Now())
		if s.RPM != requests || s.TPM != tokens || s.InFlight != open {
			t.Fatalf("%s: %+v, want %d requests, %d tokens, %d open", name, s, requests, tokens, open)
		}
	}
}
