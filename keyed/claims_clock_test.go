// Claims about instants of any year and clocks that go back and forth, each tried from outside.

package keyed_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// The clock goes back and forth while keys are evicted: no more passes than the limit for each cell
// that was ever reached.
func TestClaimClockBackAndForth(t *testing.T) {
	for seed := range uint64(300 / racetest.Factor) {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 9))
				o := keyed.Options{MaxKeys: 1 + rng.IntN(6)}
				if shared {
					o.Origin = keyedtest.NewOrigin()
				}
				l := claimNew(t, o)
				start := time.Unix(1_700_000_040, 0)
				passed := map[int]int64{}
				const L = 7
				var latest int64
				now := start
				for range 600 {
					switch rng.IntN(8) {
					case 0:
						now = start.Add(time.Duration(rng.Int64N(int64(3 * time.Minute))))
					case 1:
						now = now.Add(time.Duration(rng.Int64N(int64(time.Minute))) - 30*time.Second)
					}
					if now.Before(start) {
						now = start
					}
					k := rng.IntN(8)
					r := claimReq(fmt.Sprint(k), L, time.Minute, 1+rng.IntN(3))
					latest = max(latest, now.Unix()/60)
					switch rng.IntN(3) {
					case 0:
						if d, _ := l.TakeAt(t.Context(), now, r); d.OK {
							passed[k] += int64(r.Cost)
						}
					case 1:
						if ds, _ := l.TakeAllAt(t.Context(), now, r, r); ds[0].OK && ds[1].OK {
							passed[k] += 2 * int64(r.Cost)
						}
					default:
						if h, d, _ := l.HoldAt(t.Context(), now, r); d.OK {
							h.CommitAt(now, r.Cost)
							passed[k] += int64(r.Cost)
						}
					}
					synctest.Wait()
				}
				cells := latest - start.Unix()/60 + 1
				for k, n := range passed {
					if n > L*cells {
						t.Errorf("seed %d shared %v: key %d passed %d in %d cells of %d", seed, shared, k, n, cells, L)
					}
				}
				l.Close(t.Context())
			})
			if t.Failed() {
				return
			}
		}
	}
}

func TestClaimExtremesShared(t *testing.T) {
	instants := []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 1), time.Unix(math.MinInt64/4, 0), time.Unix(math.MaxInt64/4, 0), time.Date(2262, 4, 11, 23, 47, 17, 0, time.UTC),
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	costs := []int{0, 1, math.MaxInt/2 + 1, math.MaxInt, math.MaxInt - 1}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			origin, x := keyedtest.NewOrigin(), keyedtest.NewExchange()
			var ls []*keyed.Limiter
			for i := range 2 {
				ls = append(ls, claimNew(t, keyed.Options{Origin: origin, Exchange: x, Region: fmt.Sprint(i), MaxKeys: 5}))
			}
			for range 100 {
				l := ls[rng.IntN(2)]
				now := instants[rng.IntN(len(instants))]
				w := []time.Duration{time.Millisecond, time.Second, 400 * 24 * time.Hour}[rng.IntN(3)]
				r := claimReq(fmt.Sprint(rng.IntN(8)), max(1, costs[rng.IntN(len(costs))]), w, costs[rng.IntN(len(costs))])
				switch rng.IntN(4) {
				case 0:
					l.TakeAt(t.Context(), now, r)
				case 1:
					l.TakeAllAt(t.Context(), now, r, r, r)
				case 2:
					h, d, _ := l.HoldAt(t.Context(), now, r)
					if d.Remaining < 0 || d.RetryAfter < 0 || d.ResetAfter < 0 {
						t.Errorf("%+v", d)
					}
					h.CommitAt(instants[rng.IntN(len(instants))], costs[rng.IntN(len(costs))])
				default:
					time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
				}
			}
			for _, l := range ls {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := l.Close(ctx); err != nil {
					t.Error(seed, err)
				}
				cancel()
			}
		})
	}
}

// A cold counter in the far future and in the far past asks the origin as any other.
func TestClaimColdInAnyYear(t *testing.T) {
	for _, now := range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 0), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2262, 4, 11, 23, 47, 17, 0, time.UTC)} {
		synctest.Test(t, func(t *testing.T) {
			o := keyedtest.NewOrigin()
			a, b := claimNew(t, keyed.Options{Origin: o}), claimNew(t, keyed.Options{Origin: o})
			for i, l := range []*keyed.Limiter{a, b} {
				d, _ := l.TakeAt(t.Context(), now, claimReq("k", 10, time.Hour, 6))
				if d.OK != (i == 0) {
					t.Errorf("%v: limiter %d: %+v", now, i, d)
				}
				synctest.Wait()
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
