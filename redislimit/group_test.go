package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/limit"
	"dappco.re/go/core/go-ratelimit/redislimit"
)

func newGroup(s standing) *redislimit.Group {
	return must(redislimit.NewGroup(s.client, redislimit.Options{Timeout: patience}))
}

// remaining returns what remains of each charge's key.
func remaining(t testing.TB, charges []redislimit.Charge) (left []int) {
	t.Helper()
	for _, c := range charges {
		left = append(left, take(t, c.Limiter, c.Key, 0).Remaining)
	}
	return left
}

func charges(of map[string]redislimit.Limiter, key string, n ...int) (all []redislimit.Charge) {
	for i, kind := range []string{"fixed window", "sliding counter", "sliding log", "token bucket"} {
		all = append(all, redislimit.Charge{Limiter: of[kind], Key: key, N: n[i]})
	}
	return all
}

// All or none, over all kinds, and what each Decision says.
func TestTakeAll(t *testing.T) {
	for _, holds := range []bool{false, true} {
		t.Run(fmt.Sprintf("holds %t", holds), func(t *testing.T) { testAll(t, holds) })
	}
}

func testAll(t *testing.T, holds bool) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		all := g.HoldAll
		if !holds {
			all = func(ctx context.Context, charges ...redislimit.Charge) (h redislimit.Hold, ds []limit.Decision, err error) {
				ds, err = g.TakeAll(ctx, charges...)
				return h, ds, err
			}
		}
		for _, tt := range []struct {
			n    []int
			ok   []bool
			left []int
		}{
			{[]int{10, 20, 30, 40}, []bool{true, true, true, true}, []int{90, 80, 70, 60}},
			{[]int{90, 80, 70, 61}, []bool{true, true, true, false}, []int{90, 80, 70, 60}},
			{[]int{91, 0, 71, 1}, []bool{false, true, false, true}, []int{90, 80, 70, 60}},
			{[]int{1, 101, 1, 1}, []bool{true, false, true, true}, []int{90, 80, 70, 60}},
			{[]int{0, 0, 0, 0}, []bool{true, true, true, true}, []int{90, 80, 70, 60}},
			{[]int{90, 80, 70, 60}, []bool{true, true, true, true}, []int{0, 0, 0, 0}},
		} {
			asked := charges(of, "k", tt.n...)
			before := slices.Clone(asked)
			h, ds, err := all(t.Context(), asked...)
			if err != nil || len(ds) != len(asked) || !reflect.DeepEqual(asked, before) {
				t.Fatalf("%v: %+v, %v", tt.n, ds, err)
			}
			passes := true
			for i, d := range ds {
				passes = passes && d.OK
				if d.OK != tt.ok[i] || d.Never != (tt.n[i] > 100) || (d.RetryAfter > 0) != (!d.OK && !d.Never) || d.Remaining != tt.left[i] {
					t.Errorf("%v: decision %d is %+v", tt.n, i, d)
				}
			}
			if (passes && holds) != (h.ID() != "") {
				t.Errorf("%v: id %q", tt.n, h.ID())
			}
			if left := remaining(t, asked); !slices.Equal(left, tt.left) {
				t.Errorf("%v: %v remain, want %v", tt.n, left, tt.left)
			}
		}
		if h, ds, err := all(t.Context()); h.ID() != "" || len(ds) != 0 || err != nil {
			t.Errorf("nothing: %q, %v, %v", h.ID(), ds, err)
		}
	})
}

// The same limiter and key twice in one call count together.
func TestTakeAllCountsOneKeyTwice(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g := newGroup(s)
		for kind, l := range kinds(s, redislimit.Options{}) {
			c := redislimit.Charge{Limiter: l, Key: kind, N: 60}
			if h, ds, err := g.HoldAll(t.Context(), c, c); err != nil || h.ID() != "" || len(ds) != 2 || ds[0].OK || ds[1].OK {
				t.Errorf("%s: 60 twice: %q, %+v, %v", kind, h.ID(), ds, err)
			}
			c.N = 50
			if ds, err := g.TakeAll(t.Context(), c, c); err != nil || !ds[0].OK || ds[0] != ds[1] || ds[0].Remaining != 0 {
				t.Errorf("%s: 50 twice: %+v, %v", kind, ds, err)
			}
			if d := take(t, l, kind, 1); d.OK {
				t.Errorf("%s: one more passes", kind)
			}
		}
	})
}

