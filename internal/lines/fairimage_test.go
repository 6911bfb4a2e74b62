package lines

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Equivalent mutants of image.go: the bounds of virtual times and services, which only keep
// sums from overflowing, off by one.

// copies are lines that all had the same life.
type copies struct {
	lines   []*fairLine[uint64]
	entries []map[uint64]*fairEntry[uint64] // of each line, by waiter
	ids     []uint64
	next    uint64
	classes []Share
}

var imageFlows = []string{"", "x", "y", "z"}

func itself(id uint64) uint64 { return id }

func known(id uint64) (uint64, bool) { return id, true }

// each does the same in all lines, with the entry of a waiter in each.
func (c *copies) each(id uint64, do func(l *fairLine[uint64], e *fairEntry[uint64])) {
	for i, l := range c.lines {
		do(l, c.entries[i][id])
	}
}

// leaves forgets a waiter.
func (c *copies) leaves(id uint64) {
	c.ids = slices.DeleteFunc(c.ids, func(other uint64) bool { return other == id })
	for _, entries := range c.entries {
		delete(entries, id)
	}
}

func (c *copies) push(random *rand.Rand) {
	class, flow := c.classes[random.IntN(len(c.classes))], imageFlows[random.IntN(len(imageFlows))]
	awake := random.IntN(4) > 0
	c.next++
	c.ids = append(c.ids, c.next)
	for i, l := range c.lines {
		e := l.PushAsleep(c.next, class, flow)
		if awake {
			l.Wake(e)
		}
		c.entries[i][c.next] = e
	}
}

// step is something that happens to a line.
func (c *copies) step(random *rand.Rand) {
	what, amount := random.IntN(20), random.Int64N(wholeCharge)
	if what < 7 || len(c.ids) == 0 {
		c.push(random)
		return
	}
	id := c.ids[random.IntN(len(c.ids))]
	if head := c.lines[0].Head(); head != nil && what < 12 {
		id = head.Value
	}
	class := c.classes[random.IntN(len(c.classes))]
	switch {
	case what < 13:
		c.each(id, func(l *fairLine[uint64], e *fairEntry[uint64]) { l.Serve(e, amount) })
		c.leaves(id)
	case what == 13:
		c.each(id, func(l *fairLine[uint64], e *fairEntry[uint64]) { l.Remove(e) })
		c.leaves(id)
	case what < 17:
		c.each(id, func(l *fairLine[uint64], e *fairEntry[uint64]) {
			if e.IsAwake() {
				l.Sleep(e)
				return
			}
			l.Wake(e)
		})
	case what < 19:
		c.each(id, func(l *fairLine[uint64], _ *fairEntry[uint64]) { l.Pass(class, amount) })
	default:
		circle := fairCircle{class.Name: {"y", ""}}
		c.each(id, func(l *fairLine[uint64], _ *fairEntry[uint64]) { l.SetCircle(circle) })
	}
}

// answers is all that a line says.
func (c *copies) answers(l *fairLine[uint64], of map[uint64]*fairEntry[uint64]) string {
	var text strings.Builder
	fmt.Fprintln(&text, l.Len(), l.Classes(), l.ByClass(), l.Circle(), l.Progress())
	for e := range l.All() {
		fmt.Fprint(&text, e.Value, e.Class(), e.IsAwake(), of[e.Value] == e, " ")
	}
	fmt.Fprint(&text, "\nheads")
	for _, e := range l.Heads() {
		fmt.Fprint(&text, " ", e.Value, l.Head() == l.Heads()[0])
	}
	for _, class := range c.classes {
		fmt.Fprint(&text, "\n", class.Name, l.InClass(class.Name), l.Leads(class))
		if e := l.First(class.Name); e != nil {
			fmt.Fprint(&text, e.Value)
		}
	}
	return text.String()
}

