package lines

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// oracle is a line that looks at everything each time.
type oracle struct {
	waiters []*oracleWaiter
	circle  map[string][]string // the flows of a class that wait, in the order in which they take turns
	start   map[string]int64    // of classes with waiters that are awake
	known   map[string]Share
	virtual map[bool]int64
	passed  int
}

type oracleWaiter struct {
	name    int
	class   Share
	flow    string
	arrival int
	awake   bool
	entry   *fairEntry[int]
}

func newOracle() *oracle {
	return &oracle{
		circle: map[string][]string{}, start: map[string]int64{},
		known: map[string]Share{}, virtual: map[bool]int64{},
	}
}

// isBefore orders waiters of a class.
func (o *oracle) isBefore(w, h *oracleWaiter) bool {
	at := func(w *oracleWaiter) int { return slices.Index(o.circle[w.class.Name], w.flow) }
	return cmp.Or(cmp.Compare(at(w), at(h)), cmp.Compare(w.arrival, h.arrival)) < 0
}

// heads returns the first waiter of each class in the order of service.
func (o *oracle) heads() (heads []*oracleWaiter) {
	first := make(map[string]*oracleWaiter)
	for _, w := range o.waiters {
		h := first[w.class.Name]
		if w.awake && (h == nil || o.isBefore(w, h)) {
			first[w.class.Name] = w
		}
	}
	for _, w := range first {
		heads = append(heads, w)
	}
	rank := func(w *oracleWaiter) int {
		if w.class.Ahead != (o.passed >= overtaken) {
			return 0
		}
		return 1
	}
	slices.SortFunc(heads, func(a, b *oracleWaiter) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(o.start[a.class.Name], o.start[b.class.Name]), cmp.Compare(a.arrival, b.arrival))
	})
	return heads
}

func (o *oracle) isAwake(class string) bool {
	return slices.ContainsFunc(o.waiters, func(w *oracleWaiter) bool { return w.awake && w.class.Name == class })
}

func (o *oracle) wake(w *oracleWaiter) {
	if !w.awake && !o.isAwake(w.class.Name) {
		o.start[w.class.Name] = max(o.start[w.class.Name], o.virtual[w.class.Ahead])
	}
	w.awake = true
}

func (o *oracle) push(w *oracleWaiter) {
	o.known[w.class.Name] = w.class
	o.waiters = append(o.waiters, w)
	if circle := o.circle[w.class.Name]; !slices.Contains(circle, w.flow) {
		o.circle[w.class.Name] = append(circle, w.flow)
	}
}

// leaveCircle takes a flow out of the circle of its class.
func (o *oracle) leaveCircle(w *oracleWaiter) {
	circle := o.circle[w.class.Name]
	o.circle[w.class.Name] = slices.DeleteFunc(circle, func(flow string) bool { return flow == w.flow })
}

func (o *oracle) remove(w *oracleWaiter) {
	o.waiters = slices.DeleteFunc(o.waiters, func(other *oracleWaiter) bool { return other == w })
	if !slices.ContainsFunc(o.waiters, func(other *oracleWaiter) bool { return other.class == w.class && other.flow == w.flow }) {
		o.leaveCircle(w)
	}
	if !w.class.Ahead && !slices.ContainsFunc(o.waiters, func(other *oracleWaiter) bool { return !other.class.Ahead }) {
		o.passed = 0
	}
	if len(o.waiters) == 0 {
		*o = *newOracle()
	}
}

func (o *oracle) charge(c Share, amount int64) {
	o.virtual[c.Ahead] = max(o.virtual[c.Ahead], o.start[c.Name])
	o.start[c.Name] += max(amount/int64(max(c.Weight, 1)), 1)
	switch {
	case !c.Ahead:
		o.passed = 0
	case slices.ContainsFunc(o.waiters, func(w *oracleWaiter) bool { return w.awake && !w.class.Ahead }):
		o.passed++
	}
}

func (o *oracle) serve(w *oracleWaiter, amount int64) {
	o.leaveCircle(w)
	o.circle[w.class.Name] = append(o.circle[w.class.Name], w.flow)
	if len(o.known) > 1 {
		o.charge(w.class, amount)
	}
	o.remove(w)
}