// What remains after a Commit or a Cancel, at once and in a later call.
func TestSettle(t *testing.T) {
	const taken = 40
	onServers(t, func(t *testing.T, s standing) {
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		for _, tt := range []struct {
			name   string
			settle func(redislimit.Hold) error
			left   int // of 100, right afterwards
		}{
			{"cancel", func(h redislimit.Hold) error { return h.Cancel(t.Context()) }, 100},
			{"commit as taken", func(h redislimit.Hold) error { return h.Commit(t.Context()) }, 60},
			{"commit less", func(h redislimit.Hold) error { return h.Commit(t.Context(), 25, 25, 25, 25) }, 75},
			{"commit nothing", func(h redislimit.Hold) error { return h.Commit(t.Context(), 0, 0, 0, 0) }, 100},
			{"commit more", func(h redislimit.Hold) error { return h.Commit(t.Context(), 70, 70, 70, 70) }, 30},
			{"commit more than the limit", func(h redislimit.Hold) error { return h.Commit(t.Context(), 250, 250, 250, 250) }, 0},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s.setTime(epoch)
				all := charges(of, tt.name, taken, taken, taken, taken)
				h, _, err := g.HoldAll(t.Context(), all...)
				if err != nil {
					t.Fatal(err)
				}
				elsewhere, err := newGroup(s).Held(h.ID())
				if err != nil || elsewhere.ID() != h.ID() {
					t.Fatalf("%q, and held %q, %v", h.ID(), elsewhere.ID(), err)
				}
				if err := tt.settle(elsewhere); err != nil {
					t.Fatal(err)
				}
				want := []int{tt.left, tt.left, tt.left, tt.left}
				if left := remaining(t, all); !slices.Equal(left, want) {
					t.Errorf("%v remain, want %v", left, want)
				}
				for _, again := range []error{tt.settle(h), h.Cancel(t.Context()), h.Commit(t.Context(), 1)} {
					if again != nil {
						t.Errorf("settled again: %v", again)
					}
				}
				if left := remaining(t, all); !slices.Equal(left, want) {
					t.Errorf("%v remain after settling again, want %v", left, want)
				}
				s.setTime(epoch.Add(10 * time.Minute))
				if left := remaining(t, all); !slices.Equal(left, []int{100, 100, 100, 100}) {
					t.Errorf("%v remain in the end, want the limit", left)
				}
			})
		}
		none, err := g.Held("")
		if err != nil || none != (redislimit.Hold{}) || none.ID() != "" || none.Commit(t.Context(), 1) != nil || none.Cancel(t.Context()) != nil {
			t.Errorf("the zero Hold: %+v, %v", none, err)
		}
		s.setTime(epoch)
		h, _, _ := g.HoldAll(t.Context(), redislimit.Charge{Limiter: of["token bucket"], Key: "lost", N: 1})
		s.flush(t)
		if err := h.Commit(t.Context(), 5); !errors.Is(err, redislimit.ErrNotHeld) {
			t.Errorf("what the server has lost: %v, want ErrNotHeld", err)
		}
	})
}

// What is given back in a later window does not lower what others charged there.
func TestCancelIsOfTheTimeOfTheCharge(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		s.setTime(epoch.Add(50 * time.Second))
		all := charges(of, "k", 40, 40, 40, 40)
		h, _, err := g.HoldAll(t.Context(), all...)
		if err != nil {
			t.Fatal(err)
		}
		s.setTime(epoch.Add(90 * time.Second)) // the bucket has drained, the counter weighs 40 at a half
		for i := range all {
			take(t, all[i].Limiter, "k", 30)
		}
		if left, want := remaining(t, all), []int{70, 50, 30, 70}; !slices.Equal(left, want) {
			t.Errorf("before: %v remain, want %v", left, want)
		}
		if err := h.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A bucket knows no time of a charge: it gives back what it has, but never more than is in
		// it.
		if left, want := remaining(t, all), []int{70, 70, 70, 100}; !slices.Equal(left, want) {
			t.Errorf("afterwards: %v remain, want %v", left, want)
		}
	})
}

