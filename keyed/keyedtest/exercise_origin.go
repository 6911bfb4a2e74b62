package keyedtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// ExerciseOrigin tests whether an Origin keeps to what keyed.Origin says. open returns an Origin
// without counts; it may be one in a bubble of testing/synctest or one over a real network. The
// cells are those of time.Now and the ones before.
func ExerciseOrigin(t *testing.T, open func(t *testing.T) keyed.Origin) {
	for _, test := range originTests {
		t.Run(test.name, func(t *testing.T) { test.run(&originExercise{t, moment(time.Now()), open(t)}) })
	}
}

// test is one of the tests of an Exercise function, on what it has opened.
type test[E any] struct {
	name string
	run  func(e *E)
}

type originExercise struct {
	t *testing.T
	moment
	origin keyed.Origin
}

// moment is when a test began: all its cells are those of that instant, however long it runs.
type moment time.Time

// cell returns the cell of a counter.
func (m moment) cell(namespace, key string, window time.Duration) keyed.Cell {
	sequence := time.Time(m).UnixNano() / int64(window)
	return keyed.Cell{Namespace: namespace, Key: key, Window: window, Sequence: sequence}
}

func (m moment) minute(key string) keyed.Cell { return m.cell("requests", key, time.Minute) }

// cells returns cells whose names differ, of counters in which parts stand for both names.
func (m moment) cells(parts ...string) (cells []keyed.Cell) {
	for _, namespace := range parts {
		for _, key := range parts {
			cells = append(cells, m.cell(namespace, key, time.Minute))
		}
	}
	for _, window := range []time.Duration{time.Millisecond * 900, time.Second, time.Second + 1, time.Hour, time.Hour + 1, 400 * 24 * time.Hour} {
		cells = append(cells, m.cell("a", "b", window))
	}
	for ago := int64(1); ago < 3; ago++ {
		c := m.cell("a", "b", time.Hour)
		c.Sequence -= ago
		cells = append(cells, c)
	}
	return cells
}

func (e *originExercise) read(cells ...keyed.Cell) []int64 {
	e.t.Helper()
	counts, err := e.origin.Read(e.t.Context(), cells)
	if err != nil {
		e.t.Fatalf("read: %v", err)
	}
	return counts
}

func (e *originExercise) add(process string, number int64, deltas ...keyed.Delta) []int64 {
	e.t.Helper()
	counts, err := e.origin.Add(e.t.Context(), keyed.Replay{Process: process, Number: number, Deltas: deltas})
	if err != nil {
		e.t.Fatalf("add %s/%d: %v", process, number, err)
	}
	return counts
}

func (e *originExercise) want(got []int64, want ...int64) {
	e.t.Helper()
	if !slices.Equal(got, want) {
		e.t.Errorf("counts are %d, want %d", got, want)
	}
}