func (c *copies) agree(t *testing.T) {
	t.Helper()
	want, image := c.answers(c.lines[0], c.entries[0]), c.lines[0].AppendImage(nil, itself)
	for i, l := range c.lines {
		if got := c.answers(l, c.entries[i]); got != want {
			t.Fatalf("the line that was read says\n%s\nwant\n%s", got, want)
		}
		if !bytes.Equal(l.AppendImage(nil, itself), image) {
			t.Fatal("the images differ")
		}
	}
}

// drain serves all waiters, those asleep too, and compares the order.
func (c *copies) drain(t *testing.T) {
	for len(c.ids) > 0 {
		id := c.ids[0]
		c.each(id, func(l *fairLine[uint64], e *fairEntry[uint64]) { l.Wake(e) })
		id = c.lines[0].Head().Value
		c.each(id, func(l *fairLine[uint64], e *fairEntry[uint64]) {
			if l.Head() != e {
				t.Fatalf("the next is %d, want %d", l.Head().Value, id)
			}
			l.Serve(e, wholeCharge/3)
		})
		c.leaves(id)
	}
}

// take makes a line one that was read.
func (c *copies) take(t *testing.T, i int, image []byte) {
	t.Helper()
	r := wire.NewReader(image)
	line := readFairLine(r, known)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	c.lines[i], c.entries[i] = &line, make(map[uint64]*fairEntry[uint64])
	for e := range line.All() {
		c.entries[i][e.Value] = e
	}
}

// A line that was read goes on as the one that was written.
func TestImageGoesOn(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 30))
			c := &copies{classes: []Share{{}, {"a", 3, false}, {"b", 0, false}, {"ahead", 2, true}, {"also", 0, true}}}
			c.classes = c.classes[:1+random.IntN(len(c.classes))]
			c.lines, c.entries = make([]*fairLine[uint64], 2), make([]map[uint64]*fairEntry[uint64], 2)
			c.take(t, 0, wire.AppendUint(nil, 0))
			for range 12 {
				c.take(t, 1, c.lines[0].AppendImage(nil, itself))
				for range random.IntN(60) {
					c.agree(t)
					c.step(random)
				}
				c.agree(t)
			}
			c.take(t, 1, c.lines[0].AppendImage(nil, itself))
			c.drain(t)
		})
	}
}

// Lines that serve in the same order have the same bytes, in whatever order their classes came.
func TestImageIsCanonical(t *testing.T) {
	var one, other fairLine[uint64]
	a, b := Share{Name: "a"}, Share{Name: "b", Weight: 1}
	gone := one.PushAsleep(9, b, "")
	for _, l := range []*fairLine[uint64]{&one, &other} {
		l.Push(1, a, "y")
		l.PushAsleep(2, b, "x")
		l.PushAsleep(3, b, "w")
	}
	one.Remove(gone)
	if x, y := one.AppendImage(nil, itself), other.AppendImage(nil, itself); !bytes.Equal(x, y) {
		t.Errorf("the images are\n%q and\n%q", x, y)
	}
}

func TestImageIsSmall(t *testing.T) {
	var l fairLine[uint64]
	if image := l.AppendImage(nil, itself); len(image) != 1 {
		t.Errorf("an empty line takes %d bytes", len(image))
	}
	for i := range uint64(100) {
		l.Push(i, Share{}, "flow")
	}
	if image := l.AppendImage(nil, itself); len(image) > 530 {
		t.Errorf("100 waiters take %d bytes", len(image))
	}
}

// imageText is an image in parts, so that a test can break each of them.
type imageText struct{ head, classes, waiters string }

