package lines

import (
	"iter"
	"slices"
)

// overtaken is how many waiters of classes ahead are served at most, one after another, while one
// of the other classes is awake: the next one is of these. So the n-th waiter of the classes
// without Ahead waits for no more than n·overtaken services of classes ahead.
const overtaken = 9

// wholeCharge is the charge of a whole limit: see fairLine.Serve. All weights up to 16 divide it.
const wholeCharge = int64(720_720) << 20

// Share is what a fairLine knows of the class of a waiter: which share of the services it has.
// Waiters of one name in a line have the same one.
type Share struct {
	Name   string
	Weight int  // 0 means 1
	Ahead  bool // its waiters go before those of classes that have it not
}

func (c *Share) weight() int64 { return int64(max(c.Weight, 1)) }

// fairLine keeps the waiters of one line in the order in which they are served: classes share by
// weight, the flows of a class take turns, and a flow is first come, first served. It knows no
// clock, so that processes that see the same arrivals and services have the same order.
//
// Classes are served by start-time fair queueing: each has a virtual time, which grows with what
// its waiters got, divided by its weight, and the class that is behind is served first. A class
// that comes back begins where the others are, so nobody saves up what was not asked for.
//
// The zero value is empty. A fairLine is not safe for concurrent use.
type fairLine[W any] struct{ in *waiting[W] } // nil when it is empty

// waiting is a line that is not empty.
type waiting[W any] struct {
	first, last *fairEntry[W] // in the order of their arrival
	len         int
	arrivals    int64
	classes     []*fairClass[W] // that had waiters since it was empty

	virtual [2]int64 // the virtual time of the classes, and of those ahead
	passed  int      // services of classes ahead while one of the others was awake, since one of those
}

// fairClass is the waiters of a class in a line.
type fairClass[W any] struct {
	Share
	awake   fairQueue[*flow[W]] // the flows of which a waiter is awake
	len     int                 // also those that sleep
	start   int64               // the virtual time at which the next one begins
	places  int64               // how many were given to flows
	flows   map[string]*flow[W]
	unnamed flow[W] // the flow ""
}

// fairEntry is the place of a waiter in a line.
type fairEntry[W any] struct {
	Value W

	flow       *flow[W]
	class      *fairClass[W]
	arrival    int64
	position   int
	prev, next *fairEntry[W]
	inFlow     struct{ prev, next *fairEntry[W] }
	gone       bool
}

// precedes orders the waiters of a flow.
func (e *fairEntry[W]) precedes(other *fairEntry[W]) bool { return e.arrival < other.arrival }

// at returns where the queue of its flow keeps its position.
func (e *fairEntry[W]) at() *int { return &e.position }

// Class returns the name of the class.
func (e *fairEntry[W]) Class() string { return e.class.Name }

// IsAwake reports whether the waiter may be the head of the line.
func (e *fairEntry[W]) IsAwake() bool { return e.position > 0 }

// Len returns how many wait, asleep or not.
func (l *fairLine[W]) Len() int {
	if l.in == nil {
		return 0
	}
	return l.in.len
}

// InClass returns how many wait of a class.
func (l *fairLine[W]) InClass(name string) int {
	if c := l.find(name); c != nil {
		return c.len
	}
	return 0
}

// ByClass returns how many wait of each class of which some do.
func (l *fairLine[W]) ByClass() map[string]int {
	by := make(map[string]int)
	if l.in != nil {
		for _, c := range l.in.classes {
			if c.len > 0 {
				by[c.Name] = c.len
			}
		}
	}
	return by
}

func (l *fairLine[W]) find(name string) *fairClass[W] {
	if l.in != nil {
		for _, c := range l.in.classes {
			if c.Name == name {
				return c
			}
		}
	}
	return nil
}

// of returns a class of a line that is not empty.
func (l *fairLine[W]) of(c Share) *fairClass[W] {
	k := l.find(c.Name)
	if k == nil {
		k = &fairClass[W]{Share: c}
		l.in.classes = append(l.in.classes, k)
	}
	return k
}

// Push puts a waiter at the end of a flow of a class, awake.
func (l *fairLine[W]) Push(w W, c Share, flow string) *fairEntry[W] {
	e := l.PushAsleep(w, c, flow)
	l.Wake(e)
	return e
}

