package redislimit_test

import (
	"context"
	"errors"
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
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g, of := newGroup(s), kinds(s, redislimit.Options{})
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
			all := charges(of, "k", tt.n...)
			before := slices.Clone(all)
			id, ds, err := g.TakeAll(t.Context(), all...)
			if err != nil || len(ds) != len(all) || !reflect.DeepEqual(all, before) {
				t.Fatalf("%v: %+v, %v", tt.n, ds, err)
			}
			passes := true
			for i, d := range ds {
				passes = passes && d.OK
				if d.OK != tt.ok[i] || d.Never != (tt.n[i] > 100) || (d.RetryAfter > 0) != (!d.OK && !d.Never) || d.Remaining != tt.left[i] {
					t.Errorf("%v: decision %d is %+v", tt.n, i, d)
				}
			}
			if passes != (id != "") {
				t.Errorf("%v: id %q", tt.n, id)
			}
			if left := remaining(t, all); !slices.Equal(left, tt.left) {
				t.Errorf("%v: %v remain, want %v", tt.n, left, tt.left)
			}
		}
		if id, ds, err := g.TakeAll(t.Context()); id != "" || len(ds) != 0 || err != nil {
			t.Errorf("nothing: %q, %v, %v", id, ds, err)
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
			if id, ds, err := g.TakeAll(t.Context(), c, c); err != nil || id != "" || len(ds) != 2 || ds[0].OK || ds[1].OK {
				t.Errorf("%s: 60 twice: %q, %+v, %v", kind, id, ds, err)
			}
			c.N = 50
			if _, ds, err := g.TakeAll(t.Context(), c, c); err != nil || !ds[0].OK || ds[0] != ds[1] || ds[0].Remaining != 0 {
				t.Errorf("%s: 50 twice: %+v, %v", kind, ds, err)
			}
			if d := take(t, l, kind, 1); d.OK {
				t.Errorf("%s: one more passes", kind)
			}
		}
	})
}

// What remains after a Commit or a Release, at once and in a later call.
func TestSettle(t *testing.T) {
	const taken = 40
	onServers(t, func(t *testing.T, s standing) {
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		for _, tt := range []struct {
			name   string
			settle func(id string) error
			left   int // of 100, right afterwards
		}{
			{"release", func(id string) error { return g.Release(t.Context(), id) }, 100},
			{"commit as taken", func(id string) error { return g.Commit(t.Context(), id) }, 60},
			{"commit less", func(id string) error { return g.Commit(t.Context(), id, 25, 25, 25, 25) }, 75},
			{"commit nothing", func(id string) error { return g.Commit(t.Context(), id, 0, 0, 0, 0) }, 100},
			{"commit more", func(id string) error { return g.Commit(t.Context(), id, 70, 70, 70, 70) }, 30},
			{"commit more than the limit", func(id string) error { return g.Commit(t.Context(), id, 250, 250, 250, 250) }, 0},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s.setTime(epoch)
				all := charges(of, tt.name, taken, taken, taken, taken)
				id, _, err := g.TakeAll(t.Context(), all...)
				if err != nil {
					t.Fatal(err)
				}
				if err := tt.settle(id); err != nil {
					t.Fatal(err)
				}
				want := []int{tt.left, tt.left, tt.left, tt.left}
				if left := remaining(t, all); !slices.Equal(left, want) {
					t.Errorf("%v remain, want %v", left, want)
				}
				for _, again := range []error{tt.settle(id), g.Release(t.Context(), id), g.Commit(t.Context(), id, 1)} {
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
		if err := g.Release(t.Context(), ""); err != nil {
			t.Errorf("the empty id: %v", err)
		}
		s.setTime(epoch)
		id, _, _ := g.TakeAll(t.Context(), redislimit.Charge{Limiter: of["token bucket"], Key: "lost", N: 1})
		s.flush(t)
		if err := g.Commit(t.Context(), id, 5); !errors.Is(err, redislimit.ErrNotHeld) {
			t.Errorf("what the server has lost: %v, want ErrNotHeld", err)
		}
	})
}

// What is given back in a later window does not lower what others charged there.
func TestReleaseIsOfTheTimeOfTheCharge(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		s.setTime(epoch.Add(50 * time.Second))
		all := charges(of, "k", 40, 40, 40, 40)
		id, _, err := g.TakeAll(t.Context(), all...)
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
		if err := g.Release(t.Context(), id); err != nil {
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
			open := map[string]*charge{}
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
					id, ds, err := g.TakeAll(t.Context(), redislimit.Charge{Limiter: l, Key: key, N: n})
					if err != nil || ds[0].OK != (used+n <= 50) {
						t.Fatalf("seed %d: %d with %d used: %+v, %v", seed, n, used, ds, err)
					}
					if ds[0].OK {
						list = append(list, &charge{now, n})
						open[id] = list[len(list)-1]
					}
				} else {
					for id, c := range open {
						delete(open, id)
						actual := r.IntN(c.n + 1)
						if err := g.Commit(t.Context(), id, actual); err != nil {
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
				id, _, err := g.TakeAll(t.Context(), [][]redislimit.Charge{both, back}[i%2]...)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				passed += map[bool]int{true: 1}[id != ""]
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if left := remaining(t, both); passed != 90 || !slices.Equal(left, []int{0, 0}) {
		t.Errorf("%d batches pass, %v remain", passed, left)
	}
}

// A TakeAll that is repeated gets the same id, which settles once; also after it was settled.
func TestTakeAllCountsOnce(t *testing.T) {
	onServers(t, func(t *testing.T, s standing) {
		s.setTime(epoch)
		g, of := newGroup(s), kinds(s, redislimit.Options{})
		all := charges(of, "k", 30, 30, 30, 30)
		ctx := redislimit.WithOperation(t.Context(), "batch 1")
		id, ds, err := g.TakeAll(ctx, all...)
		again, sds, err2 := g.TakeAll(ctx, all...)
		if err != nil || err2 != nil || id == "" || again != id || !slices.Equal(ds, sds) {
			t.Errorf("%q %+v %v, and again %q %+v %v", id, ds, err, again, sds, err2)
		}
		if err := g.Commit(t.Context(), id, 10, 10, 10, 10); err != nil {
			t.Fatal(err)
		}
		if again, sds, err := g.TakeAll(ctx, all...); err != nil || again != id || !slices.Equal(ds, sds) {
			t.Errorf("when settled: %q %+v %v", again, sds, err)
		}
		if left := remaining(t, all); !slices.Equal(left, []int{90, 90, 90, 90}) {
			t.Errorf("%v remain, want 90 of each", left)
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
		if _, _, err := tt.group.TakeAll(context.Background(), tt.charges...); err == nil || err.Error() != tt.want || !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
	for _, id := range []string{"x", "e30", "!"} {
		if err := g.Commit(context.Background(), id); !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}