var originTests = []test[originExercise]{
	{"unknown cells are 0", func(e *originExercise) {
		a := e.minute("a")
		before := a
		before.Sequence--
		e.want(e.read(a, before), 0, 0)
	}},
	{"counts come in the order of the cells", func(e *originExercise) {
		a, b := e.minute("a"), e.minute("b")
		before := a
		before.Sequence--
		e.want(e.add("p", 1, keyed.Delta{Cell: b, Add: 2}, keyed.Delta{Cell: a, Add: 1}, keyed.Delta{Cell: before, Add: 3}), 2, 1, 3)
		e.want(e.read(a, before, e.minute("c"), b), 1, 3, 0, 2)
	}},
	{"the same cell may be read twice", func(e *originExercise) {
		a := e.minute("a")
		e.add("p", 1, keyed.Delta{Cell: a, Add: 4})
		e.want(e.read(a, a), 4, 4)
	}},
	{"a replay that comes again counts once", func(e *originExercise) {
		a, b := e.minute("a"), e.minute("b")
		deltas := []keyed.Delta{{Cell: a, Add: 5}, {Cell: b, Add: 1}}
		e.want(e.add("p", 1, deltas...), 5, 1)
		e.want(e.add("p", 1, deltas...), 5, 1)
		e.want(e.add("q", 1, keyed.Delta{Cell: a, Add: 2}), 7)
		e.want(e.add("p", 1, deltas...), 7, 1)
		e.want(e.add("p", 2, deltas...), 12, 2)
		e.want(e.read(a, b), 12, 2)
	}},
	{"an older replay adds nothing", func(e *originExercise) {
		a := e.minute("a")
		delta := keyed.Delta{Cell: a, Add: 1}
		e.add("p", 1, delta)
		e.add("p", 2, delta)
		e.add("p", 3, delta)
		e.want(e.add("p", 1, delta), 3)
		e.want(e.add("p", 2, delta), 3)
		e.want(e.add("p", 4, delta), 4)
	}},
	{"processes number their own replays", func(e *originExercise) {
		for i, process := range []string{"p", "p:", "p:1", "P", "p\x00", "{p}", "é", "\xff"} {
			cell := e.minute(fmt.Sprint("key ", i))
			delta := keyed.Delta{Cell: cell, Add: 1}
			e.want(e.add(process, 1, delta), 1)
			e.want(e.add(process, 11, delta), 2)
			e.want(e.add(process, 11, delta), 2)
			e.want(e.add("of all", int64(i)+1, delta), 3)
		}
	}},
	{"no two names are one cell", func(e *originExercise) {
		parts := []string{
			"a", "a-b", "b-c", "c", "a:b", "b:c", ":", "::", "a\x00b", "\x00", "{a}", "}", "{", "a b", " ", "\n", "%s", "*",
			"é", "\xff", "1", "60000", "A", strings.Repeat("k", 1000),
		}
		cells := e.cells(parts...)
		var deltas []keyed.Delta
		var want []int64
		for i, cell := range cells {
			deltas = append(deltas, keyed.Delta{Cell: cell, Add: int64(i + 1)})
			want = append(want, int64(i+1))
		}
		e.want(e.add("p", 1, deltas...), want...)
		e.want(e.read(cells...), want...)
	}},
	{"counts are exact and saturate", func(e *originExercise) {
		a, b := e.minute("a"), e.minute("b")
		const odd = 1<<53 + 1 // no float64
		e.want(e.add("p", 1, keyed.Delta{Cell: a, Add: odd}, keyed.Delta{Cell: b, Add: math.MaxInt64}), odd, math.MaxInt64)
		e.want(e.add("p", 2, keyed.Delta{Cell: a, Add: 1}, keyed.Delta{Cell: b, Add: 1}), odd+1, math.MaxInt64)
		e.want(e.add("p", 3, keyed.Delta{Cell: a, Add: 1}, keyed.Delta{Cell: b, Add: math.MaxInt64}), odd+2, math.MaxInt64)
		e.want(e.read(a, b), odd+2, math.MaxInt64)
	}},
	{"adding 0 reads", func(e *originExercise) {
		a, b := e.minute("a"), e.minute("b")
		e.add("p", 1, keyed.Delta{Cell: a, Add: 6})
		e.want(e.add("q", 1, keyed.Delta{Cell: a}, keyed.Delta{Cell: b}), 6, 0)
		e.want(e.read(a, b), 6, 0)
	}},
	{"no cells", func(e *originExercise) {
		e.want(e.read())
		e.want(e.add("p", 1))
		e.want(e.add("p", 2, keyed.Delta{Cell: e.minute("a"), Add: 1}), 1)
	}},
	{"a thousand cells at once", func(e *originExercise) {
		const cells = 1000
		var deltas []keyed.Delta
		var names []keyed.Cell
		for i := range cells {
			cell := e.minute(fmt.Sprint("key ", i))
			names = append(names, cell)
			deltas = append(deltas, keyed.Delta{Cell: cell, Add: int64(i)})
		}
		for i, count := range e.add("p", 1, deltas...) {
			if count != int64(i) {
				e.t.Fatalf("cell %d is %d after the replay", i, count)
			}
		}
		for i, count := range e.read(names...) {
			if count != int64(i) {
				e.t.Fatalf("cell %d is read as %d", i, count)
			}
		}
	}},
	{"concurrent replays all count", func(e *originExercise) {
		const processes, replays = 8, 25
		a, b := e.minute("a"), e.minute("b")
		var wg sync.WaitGroup
		for p := range processes {
			wg.Go(func() {
				var last int64
				for n := range int64(replays) {
					counts, err := e.origin.Add(e.t.Context(), keyed.Replay{
						Process: fmt.Sprint("process ", p), Number: n + 1,
						Deltas: []keyed.Delta{{Cell: a, Add: 1}, {Cell: b, Add: 2}},
					})
					if err != nil || len(counts) != 2 {
						e.t.Errorf("add: %d, %v", counts, err)
						return
					}
					if counts[0] <= last || counts[1] != 2*counts[0] {
						e.t.Errorf("after %d the counts are %d", last, counts)
					}
					last = counts[0]
				}
			})
		}
		wg.Wait()
		e.want(e.read(a, b), processes*replays, 2*processes*replays)
	}},
	{"concurrent copies of a replay count once", func(e *originExercise) {
		cell := e.minute("a")
		for number := range int64(10) {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					counts, err := e.origin.Add(e.t.Context(), keyed.Replay{
						Process: "p", Number: number + 1, Deltas: []keyed.Delta{{Cell: cell, Add: 3}},
					})
					if err != nil || len(counts) != 1 || counts[0] != 3*(number+1) {
						e.t.Errorf("replay %d: %d, %v", number+1, counts, err)
					}
				})
			}
			wg.Wait()
		}
	}},
	{"an ended context is an error", func(e *originExercise) {
		ctx, cancel := context.WithCancel(e.t.Context())
		cancel()
		cell := e.minute("a")
		if counts, err := e.origin.Read(ctx, []keyed.Cell{cell}); err == nil {
			e.t.Errorf("read with an ended context: %d, want an error", counts)
		}
		replay := keyed.Replay{Process: "p", Number: 1, Deltas: []keyed.Delta{{Cell: cell, Add: 1}}}
		if counts, err := e.origin.Add(ctx, replay); err == nil {
			e.t.Errorf("add with an ended context: %d, want an error", counts)
		}
		e.want(e.add("p", 1, replay.Deltas...), 1) // whether it was added before or not
	}},
	{"the caller's slices stay as they are", func(e *originExercise) {
		cells := []keyed.Cell{e.minute("b"), e.minute("a")}
		deltas := []keyed.Delta{{Cell: cells[0], Add: 1}, {Cell: cells[1], Add: 2}}
		cellsBefore, deltasBefore := slices.Clone(cells), slices.Clone(deltas)
		e.add("p", 1, deltas...)
		e.read(cells...)
		if !slices.Equal(cells, cellsBefore) || !slices.Equal(deltas, deltasBefore) {
			e.t.Errorf("the slices became %v and %v", cells, deltas)
		}
	}},
}