// PushAsleep is Push for a waiter that is not to be the head before Wake.
func (l *fairLine[W]) PushAsleep(w W, c Share, of string) *fairEntry[W] {
	if l.in == nil {
		l.in = new(waiting[W])
	}
	in := l.in
	k := l.of(c)
	f := k.flow(of)
	e := &fairEntry[W]{Value: w, flow: f, class: k, arrival: in.arrivals, prev: in.last}
	in.arrivals++
	if in.last != nil {
		in.last.next = e
	} else {
		in.first = e
	}
	in.last = e
	in.len++
	k.len++
	if e.inFlow.prev = f.last; f.last != nil {
		f.last.inFlow.next = e
	} else {
		k.toEnd(f)
	}
	f.last = e
	return e
}

// Wake lets a waiter be the head.
func (l *fairLine[W]) Wake(e *fairEntry[W]) {
	if e.IsAwake() {
		return
	}
	k := e.class
	if k.awake.Len() == 0 {
		k.start = max(k.start, *l.in.time(k.Ahead))
	}
	e.flow.awake.Put(e)
	k.moved(e.flow)
}

// Sleep keeps a waiter from being the head until Wake. It keeps its place.
func (l *fairLine[W]) Sleep(e *fairEntry[W]) {
	e.flow.awake.Remove(e)
	e.class.moved(e.flow)
}

// Remove takes out a waiter that leaves without a service.
func (l *fairLine[W]) Remove(e *fairEntry[W]) {
	in, k := l.in, e.class
	l.Sleep(e)
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		in.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		in.last = e.prev
	}
	e.prev, e.gone = nil, true // All may be at e, and goes on by e.next
	if k.len--; k.len == 0 && !k.Ahead && !in.hasOthers() {
		in.passed = 0 // the next one of the others has waited for none of these services
	}
	k.leaveFlow(e)
	if in.len--; in.len == 0 {
		l.in = nil
	}
}

// Serve takes out a waiter that was served, and charges its class for it: a part of the limit
// that is scarce, of which wholeCharge is all. Its flow goes behind the others.
func (l *fairLine[W]) Serve(e *fairEntry[W], charge int64) {
	e.class.toEnd(e.flow)
	if len(l.in.classes) > 1 {
		l.in.charge(e.class, charge)
	}
	l.Remove(e)
}

// Pass charges a class for a call that did not wait, while others do: see Leads.
func (l *fairLine[W]) Pass(c Share, charge int64) {
	if l.in == nil {
		return
	}
	k := l.of(c)
	if k.awake.Len() == 0 {
		k.start = max(k.start, *l.in.time(k.Ahead))
	}
	l.in.charge(k, charge)
}

// time returns the virtual time of the classes ahead, or of the others.
func (in *waiting[W]) time(ahead bool) *int64 {
	if ahead {
		return &in.virtual[1]
	}
	return &in.virtual[0]
}

// charge counts a service of a class whose start is known.
func (in *waiting[W]) charge(k *fairClass[W], charge int64) {
	v := in.time(k.Ahead)
	*v = max(*v, k.start)
	k.start += max(min(charge, wholeCharge)/k.weight(), 1)
	switch {
	case !k.Ahead:
		in.passed = 0
	case in.overtakes():
		in.passed++
	}
	if k.start > 1<<61 {
		in.rebase(k.Ahead)
	}
}

// overtakes reports whether a waiter of a class that is not ahead is awake.
func (in *waiting[W]) overtakes() bool {
	return slices.ContainsFunc(in.classes, func(k *fairClass[W]) bool { return !k.Ahead && k.awake.Len() > 0 })
}

// hasOthers reports whether a waiter of a class that is not ahead waits, asleep or not.
func (in *waiting[W]) hasOthers() bool {
	return slices.ContainsFunc(in.classes, func(k *fairClass[W]) bool { return !k.Ahead && k.len > 0 })
}

// rebase makes virtual times smaller, and keeps their differences.
func (in *waiting[W]) rebase(ahead bool) {
	v := in.time(ahead)
	base := *v
	for _, k := range in.classes {
		if k.Ahead == ahead && k.awake.Len() > 0 {
			base = min(base, k.start)
		}
	}
	*v -= base
	for _, k := range in.classes {
		if k.Ahead == ahead {
			k.start = max(k.start-base, 0)
		}
	}
}

// All returns the waiters in the order of their arrival, asleep or not. Any of them may be removed
// meanwhile.
func (l *fairLine[W]) All() iter.Seq[*fairEntry[W]] {
	return func(yield func(*fairEntry[W]) bool) {
		if l.in == nil {
			return
		}
		for e := l.in.first; e != nil; e = e.next {
			if !e.gone && !yield(e) {
				return
			}
		}
	}
}

// Classes returns how many classes had waiters since the line was empty.
func (l *fairLine[W]) Classes() int {
	if l.in == nil {
		return 0
	}
	return len(l.in.classes)
}