func TestLineAgreesWithOracle(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, rand.New(rand.NewPCG(seed, 7)), 1000) })
	}
}

func play(t *testing.T, random *rand.Rand, steps int) {
	classes := []Share{{}, {"a", 3, false}, {"b", 1, false}, {"ahead", 2, true}, {"also", 0, true}}
	classes = classes[:1+random.IntN(len(classes))]
	var l fairLine[int]
	o, n := newOracle(), 0
	draw := func() *oracleWaiter { return o.waiters[random.IntN(len(o.waiters))] }
	for range steps {
		switch action := random.IntN(10); {
		case action < 4 || len(o.waiters) == 0:
			w := &oracleWaiter{name: n, class: classes[random.IntN(len(classes))], flow: []string{"", "x", "y"}[random.IntN(3)], arrival: n}
			n++
			o.push(w)
			w.entry = l.PushAsleep(w.name, w.class, w.flow)
			if random.IntN(5) > 0 {
				o.wake(w)
				l.Wake(w.entry)
			}
		case action < 7:
			if head := l.Head(); head != nil {
				amount := random.Int64N(1000)
				i := slices.IndexFunc(o.waiters, func(w *oracleWaiter) bool { return w.entry == head })
				o.serve(o.waiters[i], amount)
				l.Serve(head, amount)
			}
		case action == 7:
			w := draw()
			l.Remove(w.entry)
			o.remove(w)
		case action == 8:
			if w := draw(); w.awake {
				w.awake = false
				l.Sleep(w.entry)
			} else {
				o.wake(w)
				l.Wake(w.entry)
			}
		default:
			w, amount := draw(), random.Int64N(1000)
			o.serve(w, amount)
			l.Serve(w.entry, amount)
		}
		var want []int
		for _, w := range o.heads() {
			want = append(want, w.name)
		}
		var got []int
		for _, e := range l.Heads() {
			got = append(got, e.Value)
		}
		if !slices.Equal(got, want) || len(o.waiters) != l.Len() {
			t.Fatalf("the heads are %v of %d, want %v of %d", got, l.Len(), want, len(o.waiters))
		}
		if head := l.Head(); (head == nil) != (len(want) == 0) || head != nil && head.Value != want[0] {
			t.Fatalf("the head is %v, want %v", head, want)
		}
		var all []int
		for e := range l.All() {
			all = append(all, e.Value)
		}
		if len(all) != l.Len() || !slices.IsSorted(all) {
			t.Fatalf("all are %v", all)
		}
	}
}

// While classes wait all the time, they get what their weights say, whatever the sizes.
func TestSharesFollowWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l fairLine[int64]
	heavy, light := Share{"heavy", 3, false}, Share{"light", 1, false}
	size := func(c Share) int64 {
		if c.Name == "heavy" {
			return 1 + random.Int64N(50)
		}
		return 1 + random.Int64N(2000)
	}
	got := make(map[string]int64)
	for _, c := range []Share{heavy, light} {
		for range 5 {
			l.Push(size(c), c, "")
		}
	}
	for got["heavy"]+got["light"] < 1_000_000 {
		e := l.Head()
		c := heavy
		if e.Class() == "light" {
			c = light
		}
		got[c.Name] += e.Value
		l.Push(size(c), c, "")
		l.Serve(e, e.Value*(wholeCharge/1_000_000))
	}
	if share := float64(got["heavy"]) / float64(got["heavy"]+got["light"]); share < 0.745 || share > 0.755 {
		t.Errorf("the share is %f, want 0.75", share)
	}
}

// A class that was away has no credit: it is served once at most before the others go on.
func TestIdleClassesSaveNothingUp(t *testing.T) {
	var l fairLine[string]
	a, b := Share{Name: "a"}, Share{Name: "b"}
	for range 100 {
		l.Push("a", a, "")
	}
	l.Push("b", b, "")
	for range 50 {
		l.Serve(l.Head(), 10)
	}
	for range 20 {
		l.Push("b", b, "")
	}
	var order string
	for range 10 {
		order += l.Head().Value
		l.Serve(l.Head(), 10)
	}
	if n := len(slices.DeleteFunc([]byte(order), func(c byte) bool { return c == 'a' })); n < 4 || n > 6 {
		t.Errorf("the order is %s, want them to take turns", order)
	}
}

