// A million steps of a line, against what docs/classes.md says.

package lines

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// exact is the unit of sizes here: all weights of the test divide it, so that nothing is rounded.
const exact = 60

// queued is a waiter as docs/classes.md knows it.
type queued struct {
	flow  string
	came  int
	size  int64
	entry *fairEntry[int]
	awake bool
}

// sharing is a class as start-time fair queueing has it.
type sharing struct {
	Share
	waits  []*queued
	known  bool                      // had a waiter since the line was empty
	circle []string                  // the flows that wait, in the order in which they take turns
	since  map[string]map[string]int // services of the other flows since one of a flow
	finish int64                     // the tag at which its last service ends
	awake  int                       // waiters
	begin  int64                     // the tag at which the next one begins
	got    int64                     // by its weight
	most   int64                     // the largest share of one service
	gaps   []span                    // what it got less what each other class got, while both have waited
}

// span is the range of a number.
type span struct{ least, most, first int64 }

// book plays the line by the definition: tags of begin and finish, and a virtual time which is the
// begin of what is served.
type book struct {
	*testing.T
	line     fairLine[int]
	classes  []*sharing
	now      map[bool]int64 // virtual time, of those ahead and of the others
	len      int
	arrivals int
	over     int // services ahead since one of the others, while one of those was awake
	steps    int
}

