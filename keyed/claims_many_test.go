// Claims about batches, evictions and regions, each tried from outside.

package keyed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// Few places, many keys, all operations: no key gets more than its limit in a cell.
func TestClaimNeverFresh(t *testing.T) {
	for seed := range uint64(max(10, 60/racetest.Factor)) {
		for _, faults := range []string{"none", "ok", "fails", "sometimes", "hangs"} {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				o := keyed.Options{MaxKeys: 1 + rng.IntN(40)}
				var origin *keyedtest.Origin
				if faults != "none" {
					origin = keyedtest.NewOrigin()
					o.Origin = origin
				}
				switch faults {
				case "fails":
					origin.Set(keyedtest.Faults{Err: context.DeadlineExceeded})
				case "hangs":
					origin.Set(keyedtest.Faults{Hang: true})
				}
				l := claimNew(t, o)
				time.Sleep(time.Duration(rng.Int64N(int64(time.Minute))))
				passed := map[string]int64{} // per key and cell
				const L = 10
				keys := 1 + rng.IntN(60)
				name := func(k int, at time.Time) string { return fmt.Sprint(k, " ", at.Unix()/60) }
				req := func(k int, cost int) keyed.Request { return claimReq(fmt.Sprint(k), L, time.Minute, cost) }
				ctx := t.Context()
				for range 400 {
					if faults == "sometimes" && rng.IntN(10) == 0 {
						f := keyedtest.Faults{}
						switch rng.IntN(4) {
						case 0:
							f.Err = context.Canceled
						case 1:
							f.Lose = true
						case 2:
							f.Delay = time.Duration(rng.IntN(500)) * time.Millisecond
						}
						origin.Set(f)
					}
					k, cost := rng.IntN(keys), rng.Int64N(5)
					now := time.Now()
					switch rng.IntN(5) {
					case 0, 1:
						d, err := l.TakeAt(ctx, now, req(k, int(cost)))
						if err != nil {
							t.Fatal(err)
						}
						if d.OK {
							passed[name(k, now)] += cost
						}
					case 2:
						j := rng.IntN(keys)
						ds, err := l.TakeAllAt(ctx, now, req(k, int(cost)), req(j, 1), req(k, 1))
						if err != nil {
							t.Fatal(err)
						}
						if ds[0].OK && ds[1].OK && ds[2].OK {
							passed[name(k, now)] += cost + 1
							passed[name(j, now)]++
						}
					case 3:
						h, d, err := l.HoldAt(ctx, now, req(k, int(cost)))
						if err != nil {
							t.Fatal(err)
						}
						if d.OK {
							use := rng.Int64N(cost + 1)
							h.CommitAt(now, int(use))
							passed[name(k, now)] += use
						}
					case 4:
						time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
					}
					if n := l.Len(); n > o.MaxKeys {
						t.Fatalf("%d counters, MaxKeys %d", n, o.MaxKeys)
					}
				}
				for k, n := range passed {
					if n > L {
						t.Errorf("seed %d %s: key %s passed %d of %d", seed, faults, k, n, L)
					}
				}
				if origin != nil {
					origin.Set(keyedtest.Faults{})
					if err := l.Close(ctx); err != nil {
						t.Error(err)
					}
					for k, n := range passed {
						var key string
						var cell int64
						fmt.Sscan(k, &key, &cell)
						if got := origin.Count(keyed.Cell{Namespace: "chat", Key: key, Window: time.Minute, Sequence: cell}); got != n {
							t.Errorf("seed %d %s: origin has %d of %s, want %d", seed, faults, got, k, n)
						}
					}
				}
				l.Close(ctx)
			})
			if t.Failed() {
				return
			}
		}
	}
}