// The last of many waiters of the lowest class is served, however many come who go before it.
func TestNobodyWaitsForEver(t *testing.T) {
	var l fairLine[int]
	ahead, low := Share{"ahead", 100, true}, Share{"low", 1, false}
	const many = 10_000
	for n := range many {
		l.Push(n, low, "")
	}
	served := 0
	for l.InClass("low") > 0 {
		l.Push(-1, ahead, "")
		l.Serve(l.Head(), wholeCharge)
		served++
	}
	if most := many * (overtaken + 1); served > most {
		t.Errorf("the last is served after %d services, want %d at most", served, most)
	}
}

// Only those are overtaken who wait: what classes ahead got before counts for nobody.
func TestNobodyIsOvertakenBeforeHeCame(t *testing.T) {
	ahead := Share{"ahead", 1, true}
	for _, asleep := range []bool{false, true} {
		var l fairLine[string]
		gone := l.PushAsleep("gone", Share{}, "")
		for range 20 {
			l.Push("ahead", ahead, "")
		}
		if !asleep {
			l.Wake(gone)
			for range overtaken - 1 {
				l.Serve(l.Head(), wholeCharge)
			}
			l.Remove(gone)
		} else {
			for range overtaken - 1 {
				l.Serve(l.Head(), wholeCharge)
			}
			l.Wake(gone)
		}
		if !asleep {
			l.Push("gone", Share{}, "")
		}
		for n := range overtaken {
			if e := l.Head(); e.Value != "ahead" {
				t.Errorf("asleep %t: %s goes after %d services", asleep, e.Value, n)
			}
			l.Serve(l.Head(), wholeCharge)
		}
		if e := l.Head(); e.Value != "gone" {
			t.Errorf("asleep %t: the next is %s", asleep, e.Value)
		}
	}
}