// first returns the waiter of a class that is next: of the flow whose turn it is the first that may
// be served.
func (s *sharing) first() (first *queued) {
	for _, flow := range s.circle {
		for _, w := range s.waits {
			if w.awake && w.flow == flow && (first == nil || w.came < first.came) {
				first = w
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// waiting returns how many of a flow wait, and how many of them may be served.
func (s *sharing) waiting(flow string) (waiting, awake int) {
	for _, w := range s.waits {
		if w.flow == flow {
			waiting++
			if w.awake {
				awake++
			}
		}
	}
	return waiting, awake
}

// leaves takes a flow out of the circle.
func (s *sharing) leaves(flow string) {
	s.circle = slices.DeleteFunc(s.circle, func(other string) bool { return other == flow })
}

// othersAwake reports whether a waiter that is not of a class ahead may be served.
func (b *book) othersAwake() bool {
	for _, s := range b.classes {
		if !s.Ahead && s.awake > 0 {
			return true
		}
	}
	return false
}

// alone reports whether only one class had waiters since the line was empty.
func (b *book) alone() bool {
	n := 0
	for _, s := range b.classes {
		if s.known {
			n++
		}
	}
	return n == 1
}

// next returns who is to be served: the classes ahead before the others, but for every tenth
// service; among these the class whose next service begins first; of two the one whose waiter came
// first.
func (b *book) next() (of *sharing, next *queued) {
	ahead := false
	for _, s := range b.classes {
		ahead = ahead || s.Ahead && s.awake > 0
	}
	if ahead && b.over == overtaken && b.othersAwake() {
		ahead = false
	}
	for _, s := range b.classes {
		if s.awake == 0 || s.Ahead != ahead {
			continue
		}
		if w := s.first(); next == nil || s.begin < of.begin || s.begin == of.begin && w.came < next.came {
			of, next = s, w
		}
	}
	return of, next
}

func (b *book) push(random *rand.Rand, s *sharing) {
	w := &queued{flow: []string{"", "x", "y", "z"}[random.IntN(4)], came: b.arrivals, size: exact * (1 + random.Int64N(1+random.Int64N(1000)))}
	b.arrivals++
	s.known = true
	if !slices.Contains(s.circle, w.flow) {
		s.circle = append(s.circle, w.flow)
	}
	s.waits = append(s.waits, w)
	b.len++
	if random.IntN(8) == 0 {
		w.entry = b.line.PushAsleep(w.came, s.Share, w.flow)
		return
	}
	w.entry = b.line.Push(w.came, s.Share, w.flow)
	b.wake(s, w)
}

func (b *book) wake(s *sharing, w *queued) {
	if _, awake := s.waiting(w.flow); awake == 0 {
		s.since[w.flow] = make(map[string]int)
	}
	if w.awake = true; s.awake == 0 {
		s.begin = max(s.finish, b.now[s.Ahead])
		for i := range s.gaps { // a class that was away saves nothing up
			gap := s.got - b.classes[i].got
			s.gaps[i] = span{gap, gap, gap}
			for j, other := range b.classes {
				if other == s {
					b.classes[i].gaps[j] = span{-gap, -gap, -gap}
				}
			}
		}
	}
	s.awake++
}

func (b *book) remove(s *sharing, w *queued) {
	for i := range s.waits {
		if s.waits[i] == w {
			s.waits[i] = s.waits[len(s.waits)-1]
			s.waits = s.waits[:len(s.waits)-1]
			break
		}
	}
	if waiting, _ := s.waiting(w.flow); waiting == 0 {
		s.leaves(w.flow)
	}
	if w.awake {
		s.awake--
	}
	others := false
	for _, c := range b.classes {
		others = others || !c.Ahead && len(c.waits) > 0
	}
	if !others {
		b.over = 0
	}
	if b.len--; b.len == 0 { // an empty line remembers nothing
		b.now = map[bool]int64{}
		for _, c := range b.classes {
			c.known, c.finish = false, 0
		}
	}
}

func (b *book) serve(s *sharing, w *queued) {
	share := w.size / s.weight()
	if b.alone() {
		share = 0 // what a class gets in a line of its own counts for nothing
	}
	b.now[s.Ahead], s.finish = s.begin, s.begin+share
	s.begin = s.finish
	s.leaves(w.flow)
	s.circle = append(s.circle, w.flow)
	b.takesTurns(s, w.flow)
	switch {
	case !s.Ahead:
		b.over = 0
	case b.othersAwake():
		b.over++
	}
	s.got, s.most = s.got+share, max(s.most, share)
	for i := range s.gaps {
		b.fair(s, i)
	}
	b.line.Serve(w.entry, w.size)
	b.remove(s, w)
}

// takesTurns counts a service of a flow for all others that wait: each waits for one service of
// each other flow at most, whoever leaves the line meanwhile.
func (b *book) takesTurns(s *sharing, flow string) {
	s.since[flow] = make(map[string]int)
	for _, other := range s.circle {
		if _, awake := s.waiting(other); other == flow || awake == 0 {
			continue
		}
		if s.since[other][flow]++; s.since[other][flow] > 1 {
			b.Fatalf("step %d: flow %q waits for more than one service of flow %q", b.steps, other, flow)
		}
	}
}

// fair compares what a class that was served got with what another one did: while both wait, the
// difference is never more than the largest call of each.
func (b *book) fair(s *sharing, other int) {
	o := b.classes[other]
	if o == s || o.awake == 0 || o.Ahead != s.Ahead {
		return
	}
	g := &s.gaps[other]
	gap := s.got - o.got
	g.least, g.most = min(g.least, gap), max(g.most, gap)
	for j := range b.classes {
		if b.classes[j] == s {
			o.gaps[j] = span{-g.most, -g.least, -g.first}
		}
	}
	if bound := s.most + o.most; g.most-g.least > bound {
		b.Fatalf("step %d: %q and %q drift apart by %d, want %d at most", b.steps, s.Name, o.Name, g.most-g.least, bound)
	}
}

// step makes one step, and compares who is next.
func (b *book) step(random *rand.Rand, crowd int) {
	b.steps++
	s := b.classes[random.IntN(len(b.classes))]
	action := random.IntN(20)
	switch {
	case b.len == 0 || action < 10 && b.len < crowd:
		b.push(random, s)
	case action < 17:
		if s, w := b.next(); w != nil {
			b.serve(s, w)
		}
	case len(s.waits) == 0:
	default:
		w := s.waits[random.IntN(len(s.waits))]
		switch {
		case action == 17:
			b.line.Remove(w.entry)
			b.remove(s, w)
		case w.awake:
			w.awake = false
			s.awake--
			b.line.Sleep(w.entry)
		default:
			b.line.Wake(w.entry)
			b.wake(s, w)
		}
	}
	b.compare()
}

func (b *book) compare() {
	head := b.line.Head()
	_, w := b.next()
	switch {
	case b.line.Len() != b.len:
		b.Fatalf("step %d: %d wait, want %d", b.steps, b.line.Len(), b.len)
	case (head == nil) != (w == nil):
		b.Fatalf("step %d: the head is %v, want %v", b.steps, head, w)
	case w != nil && head != w.entry:
		b.Fatalf("step %d: %d of class %q is next, want %d", b.steps, head.Value, head.Class(), w.came)
	}
}

func TestLineOfAMillionSteps(t *testing.T) {
	const lives, steps = 100/racetest.Factor + 1, 10_000
	began := time.Now()
	for seed := range uint64(lives) {
		random := rand.New(rand.NewPCG(seed, 77))
		b := &book{T: t, now: map[bool]int64{}}
		for i := range 1 + random.IntN(6) {
			c := Share{Name: fmt.Sprint(i), Weight: random.IntN(7), Ahead: random.IntN(4) == 0}
			b.classes = append(b.classes, &sharing{Share: c, gaps: make([]span, 6), since: make(map[string]map[string]int)})
		}
		for _, s := range b.classes {
			s.gaps = s.gaps[:len(b.classes)]
		}
		crowd := 1 + random.IntN(60)
		for range steps {
			b.step(random, crowd)
		}
	}
	t.Logf("%d steps in %v", lives*steps, time.Since(began))
}
