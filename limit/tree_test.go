package limit_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

func newTree(tb testing.TB, name string, l limit.Limiter) *limit.Tree {
	tb.Helper()
	t, err := limit.NewTree(name, l)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func child(tb testing.TB, parent *limit.Tree, name string, l limit.Limiter) *limit.Tree {
	tb.Helper()
	t, err := parent.Child(name, l)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// A leaf that admits while the root refuses loses nothing, at any instant and after any
// other charges: a cancelled reservation would give back less.
func TestTreeRefusalLosesNothing(t *testing.T) {
	leaf, top := groupGCRA(t, limit.PerSecond(1), 10), groupGCRA(t, limit.PerSecond(1), 10)
	root := newTree(t, "root", top)
	node := child(t, root, "leaf", leaf)
	if !node.TakeAt(setStart, 4).OK || !root.TakeAt(setStart, 6).OK {
		t.Fatal("take")
	}
	before := leaf.TakeAt(setStart, 0)
	for range 5 {
		d, refused := node.TakePathAt(setStart, 1)
		if want := (limit.Decision{RetryAfter: time.Second, ResetAfter: 10 * time.Second}); d != want || refused != root {
			t.Fatalf("%+v of %v, want %+v of the root", d, refused, want)
		}
	}
	if after := leaf.TakeAt(setStart, 0); after != before {
		t.Errorf("leaf: %+v, was %+v", after, before)
	}
	hold, d := node.HoldAt(setStart.Add(3*time.Second), 3)
	if !d.OK {
		t.Fatalf("%+v", d)
	}
	leaf.TakeAt(setStart.Add(4*time.Second), 2)
	hold.Cancel()
	later := setStart.Add(time.Minute)
	if got := node.TakeAt(later, 0); got.Remaining != 10 || got.ResetAfter != 0 {
		t.Errorf("after a cancel: %+v", got)
	}
}

func TestTreeTellsWhoRefused(t *testing.T) {
	const s = time.Second
	levels := []string{"user", "team", "company"}
	for _, c := range []struct {
		name   string
		bursts [3]int // from the leaf to the root
		had    [3]int
		held   [3]int
		n      int
		who    string
		retry  time.Duration
		never  bool
	}{
		{"nobody", [3]int{3, 3, 3}, [3]int{1, 1, 1}, [3]int{}, 2, "", 0, false},
		{"the leaf", [3]int{3, 3, 3}, [3]int{3, 1, 1}, [3]int{}, 2, "user", 2 * s, false},
		{"the one between", [3]int{3, 3, 3}, [3]int{1, 2, 1}, [3]int{}, 2, "team", s, false},
		{"the root", [3]int{3, 3, 3}, [3]int{1, 1, 2}, [3]int{}, 2, "company", s, false},
		{"the longest wait", [3]int{3, 3, 3}, [3]int{2, 3, 2}, [3]int{}, 2, "team", 2 * s, false},
		{"of equals the leaf", [3]int{3, 3, 3}, [3]int{3, 3, 3}, [3]int{}, 2, "user", 2 * s, false},
		{"of equals the nearest to the leaf", [3]int{3, 3, 3}, [3]int{2, 3, 3}, [3]int{}, 2, "team", 2 * s, false},
		{"a hold before any wait", [3]int{3, 3, 3}, [3]int{3, 0, 0}, [3]int{0, 3, 0}, 1, "team", 0, false},
		{"never before a hold", [3]int{5, 3, 1}, [3]int{}, [3]int{0, 3, 0}, 2, "company", 0, true},
		{"of nevers the leaf", [3]int{1, 1, 1}, [3]int{}, [3]int{}, 2, "user", 0, true},
		{"a negative number", [3]int{1, 1, 1}, [3]int{}, [3]int{}, -1, "user", 0, true},
		{"a peek", [3]int{1, 1, 1}, [3]int{1, 1, 1}, [3]int{}, 0, "", 0, false},
	} {
		var node *limit.Tree
		for i := range slices.Backward(levels) {
			g := groupGCRA(t, limit.PerSecond(1), c.bursts[i])
			g.TakeAt(setStart, c.had[i])
			g.HoldAt(setStart, c.held[i])
			if node == nil {
				node = newTree(t, levels[i], g)
			} else {
				node = child(t, node, levels[i], g)
			}
		}
		d, who := node.TakePathAt(setStart, c.n)
		name := ""
		if who != nil {
			name = who.Name()
		}
		if name != c.who || d.OK != (c.who == "") || d.RetryAfter != c.retry || d.Never != c.never {
			t.Errorf("%s: %+v by %q", c.name, d, name)
		}
	}
}

// A level that never admits a request refuses harder than one with the longest RetryAfter.
func TestTreeTellsNeverBeforeTheLongestWait(t *testing.T) {
	leaf, top := groupGCRA(t, limit.PerSecond(1), 2), groupGCRA(t, limit.PerSecond(1), 1)
	root := newTree(t, "root", top)
	node := child(t, root, "leaf", leaf)
	leaf.TakeAt(setStart, 2)
	d, refused := node.TakePathAt(time.Time{}, 2)
	if want := (limit.Decision{Never: true, ResetAfter: math.MaxInt64}); d != want || refused != root {
		t.Errorf("%+v of %v, want %+v of the root", d, refused.Name(), want)
	}
	if d := root.Take(1); !d.OK {
		t.Errorf("a level with the clock: %+v", d)
	}
}

func TestTreeShape(t *testing.T) {
	g, h := groupGCRA(t, limit.PerSecond(1), 9), groupGCRA(t, limit.PerSecond(1), 9)
	root := newTree(t, "company", g)
	team := child(t, root, "team", h)
	user := child(t, team, "user", h)
	child(t, team, "other", h)
	child(t, root, "user", h) // a name is taken among siblings only
	for name, err := range map[string]error{
		"root without name":     errorOf(limit.NewTree("", g)),
		"root without limiter":  errorOf(limit.NewTree("x", nil)),
		"child without name":    errorOf(root.Child("", g)),
		"child without limiter": errorOf(root.Child("x", nil)),
		"name twice":            errorOf(root.Child("team", g)),
	} {
		if !errors.Is(err, limit.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := user.Path(); !slices.Equal(got, []string{"company", "team", "user"}) || user.Name() != "user" {
		t.Errorf("path %v", got)
	}
	if user.Parent() != team || team.Parent() != root || root.Parent() != nil || team.Limiter() != h {
		t.Error("parent or limiter")
	}
	if root.Find("team", "user") != user || root.Find() != root || root.Find("team", "nobody", "x") != nil {
		t.Error("find")
	}
	if !user.TakeAt(setStart, 2).OK || h.TakeAt(setStart, 0).Remaining != 7 {
		t.Error("a limiter at two levels is taken once")
	}
	hold, _ := user.HoldAt(setStart, 3)
	if !root.Remove("team") || root.Remove("team") || root.Find("team") != nil {
		t.Error("remove")
	}
	if _, err := root.Child("team", g); err != nil {
		t.Errorf("a name that is free again: %v", err)
	}
	hold.Commit()
	if got := g.TakeAt(setStart, 0).Remaining; got != 4 {
		t.Errorf("what is removed takes from the root: %d remain, want 4", got)
	}
	if !user.TakeAt(setStart, 1).OK || g.TakeAt(setStart, 0).Remaining != 3 {
		t.Error("what is removed goes on to take from the root")
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A tree of three levels with random requests and holds, beside a model that has every
// level on its own.
func TestTreeOracle(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 3))
	type level struct {
		node  *limit.Tree
		model *drainModel
		up    *level
	}
	var levels []*level
	add := func(up *level, name string, interval, burst int64) *level {
		l := &level{model: &drainModel{interval: interval, burst: burst}, up: up}
		g := groupGCRA(t, limit.Every(time.Duration(interval)), int(burst))
		if up == nil {
			l.node = newTree(t, name, g)
		} else {
			l.node = child(t, up.node, name, g)
		}
		levels = append(levels, l)
		return l
	}
	root := add(nil, "root", 2, 12)
	for i := range int64(2) {
		team := add(root, fmt.Sprint("team", i), 5+i, 6)
		for u := range int64(3) {
			add(team, fmt.Sprint("user", u), 9+u, 4-u)
		}
	}
	at := int64(0)
	for i := range manyDecisions() {
		at += random.Int64N(6)
		l, n := levels[random.IntN(len(levels))], random.IntN(4)
		want := limit.Decision{OK: true, Remaining: math.MaxInt}
		var who *limit.Tree
		var hardest int64
		for m := l; m != nil; m = m.up {
			m.model.flow(at)
			wait := m.model.wait(n)
			if int64(n) > m.model.burst {
				wait = math.MaxInt64
			}
			if wait > hardest {
				hardest, who, want.OK = wait, m.node, false
			}
		}
		if want.Never = hardest == math.MaxInt64; !want.Never {
			want.RetryAfter = time.Duration(hardest)
		}
		for m := l; m != nil; m = m.up {
			if want.OK {
				m.model.level += int64(n) * m.model.interval
			}
			want.Remaining = min(want.Remaining, int((m.model.burst*m.model.interval-m.model.level)/m.model.interval))
			want.ResetAfter = max(want.ResetAfter, time.Duration(m.model.level))
		}
		now := setStart.Add(time.Duration(at))
		if n > 0 && random.IntN(8) == 0 {
			hold, d := l.node.HoldAt(now, n)
			if d.OK != want.OK {
				t.Fatalf("decision %d, hold: %+v, want %+v", i, d, want)
			}
			hold.Cancel() // as if it had never been
		}
		got, refused := l.node.TakePathAt(now, n)
		if got != want || refused != who {
			t.Fatalf("decision %d, %d of %v: %+v by %v, want %+v by %v", i, n, l.node.Path(), got, refused, want, who)
		}
	}
}

// Many in one tree take all that there is, and what the levels have lost is what was
// taken from them.
func TestTreeConcurrent(t *testing.T) {
	const top, bottom, leaves = 900, 300, 4
	root := newTree(t, "root", groupGCRA(t, limit.PerMinute(1), top))
	var nodes []*limit.Tree
	for i := range leaves {
		nodes = append(nodes, child(t, root, fmt.Sprint(i), groupGCRA(t, limit.PerMinute(1), bottom)))
	}
	var taken [leaves]atomic.Int64
	var group sync.WaitGroup
	for g := range 2 * leaves {
		group.Go(func() {
			i := g % leaves
			for k := range bottom {
				if k%4 == 0 {
					hold, d := nodes[i].HoldAt(setStart, 1)
					hold.Commit()
					if d.OK {
						taken[i].Add(1)
					}
				} else if nodes[i].TakeAt(setStart, 1).OK {
					taken[i].Add(1)
				}
				name := fmt.Sprint("gone", g)
				if _, err := nodes[i].Child(name, nodes[i].Limiter()); err != nil || !nodes[i].Remove(name) {
					t.Error("child that comes and goes")
				}
			}
		})
	}
	group.Wait()
	sum := int64(0)
	for i := range taken {
		got := taken[i].Load()
		sum += got
		if left := nodes[i].Limiter().TakeAt(setStart, 0).Remaining; got > bottom || int64(left) != bottom-got {
			t.Errorf("leaf %d: %d taken, %d left of %d", i, got, left, bottom)
		}
	}
	if sum != top {
		t.Errorf("%d were taken from the root, want all %d", sum, top)
	}
}

func BenchmarkTree(b *testing.B) {
	root := newTree(b, "root", groupGCRA(b, limit.PerSecond(1e9), 1000))
	leaf := child(b, child(b, root, "team", groupGCRA(b, limit.PerSecond(1e9), 1000)), "user", groupGCRA(b, limit.PerSecond(1e9), 1000))
	now := setStart
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(10)
		leaf.TakeAt(now, 1)
	}
}