// Random holds on a log against a plain list of charges.
func TestLogSettlesAsAList(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		type charge struct {
			at time.Time
			n  int
		}
		const window = 100 * time.Millisecond
		g := newGroup(s)
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 3))
			key := string(rune('a' + seed))
			l := must(redislimit.NewSlidingLog(s.client, 50, window, redislimit.Options{Timeout: patience}))
			now := epoch
			var list []*charge
			open := map[redislimit.Hold]*charge{}
			for range 120 {
				now = now.Add(time.Duration(r.IntN(15_000)) * time.Microsecond)
				s.setTime(now)
				used := 0
				for _, c := range list {
					if c.at.After(now.Add(-window)) {
						used += c.n
					}
				}
				if n := 1 + r.IntN(20); r.IntN(2) == 0 {
					h, ds, err := g.HoldAll(t.Context(), redislimit.Charge{Limiter: l, Key: key, N: n})
					if err != nil || ds[0].OK != (used+n <= 50) {
						t.Fatalf("seed %d: %d with %d used: %+v, %v", seed, n, used, ds, err)
					}
					if ds[0].OK {
						list = append(list, &charge{now, n})
						open[h] = list[len(list)-1]
					}
				} else {
					for h, c := range open {
						delete(open, h)
						actual := r.IntN(c.n + 1)
						if err := h.Commit(t.Context(), actual); err != nil {
							t.Fatal(err)
						}
						if c.at.After(now.Add(-window)) {
							used -= c.n - actual
						}
						c.n = actual
						break
					}
					if d := take(t, l, key, 0); d.Remaining != 50-used {
						t.Fatalf("seed %d: %d remain, want %d", seed, d.Remaining, 50-used)
					}
				}
			}
		}
	})
}

// What is held for less than a millisecond is charged, too.
func TestHoldForAMoment(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g := must(redislimit.NewGroup(s.client, redislimit.Options{Timeout: patience, HoldTTL: time.Microsecond}))
		charge := redislimit.Charge{Limiter: kinds(s, redislimit.Options{})["sliding log"], Key: "k", N: 4}
		if h, ds, err := g.HoldAll(t.Context(), charge); err != nil || !ds[0].OK || h.ID() == "" {
			t.Errorf("%+v, %v", ds, err)
		}
		if left := remaining(t, []redislimit.Charge{charge}); left[0] != 96 {
			t.Errorf("%v remain", left)
		}
	})
}