func TestReadLineRefuses(t *testing.T) {
	far := string(wire.AppendUint(nil, farthest+1))
	valid := imageText{
		head:    "\x03\x05\x00\x02",
		classes: "\x02" + "\x01a\x01\x00\x07" + "\x03\x01y\x01u\x01v" + "\x01b\x02\x01\x00\x00",
		waiters: "\x09\x00\x01" + "\x08\x01\x01" + "\x07\x02\x00",
	}
	for _, tt := range []struct {
		name, want string
		old, new   string
	}{
		{"nothing", "", "", ""},
		{"a virtual time of no line", "number out of range", "\x03\x05", "\x03" + far},
		{"more services than can be", "number out of range", "\x03\x05\x00\x02", "\x03\x05\x00" + string(wire.AppendUint(nil, mostPassed+1))},
		{"a class twice", "classes out of order", "\x01b", "\x01a"},
		{"a class without a weight", "class without a weight", "\x01b\x02", "\x01b\x00"},
		{"a class that starts at no time", "number out of range", "\x01\x00\x07", "\x01\x00" + far},
		{"a flow twice", "flow that is there twice", "\x01u\x01v", "\x01u\x01u"},
		{"a flow without a waiter", "flow without a waiter", "\x07\x02\x00", "\x07\x01\x00"},
		{"a waiter of no flow", "number out of range", "\x07\x02\x00", "\x07\x03\x00"},
		{"a waiter twice", "waiter that is there twice", "\x08\x01\x01", "\x09\x01\x01"},
		{"a waiter that nobody knows", "waiter that is not known", "\x08\x01\x01", "\x06\x01\x01"},
		{"more waiters than bytes", "too large a number", "\x03\x05", "\x20\x05"},
		{"fewer waiters", "flow without a waiter", "\x03\x05", "\x02\x05"},
		{"more classes than can be", "too large a number", valid.classes, string(wire.AppendUint(nil, mostClasses+1)) + strings.Repeat("\x00", 5*mostClasses+5)},
		{"no classes", "waiter without a flow", valid.head + valid.classes, valid.head + "\x00"},
	} {
		image := strings.Replace(valid.head+valid.classes+valid.waiters, tt.old, tt.new, 1)
		r := wire.NewReader([]byte(image))
		line := readFairLine(r, func(id uint64) (uint64, bool) { return id, id >= 7 })
		err := fmt.Sprint(r.End())
		if tt.want == "" && (line.Len() != 3 || r.End() != nil || string(line.AppendImage(nil, itself)) != image) {
			t.Errorf("%s: %d waiters, %s, written as %q", tt.name, line.Len(), err, line.AppendImage(nil, itself))
		}
		if tt.want != "" && (line.Len() != 0 || !strings.Contains(err, tt.want)) {
			t.Errorf("%s: %d waiters, %s, want %q", tt.name, line.Len(), err, tt.want)
		}
	}
}

// No bytes panic, nor the line that is read from them. What is accepted is what is written for it.
func FuzzReadLine(f *testing.F) {
	classes := []Share{{}, {"a", 3, false}, {"ahead", 2, true}}
	random := rand.New(rand.NewPCG(3, 30))
	for range 3 {
		c := &copies{classes: classes, lines: []*fairLine[uint64]{{}}, entries: []map[uint64]*fairEntry[uint64]{{}}}
		for range 30 {
			c.step(random)
			f.Add(c.lines[0].AppendImage(nil, itself), random.Uint64())
		}
	}
	f.Fuzz(func(t *testing.T, image []byte, seed uint64) {
		r := wire.NewReader(image)
		line := readFairLine(r, known)
		if r.End() != nil {
			return
		}
		if again := line.AppendImage(nil, itself); !bytes.Equal(again, image) {
			t.Fatalf("%q are accepted, and written as %q", image, again)
		}
		c := &copies{classes: classes, next: 1 << 32, lines: make([]*fairLine[uint64], 2), entries: make([]map[uint64]*fairEntry[uint64], 2)}
		c.take(t, 0, image)
		c.take(t, 1, image)
		for e := range line.All() {
			if c.ids = append(c.ids, e.Value); e.Value >= c.next {
				return
			}
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for range 50 {
			c.step(random)
		}
		c.agree(t)
		c.drain(t)
	})
}
