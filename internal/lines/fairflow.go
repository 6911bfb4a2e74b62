package lines

import (
	"cmp"
	"maps"
	"slices"
)

// flow is the waiters of a flow in a class. It is forgotten when they have left.
type flow[W any] struct {
	name     string
	last     *fairEntry[W] // of those that wait
	awake    fairQueue[*fairEntry[W]]
	place    int64 // among the flows of its class
	position int
}

// precedes orders the flows of a class. Only the service of one of its waiters takes a flow to the
// end, so those that leave without one hold nobody up.
func (f *flow[W]) precedes(other *flow[W]) bool {
	return f.place < other.place
}

// at returns where the queue of its class keeps its position.
func (f *flow[W]) at() *int { return &f.position }

// first returns the waiter of a class that is next, of those that are awake.
func (k *fairClass[W]) first() *fairEntry[W] { return k.awake.First().awake.First() }

// moved brings a flow in order after a waiter of it woke, fell asleep or left.
func (k *fairClass[W]) moved(f *flow[W]) {
	if f.awake.Len() == 0 {
		k.awake.Remove(f)
		return
	}
	k.awake.Put(f)
}

// toEnd puts a flow behind all others of its class.
func (k *fairClass[W]) toEnd(f *flow[W]) {
	k.places++
	f.place = k.places
}

// fairCircle is the flows of a line, by class, in the order in which they are served.
type fairCircle map[string][]string

// Circle returns the flows that wait, asleep or not.
func (l *fairLine[W]) Circle() fairCircle {
	if l.in == nil {
		return nil
	}
	c := make(fairCircle)
	for _, k := range l.in.classes {
		for _, f := range k.inOrder() {
			c[k.Name] = append(c[k.Name], f.name)
		}
	}
	return c
}

// SetCircle brings flows that wait into an order, and others behind them: a line that is made anew
// goes on as the one before.
func (l *fairLine[W]) SetCircle(c fairCircle) {
	if l.in == nil {
		return
	}
	for _, k := range l.in.classes {
		rank := make(map[string]int, len(c[k.Name])) // from the last, so that 0 is that of the others
		for i, name := range c[k.Name] {
			rank[name] = len(c[k.Name]) - i
		}
		flows := k.inOrder()
		slices.SortStableFunc(flows, func(a, b *flow[W]) int { return cmp.Compare(rank[b.name], rank[a.name]) })
		for _, f := range flows {
			k.toEnd(f)
			k.moved(f)
		}
	}
}

// inOrder returns the flows that wait, the first first.
func (k *fairClass[W]) inOrder() []*flow[W] {
	flows := slices.Collect(maps.Values(k.flows))
	if k.unnamed.last != nil {
		flows = append(flows, &k.unnamed)
	}
	slices.SortFunc(flows, func(a, b *flow[W]) int { return cmp.Compare(a.place, b.place) })
	return flows
}

// flow returns a flow of the class.
func (k *fairClass[W]) flow(name string) *flow[W] {
	if name == "" {
		return &k.unnamed
	}
	f := k.flows[name]
	if f == nil {
		f = &flow[W]{name: name}
		if k.flows == nil {
			k.flows = make(map[string]*flow[W])
		}
		k.flows[name] = f
	}
	return f
}

// leaveFlow takes a waiter out of its flow.
func (k *fairClass[W]) leaveFlow(e *fairEntry[W]) {
	f := e.flow
	prev, next := e.inFlow.prev, e.inFlow.next
	if prev != nil {
		prev.inFlow.next = next
	}
	if next != nil {
		next.inFlow.prev = prev
	} else {
		f.last = prev
	}
	if e.inFlow.prev, e.inFlow.next = nil, nil; f.last == nil {
		f.place = 0
		delete(k.flows, f.name)
	}
}