// Batches over the same keys in opposite order neither block nor overshoot.
func TestTakeAllInOppositeOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := standing{client: newClient(t, server.Addr())}
	g := newGroup(s)
	l := must(redislimit.NewSlidingLog(s.client, 90, time.Hour, redislimit.Options{Timeout: patience}))
	both := []redislimit.Charge{{Limiter: l, Key: "a", N: 1}, {Limiter: l, Key: "b", N: 1}}
	back := []redislimit.Charge{both[1], both[0]}
	var all sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for i := range 8 {
		all.Go(func() {
			for range 25 {
				ds, err := g.TakeAll(t.Context(), [][]redislimit.Charge{both, back}[i%2]...)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				passed += map[bool]int{true: 1}[ds[0].OK && ds[1].OK]
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if left := remaining(t, both); passed != 90 || !slices.Equal(left, []int{0, 0}) {
		t.Errorf("%d batches pass, %v remain", passed, left)
	}
}

// A HoldAll that is repeated gets the same Hold, which settles once; also after it was settled. A
// TakeAll that is repeated charges once, also beside a HoldAll of the same name.
func TestAllCountsOnce(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		all := charges(of, "k", 30, 30, 30, 30)
		ctx := redislimit.WithOperation(t.Context(), "batch 1")
		h, ds, err := g.HoldAll(ctx, all...)
		again, sds, err2 := g.HoldAll(ctx, all...)
		if err != nil || err2 != nil || h.ID() == "" || again.ID() != h.ID() || !slices.Equal(ds, sds) {
			t.Errorf("%q %+v %v, and again %q %+v %v", h.ID(), ds, err, again.ID(), sds, err2)
		}
		if err := h.Commit(t.Context(), 10, 10, 10, 10); err != nil {
			t.Fatal(err)
		}
		if again, sds, err := g.HoldAll(ctx, all...); err != nil || again.ID() != h.ID() || !slices.Equal(ds, sds) {
			t.Errorf("when settled: %q %+v %v", again.ID(), sds, err)
		}
		if left := remaining(t, all); !slices.Equal(left, []int{90, 90, 90, 90}) {
			t.Errorf("%v remain, want 90 of each", left)
		}
		first, err := g.TakeAll(ctx, all...)
		second, err2 := g.TakeAll(ctx, all...)
		if err != nil || err2 != nil || !slices.Equal(first, second) {
			t.Errorf("taken %+v %v, and again %+v %v", first, err, second, err2)
		}
		if left := remaining(t, all); !slices.Equal(left, []int{60, 60, 60, 60}) {
			t.Errorf("%v remain, want 60 of each", left)
		}
	})
}

// TakeAll charges for good: the server keeps what a retry needs, and nothing for a client that
// sends nothing twice.
func TestTakeAllKeepsNothingToSettle(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		for _, retries := range []int{3, -1} {
			client := redis.NewClient(&redis.Options{Addr: s.client.Options().Addr, MaxRetries: retries})
			defer client.Close()
			g := newGroup(standing{client: client})
			l := must(redislimit.NewFixedWindow(client, 10, time.Minute, redislimit.Options{Prefix: "p", Timeout: patience}))
			charge := redislimit.Charge{Limiter: l, Key: fmt.Sprint("key ", retries), N: 4}
			if ds, err := g.TakeAll(t.Context(), charge); err != nil || !ds[0].OK {
				t.Fatal(ds, err)
			}
			if left := remaining(t, []redislimit.Charge{charge}); left[0] != 6 {
				t.Errorf("%d retries: %v remain", retries, left)
			}
			var kept []time.Duration
			for _, key := range s.client.Keys(t.Context(), "{"+charge.Key+"}:*").Val() {
				if strings.Contains(key, "}:p:") {
					continue // the limiter's
				}
				kept = append(kept, s.client.PTTL(t.Context(), key).Val())
			}
			if retries < 0 && len(kept) != 0 || retries > 0 && (len(kept) != 1 || kept[0] > 10*time.Second) {
				t.Errorf("%d retries: records are kept for %v", retries, kept)
			}
		}
	})
}

func TestTakeAllRefusesBadInput(t *testing.T) {
	s := standing{client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})}
	defer s.client.Close()
	other := standing{client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})}
	defer other.client.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	l := must(redislimit.NewFixedWindow(s.client, 10, time.Second, redislimit.Options{}))
	inCluster := must(redislimit.NewFixedWindow(cluster, 10, time.Second, redislimit.Options{}))
	g := newGroup(s)
	many := make([]redislimit.Charge, 101)
	for i := range many {
		many[i] = redislimit.Charge{Limiter: l, Key: strings.Repeat("k", i+1), N: 1}
	}
	for _, tt := range []struct {
		group   *redislimit.Group
		charges []redislimit.Charge
		want    string
	}{
		{g, []redislimit.Charge{{Key: "k", N: 1}}, "take all: charges[0]: invalid parameter: Limiter is nil"},
		{g, []redislimit.Charge{{l, "k", 1}, {l, "", 1}}, `take all: charges[1]: invalid parameter: key is "", want a name`},
		{g, []redislimit.Charge{{l, "k", -1}}, "take all: charges[0]: invalid parameter: n is -1, want 0 or more"},
		{newGroup(other), []redislimit.Charge{{l, "k", 1}}, "take all: charges[0]: invalid parameter: Limiter has another client than the Group"},
		{g, many, "take all: invalid parameter: there are 101 charges, want at most 100"},
		{must(redislimit.NewGroup(cluster, redislimit.Options{})), []redislimit.Charge{{inCluster, "{a}1", 1}, {inCluster, "{b}1", 1}},
			`take all: charges[1]: invalid parameter: Key is "{b}1", want one of the hash tag "{a", which charges[0] has`},
	} {
		if _, err := tt.group.TakeAll(context.Background(), tt.charges...); err == nil || err.Error() != tt.want || !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
	for _, id := range []string{"x", "e30", "!"} {
		if _, err := g.Held(id); !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}