func TestClaimSameRegionName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := keyedtest.NewExchange()
		a := claimNew(t, keyed.Options{Exchange: x, Region: "eu"})
		b := claimNew(t, keyed.Options{Exchange: x, Region: "eu"})
		c := claimNew(t, keyed.Options{Exchange: x, Region: "us"})
		ctx := t.Context()
		r := claimReq("k", 100, time.Hour, 30)
		a.Take(ctx, r)
		time.Sleep(3 * time.Second)
		b.Take(ctx, claimReq("k", 100, time.Hour, 40))
		time.Sleep(3 * time.Second)
		c.Take(ctx, claimReq("k", 100, time.Hour, 1))
		for range 30 {
			time.Sleep(time.Second)
			for _, l := range []*keyed.Limiter{a, b, c} {
				l.Take(ctx, claimReq("k", 100, time.Hour, 0))
			}
		}
		for i, l := range []*keyed.Limiter{a, b, c} {
			d, _ := l.Take(ctx, claimReq("k", 100, time.Hour, 0))
			t.Logf("%d: %d left", i, d.Remaining)
			if d.Remaining < 100-71 {
				t.Errorf("limiter %d: %d left of 100 with 71 used: counts feed back", i, d.Remaining)
			}
		}
		for _, l := range []*keyed.Limiter{a, b, c} {
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// Two processes in each of two regions, each region with an Origin: everybody converges to the sum.
func TestClaimRegionsConverge(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			x := keyedtest.NewExchange()
			ctx := t.Context()
			var all []*keyed.Limiter
			for _, region := range []string{"eu", "us", "ap"} {
				o := keyedtest.NewOrigin()
				for range 2 {
					all = append(all, claimNew(t, keyed.Options{Origin: o, Exchange: x, Region: region}))
				}
			}
			time.Sleep(time.Second)
			const L = 600
			sum := int64(0)
			for range 200 {
				l := all[rng.IntN(len(all))]
				cost := rng.Int64N(4)
				switch rng.IntN(3) {
				case 0:
					if d, _ := l.Take(ctx, claimReq("k", L, time.Hour, int(cost))); d.OK {
						sum += cost
					}
				case 1:
					h, d, _ := l.Hold(ctx, claimReq("k", L, time.Hour, 20))
					if d.OK {
						time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
						if rng.IntN(2) == 0 {
							h.Cancel()
						} else {
							h.Commit(int(cost))
							sum += cost
						}
					}
				default:
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
				}
			}
			for _, l := range all { // each region has a reason to push
				if d, _ := l.Take(ctx, claimReq("k", L, time.Hour, 60)); d.OK {
					sum += 60
				}
			}
			time.Sleep(6 * time.Second)
			for range 3 {
				for _, l := range all {
					l.Take(ctx, claimReq("k", L, time.Hour, 0))
				}
				time.Sleep(6 * time.Second)
			}
			for i, l := range all {
				d, _ := l.Take(ctx, claimReq("k", L, time.Hour, 0))
				if got := L - int64(d.Remaining); got != sum {
					t.Errorf("seed %d limiter %d counts %d, want %d", seed, i, got, sum)
				}
			}
			for _, l := range all {
				if err := l.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Held units are never published; two regions converge within two intervals.
func TestClaimTwoIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := keyedtest.NewExchange()
		ctx := t.Context()
		a := claimNew(t, keyed.Options{Exchange: x, Region: "a"})
		b := claimNew(t, keyed.Options{Exchange: x, Region: "b"})
		a.Take(ctx, claimReq("k", 100, time.Hour, 0))
		b.Take(ctx, claimReq("k", 100, time.Hour, 0))
		time.Sleep(1500 * time.Millisecond)
		h, _, _ := a.Hold(ctx, claimReq("k", 100, time.Hour, 50))
		a.Take(ctx, claimReq("k", 100, time.Hour, 20))
		b.Take(ctx, claimReq("k", 100, time.Hour, 25))
		time.Sleep(2 * time.Second)
		da, _ := a.Take(ctx, claimReq("k", 100, time.Hour, 0))
		db, _ := b.Take(ctx, claimReq("k", 100, time.Hour, 0))
		if da.Remaining != 5 || db.Remaining != 55 {
			t.Error(da, db)
		}
		h.Cancel()
		a.Close(ctx)
		b.Close(ctx)
	})
}

// Opposite orders, rolling cells, real time, race detector.
func TestClaimOppositeBatches(t *testing.T) {
	l := claimNew(t, keyed.Options{MaxKeys: 50})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 3))
			for range 3000 {
				now := time.Now()
				rs := make([]keyed.Request, 10)
				for i := range rs {
					rs[i] = claimReq(fmt.Sprint(i), 20, time.Millisecond, 1)
				}
				rng.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
				rs = rs[:1+rng.IntN(10)]
				ds, err := l.TakeAllAt(context.Background(), now, rs...)
				if err != nil {
					t.Error(err)
				}
				if len(ds) != len(rs) {
					t.Error(len(ds))
				}
			}
		})
	}
	wg.Wait()
}

func TestClaimCloseWhileBusy(t *testing.T) {
	for range 30 {
		o := keyedtest.NewOrigin()
		l := claimNew(t, keyed.Options{Origin: o, Exchange: keyedtest.NewExchange(), Region: "r", ExchangeEvery: time.Millisecond})
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					d, err := l.Take(context.Background(), claimReq("k", 1e9, 24*time.Hour, 1))
					if err == nil && d.OK {
						n.Add(1)
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() { l.Close(context.Background()) })
		}
		wg.Wait()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if got := o.Total("chat", "k"); got != n.Load() {
			t.Errorf("origin has %d of %d", got, n.Load())
		}
	}
}

// A Hold of Cost 0 of a key whose counter may have been evicted: whatever the decision, the Hold
// can be ended.
func TestClaimHoldNothingOfEvicted(t *testing.T) {
	for _, many := range []bool{false, true} {
		for _, hung := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				o := keyed.Options{MaxKeys: 1}
				if hung {
					origin := keyedtest.NewOrigin()
					origin.Set(keyedtest.Faults{Hang: true})
					o.Origin = origin
				}
				l := claimNew(t, o)
				for _, k := range []string{"a", "b"} {
					l.Take(ctx, claimReq(k, 10, time.Minute, 10))
				}
				for range 3 {
					if many {
						hs, _, err := l.HoldAll(ctx, claimReq("c", 10, time.Minute, 0), claimReq("b", 10, time.Minute, 0))
						for _, h := range hs {
							h.Commit(1)
						}
						if err != nil {
							t.Error(err)
						}
						continue
					}
					h, _, err := l.Hold(ctx, claimReq("c", 10, time.Minute, 0))
					if h.Commit(1); err != nil {
						t.Error(err)
					}
				}
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				l.Close(ctx)
			})
		}
	}
}

// A batch that passes has charged everything, also with a free request for a key that may have been
// evicted.
func TestClaimFreeInBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := claimNew(t, keyed.Options{MaxKeys: 2, Origin: keyedtest.NewOrigin(), RefuseEvicted: true})
		for _, k := range []string{"a", "b", "c"} {
			l.Take(ctx, claimReq(k, 10, time.Minute, 5))
		}
		synctest.Wait()
		passed := 0
		for range 20 {
			ds, err := l.TakeAll(ctx, claimReq("x", 10, time.Minute, 0), claimReq("c", 10, time.Minute, 1))
			if err != nil {
				t.Fatal(err)
			}
			if ds[0].OK && ds[1].OK {
				passed++
			}
		}
		if passed > 5 {
			t.Errorf("%d batches passed, and 5 units were left", passed)
		}
		l.Close(ctx)
	})
}
