package lines

import (
	"cmp"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// farthest bounds the virtual times of an image, so that no sum of them overflows;
// mostPassed bounds a count that begins anew after overtaken services, unless waiters are served
// that are not the head.
const (
	farthest   = 1 << 62
	mostPassed = 1 << 30
)

const (
	// leastWaiter and leastClass are how many bytes each takes in an image at least.
	leastWaiter, leastClass = 3, 5
	// mostClasses keeps an image that is none from taking long: a line looks at all its classes. A
	// limiter has state.MostClasses, and a line those of before until it is empty.
	mostClasses = 1 << 12
)

// AppendImage appends the line as bytes from which readFairLine makes one that serves in the same
// order from then on. The same line has the same bytes. idOf names the waiters, each by another
// number.
func (l *fairLine[W]) AppendImage(to []byte, idOf func(W) uint64) []byte {
	to = wire.AppendUint(to, uint64(l.Len()))
	if l.in == nil {
		return to
	}
	to = wire.AppendUint(to, uint64(l.in.virtual[0]))
	to = wire.AppendUint(to, uint64(l.in.virtual[1]))
	to = wire.AppendUint(to, uint64(l.in.passed))
	to = wire.AppendUint(to, uint64(len(l.in.classes)))
	flows := make(map[*flow[W]]int)
	for _, k := range l.in.byName() {
		to = k.appendImage(to)
		circle := k.inOrder()
		to = wire.AppendUint(to, uint64(len(circle)))
		for _, f := range circle {
			flows[f] = len(flows)
			to = wire.AppendString(to, f.name)
		}
	}
	for e := l.in.first; e != nil; e = e.next {
		to = wire.AppendUint(to, idOf(e.Value))
		to = wire.AppendUint(to, uint64(flows[e.flow]))
		to = wire.AppendBool(to, e.IsAwake())
	}
	return to
}

// byName returns the classes in the order of their names. That in which they came decides nothing.
func (in *waiting[W]) byName() []*fairClass[W] {
	return slices.SortedFunc(slices.Values(in.classes), func(a, b *fairClass[W]) int { return cmp.Compare(a.Name, b.Name) })
}

// appendImage appends the class without its flows.
func (k *fairClass[W]) appendImage(to []byte) []byte {
	to = wire.AppendString(to, k.Name)
	to = wire.AppendUint(to, uint64(k.weight()))
	to = wire.AppendBool(to, k.Ahead)
	return wire.AppendUint(to, uint64(k.start))
}

// fairReading is a line that is read from an image.
type fairReading[W any] struct {
	*wire.Reader
	line    fairLine[W]
	classes []readClass[W]
	flows   []readFlow[W]
	awake   []*fairEntry[W]
}

type readClass[W any] struct {
	class *fairClass[W]
	start int64
}

type readFlow[W any] struct {
	class *fairClass[W]
	flow  *flow[W]
}

// readFairLine reads an image. waiterOf returns the waiter of a number, and false for a number that
// no waiter has. All of the line then returns the entry of each of them. After an error the line is
// empty.
func readFairLine[W any](r *wire.Reader, waiterOf func(id uint64) (W, bool)) fairLine[W] {
	in := fairReading[W]{Reader: r}
	n := r.Count(math.MaxInt, leastWaiter)
	if n == 0 {
		return fairLine[W]{}
	}
	in.line.in = new(waiting[W])
	virtual := [2]int64{int64(r.UpTo(farthest)), int64(r.UpTo(farthest))}
	passed := int(r.UpTo(mostPassed))
	in.readClasses()
	in.readWaiters(n, waiterOf)
	in.place()
	if r.Err() != nil {
		return fairLine[W]{}
	}
	for _, e := range in.awake { // in their places, or the order of their flows would be another
		in.line.Wake(e)
	}
	for _, c := range in.classes { // behind Wake, which brings a class that comes back up to the others
		c.class.start = c.start
	}
	in.line.in.virtual, in.line.in.passed = virtual, passed
	return in.line
}

func (in *fairReading[W]) readClasses() {
	for i, last := in.Count(mostClasses, leastClass), ""; i > 0 && in.Err() == nil; i-- {
		c := Share{Name: in.String(math.MaxInt)}
		if len(in.classes) > 0 && c.Name <= last {
			in.Fail("classes out of order")
		}
		last = c.Name
		if c.Weight = int(in.UpTo(math.MaxInt)); c.Weight == 0 {
			in.Fail("class without a weight")
		}
		c.Ahead = in.Bool()
		start := int64(in.UpTo(farthest))
		k := in.line.of(c)
		in.classes = append(in.classes, readClass[W]{k, start})
		in.readFlows(k)
	}
}

// readFlows reads the flows of a class, in the order in which they are served.
func (in *fairReading[W]) readFlows(k *fairClass[W]) {
	known := make(map[string]bool)
	for i := in.Count(math.MaxInt, 1); i > 0 && in.Err() == nil; i-- {
		name := in.String(math.MaxInt)
		if known[name] {
			in.Fail("flow that is there twice")
		}
		known[name] = true
		in.flows = append(in.flows, readFlow[W]{k, k.flow(name)})
	}
}

func (in *fairReading[W]) readWaiters(n int, waiterOf func(id uint64) (W, bool)) {
	known := make(map[uint64]bool, n)
	for i := 0; i < n && in.Err() == nil; i++ {
		id := in.Uint()
		if known[id] {
			in.Fail("waiter that is there twice")
		}
		known[id] = true
		if at := in.UpTo(uint64(max(len(in.flows)-1, 0))); len(in.flows) == 0 {
			in.Fail("waiter without a flow")
		} else if awake := in.Bool(); in.Err() == nil {
			in.push(id, in.flows[at], awake, waiterOf)
		}
	}
}

// push puts a waiter at the end of the line. Those that are awake are kept asleep until the flows
// have their places.
func (in *fairReading[W]) push(id uint64, f readFlow[W], awake bool, waiterOf func(id uint64) (W, bool)) {
	w, ok := waiterOf(id)
	if !ok {
		in.Fail("waiter that is not known")
		return
	}
	if e := in.line.PushAsleep(w, f.class.Share, f.flow.name); awake {
		in.awake = append(in.awake, e)
	}
}

// place gives the flows their places: not those in which their waiters came.
func (in *fairReading[W]) place() {
	for _, f := range in.flows {
		if f.flow.last == nil {
			in.Fail("flow without a waiter")
		}
		f.class.toEnd(f.flow)
	}
}