func TestFlowsTakeTurns(t *testing.T) {
	var l fairLine[string]
	for n := range 6 {
		l.Push(fmt.Sprint("x", n), Share{}, "x")
	}
	l.Push("y0", Share{}, "y")
	l.Push("y1", Share{}, "y")
	l.Push("z0", Share{}, "z")
	var order []string
	for l.Len() > 0 {
		e := l.Head()
		order = append(order, e.Value)
		if l.Serve(e, 1); e.Value == "z0" {
			l.Push("z1", Share{}, "z") // comes back, and is no earlier for that
		}
	}
	want := []string{"x0", "y0", "z0", "x1", "y1", "z1", "x2", "x3", "x4", "x5"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

// Waiters that gave up have taken no turn: those of their flow behind them move up.
func TestWhoGivesUpTakesNoTurn(t *testing.T) {
	const many = 1000
	for _, tt := range []struct {
		name  string
		leave func(int) bool // of those of x
		want  []string
	}{
		{"the first", func(i int) bool { return i < many }, []string{"y", "x1000", "y", "x1001"}},
		{"those in between", func(i int) bool { return i > 0 && i < many }, []string{"y", "x0", "y", "x1000"}},
		{"the last", func(i int) bool { return i > 0 && i < many+2 }, []string{"y", "x0", "y", "x1002"}},
		{"all", func(i int) bool { return i < many+2 }, []string{"y", "x1002", "y", "y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l fairLine[string]
			for range many {
				l.Push("y", Share{}, "y")
			}
			var of []*fairEntry[string]
			for i := range many + 2 {
				of = append(of, l.Push(fmt.Sprint("x", i), Share{}, "x"))
			}
			for i, e := range of {
				if tt.leave(i) {
					l.Remove(e)
				}
			}
			l.Push("x1002", Share{}, "x")
			var order []string
			for range 4 {
				order = append(order, l.Head().Value)
				l.Serve(l.Head(), 1)
			}
			if !slices.Equal(order, tt.want) {
				t.Errorf("the order is %v, want %v", order, tt.want)
			}
		})
	}
}

// A flow that comes waits for one service of each other flow, whenever in their round it comes.
func TestNewFlowWaitsForOneOfEach(t *testing.T) {
	for before := range 4 {
		var l fairLine[string]
		for _, flow := range []string{"x", "y", "z"} {
			for range 10 {
				l.Push(flow, Share{}, flow)
			}
		}
		for range before {
			l.Serve(l.Head(), 1)
		}
		l.Push("new", Share{}, "new")
		var order []string
		for l.Head().Value != "new" {
			order = append(order, l.Head().Value)
			l.Serve(l.Head(), 1)
		}
		if slices.Sort(order); !slices.Equal(order, []string{"x", "y", "z"}) {
			t.Errorf("after %d services it waits for %v", before, order)
		}
	}
}

// Virtual times stay far from the largest number, and keep their order.
func TestVirtualTimesAreRebased(t *testing.T) {
	const services = 1 << 16
	var l fairLine[string]
	a, b := Share{Name: "a", Weight: 1}, Share{Name: "b", Weight: 3}
	for range 4 {
		l.Push("a", a, "")
		l.Push("b", b, "")
	}
	for _, k := range l.in.classes { // as after so many services that half as many more are too many
		k.start += 1<<61 - services/8*wholeCharge
	}
	got := make(map[string]int)
	for range services {
		e := l.Head()
		got[e.Value]++
		c := a
		if e.Value == "b" {
			c = b
		}
		l.Serve(e, wholeCharge)
		l.Push(e.Value, c, "")
	}
	if share := float64(got["b"]) / services; share < 0.749 || share > 0.751 {
		t.Errorf("the share is %f", share)
	}
	for _, k := range l.in.classes {
		if k.start < 0 || k.start > services*wholeCharge {
			t.Errorf("class %s is at %d: its time was not made smaller", k.Name, k.start)
		}
	}
	if now := *l.in.time(false); now < 0 || now > services*wholeCharge {
		t.Errorf("the line is at %d: its time was not made smaller", now)
	}
}

func BenchmarkLine(b *testing.B) {
	classes := []Share{{}, {"a", 3, false}, {"b", 1, false}, {"c", 2, true}}
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var l fairLine[int]
			for i := range n {
				l.Push(i, classes[i%4], "")
			}
			b.ReportAllocs()
			for i := range b.N {
				e := l.Head()
				l.Push(i, *classOf(e), "")
				l.Serve(e, 1000)
			}
		})
	}
}

func classOf(e *fairEntry[int]) *Share { return &e.class.Share }

// A line that is made anew goes on with the flows where the one before was.
func TestCircle(t *testing.T) {
	var before fairLine[int]
	if c := before.Circle(); len(c) != 0 {
		t.Errorf("an empty line has %v", c)
	}
	a, b := Share{Name: "a"}, Share{Name: "b"}
	for i, flow := range []string{"x", "x", "x", "", "z"} {
		before.Push(i, a, flow)
		before.PushAsleep(10+i, b, "b"+flow)
	}
	before.Serve(before.First("a"), 1)
	want := fairCircle{"a": {"", "z", "x"}, "b": {"bx", "b", "bz"}}
	circle := before.Circle()
	if fmt.Sprint(circle) != fmt.Sprint(want) {
		t.Errorf("the circle is %v, want %v", circle, want)
	}
	var line fairLine[int]
	line.SetCircle(circle) // of which nobody waits
	asleep := line.PushAsleep(0, a, "x")
	for i, flow := range []string{"new", "x", "z", ""} {
		line.Push(i, b, flow)
		line.Push(10+i, Share{Name: "c"}, flow)
	}
	line.Push(20, Share{Name: "c"}, "new")
	line.SetCircle(fairCircle{"b": {"", "gone", "z", "x"}, "a": {"x"}})
	var order []int
	for _, class := range []string{"b", "c"} {
		for e := line.First(class); e != nil; e = line.First(class) {
			order = append(order, e.Value)
			line.Serve(e, 1)
		}
	}
	if want := []int{3, 2, 1, 0, 10, 11, 12, 13, 20}; !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
	if line.Wake(asleep); line.Head() != asleep {
		t.Error("a waiter that slept is lost")
	}
}
