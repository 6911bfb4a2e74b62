package keyedtest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// ExerciseExchange tests whether an Exchange keeps to what keyed.Exchange says. open returns an
// Exchange without rows; it may be one in a bubble of testing/synctest or one over a real network.
// The cells are those of time.Now and the ones before.
func ExerciseExchange(t *testing.T, open func(t *testing.T) keyed.Exchange) {
	for _, test := range exchangeTests {
		t.Run(test.name, func(t *testing.T) { test.run(&exchangeExercise{t, moment(time.Now()), open(t)}) })
	}
}

var exchangeTests = []struct {
	name string
	run  func(e *exchangeExercise)
}{
	{"nothing was pushed", (*exchangeExercise).nothing},
	{"what was pushed is pulled once", (*exchangeExercise).once},
	{"the largest count is kept", (*exchangeExercise).largest},
	{"a cursor that is not known is the beginning", (*exchangeExercise).cursor},
	{"no two names are one row", (*exchangeExercise).names},
	{"counts are exact", (*exchangeExercise).exact},
	{"many rows come in parts", (*exchangeExercise).many},
	{"in any order and repeated the same", (*exchangeExercise).schedules},
	{"a reader beside writers misses nothing", (*exchangeExercise).concurrent},
	{"no rows", (*exchangeExercise).empty},
	{"an ended context is an error", (*exchangeExercise).ended},
}

type exchangeExercise struct {
	t *testing.T
	moment
	exchange keyed.Exchange
}

func (e *exchangeExercise) push(rows ...keyed.Row) {
	e.t.Helper()
	before := slices.Clone(rows)
	if err := e.exchange.Push(e.t.Context(), rows); err != nil {
		e.t.Fatalf("push: %v", err)
	}
	if !slices.Equal(rows, before) {
		e.t.Errorf("push changed the caller's rows to %v", rows)
	}
}

// pulls bounds the parts in which an Exchange may return what the tests push.
const pulls = 10_000

// pull puts all that comes after cursor into rows, and returns the next cursor.
func (e *exchangeExercise) pull(cursor string, rows map[place]int64) (next string) {
	e.t.Helper()
	for range pulls {
		some, next, err := e.exchange.Pull(e.t.Context(), cursor)
		if err != nil {
			e.t.Fatalf("pull after %q: %v", cursor, err)
		}
		if len(some) == 0 {
			return next
		}
		for _, row := range some {
			p := place{row.Cell, row.Region}
			rows[p] = max(rows[p], row.Count)
		}
		cursor = next
	}
	e.t.Fatalf("there are always more rows")
	return ""
}

func (e *exchangeExercise) want(got, want map[place]int64) {
	e.t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for p, count := range want {
		if got[p] != count {
			e.t.Fatalf("%d rows, want %d; %v is %d, want %d", len(got), len(want), p, got[p], count)
		}
	}
	e.t.Fatalf("%d rows, want %d", len(got), len(want))
}

func (m moment) row(key, region string, count int64) keyed.Row {
	return keyed.Row{Cell: m.minute(key), Region: region, Count: count}
}

// rowsOf returns rows as what a pull of them collects.
func rowsOf(rows ...keyed.Row) map[place]int64 {
	m := map[place]int64{}
	for _, r := range rows {
		m[place{r.Cell, r.Region}] = r.Count
	}
	return m
}

func (e *exchangeExercise) nothing() {
	got := map[place]int64{}
	cursor := e.pull("", got)
	e.want(got, nil)
	e.pull(cursor, got)
	e.want(got, nil)
}

func (e *exchangeExercise) once() {
	a, b := e.row("a", "eu", 3), e.row("b", "us", 5)
	e.push(b, a)
	got := map[place]int64{}
	cursor := e.pull("", got)
	e.want(got, rowsOf(a, b))
	later := map[place]int64{}
	cursor = e.pull(cursor, later)
	e.want(later, nil)
	a.Count = 4
	e.push(a)
	e.pull(cursor, later)
	e.want(later, rowsOf(a))
	all := map[place]int64{}
	e.pull("", all)
	e.want(all, rowsOf(a, b))
}

func (e *exchangeExercise) largest() {
	a := e.row("a", "eu", 9)
	e.push(a)
	cursor := e.pull("", map[place]int64{})
	e.push(e.row("a", "eu", 8), e.row("a", "us", 1))
	e.push(a)
	got := map[place]int64{}
	e.pull(cursor, got)
	delete(got, place{a.Cell, a.Region}) // a row may come twice
	e.want(got, rowsOf(e.row("a", "us", 1)))
	all := map[place]int64{}
	e.pull("", all)
	e.want(all, rowsOf(a, e.row("a", "us", 1)))
}

func (e *exchangeExercise) cursor() {
	a := e.row("a", "eu", 2)
	e.push(a)
	for _, cursor := range []string{"no cursor", "-", "1", "999999-999999", "\xff"} {
		got := map[place]int64{}
		e.pull(cursor, got)
		e.want(got, rowsOf(a))
	}
}

func (e *exchangeExercise) names() {
	parts := []string{"a", "a-b", "b", "c", "a:b", ":", "a\x00b", "\x00", "{a}", "\n", "é", "\xff", "1", "A"}
	var rows []keyed.Row
	for _, namespace := range parts {
		for _, key := range parts {
			for _, region := range []string{"eu", "a", ":", "\xff"} {
				cell := e.cell(namespace, key, time.Hour)
				rows = append(rows, keyed.Row{Cell: cell, Region: region, Count: int64(len(rows) + 1)})
			}
		}
	}
	for ago := range int64(3) {
		cell := e.cell("w", "w", time.Hour)
		cell.Sequence -= ago
		rows = append(rows, keyed.Row{Cell: cell, Region: "eu", Count: 7 + ago})
	}
	rows = append(rows, keyed.Row{Cell: e.cell("w", "w", time.Hour+1), Region: "eu", Count: 77})
	e.push(rows...)
	got := map[place]int64{}
	e.pull("", got)
	e.want(got, rowsOf(rows...))
}

func (e *exchangeExercise) exact() {
	const odd = 1<<53 + 1 // no float64
	a, b := e.row("a", "eu", odd), e.row("b", "eu", math.MaxInt64)
	e.push(e.row("a", "eu", odd-1), e.row("b", "eu", math.MaxInt64-1))
	e.push(a, b)
	got := map[place]int64{}
	e.pull("", got)
	e.want(got, rowsOf(a, b))
}

func (e *exchangeExercise) many() {
	const chunks, size = 5, 500
	var all []keyed.Row
	for c := range chunks {
		var rows []keyed.Row
		for i := range size {
			rows = append(rows, e.row(fmt.Sprint("key ", c, " ", i), "eu", int64(i+1)))
		}
		e.push(rows...)
		all = append(all, rows...)
	}
	got := map[place]int64{}
	e.pull("", got)
	e.want(got, rowsOf(all...))
}

// Rows are pushed in a random order, old ones after new ones and many of them twice, while a reader
// pulls now and then: at the end it has seen the largest counts, as one has that pulls all at once.
func (e *exchangeExercise) schedules() {
	random := rand.New(rand.NewPCG(18, 4))
	want := map[place]int64{}
	var rows []keyed.Row
	for range 300 {
		r := e.row(fmt.Sprint("key ", random.IntN(8)), fmt.Sprint("region ", random.IntN(3)), random.Int64N(100)+1)
		rows = append(rows, r)
		want[place{r.Cell, r.Region}] = max(want[place{r.Cell, r.Region}], r.Count)
	}
	rows = append(rows, rows...)
	random.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
	seen, cursor := map[place]int64{}, ""
	for chunk := range slices.Chunk(rows, 20) {
		e.push(chunk...)
		if random.IntN(3) == 0 {
			cursor = e.pull(cursor, seen)
		}
	}
	e.pull(cursor, seen)
	e.want(seen, want)
	all := map[place]int64{}
	e.pull("", all)
	e.want(all, want)
}

func (e *exchangeExercise) concurrent() {
	const writers, pushes = 4, 25
	var wg sync.WaitGroup
	want := map[place]int64{}
	for w := range writers {
		region := fmt.Sprint("region ", w)
		cell := e.minute("a")
		want[place{cell, region}] = pushes
		wg.Go(func() {
			for n := range int64(pushes) {
				rows := []keyed.Row{{Cell: cell, Region: region, Count: n + 1}}
				if err := e.exchange.Push(e.t.Context(), rows); err != nil {
					e.t.Errorf("push: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen, cursor := map[place]int64{}, ""
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		cursor = e.pull(cursor, seen)
	}
	e.want(seen, want)
}

func (e *exchangeExercise) empty() {
	e.push()
	got := map[place]int64{}
	e.pull("", got)
	e.want(got, nil)
}

func (e *exchangeExercise) ended() {
	ctx, cancel := context.WithCancel(e.t.Context())
	cancel()
	if err := e.exchange.Push(ctx, []keyed.Row{e.row("a", "eu", 1)}); err == nil {
		e.t.Error("push with an ended context: no error")
	}
	if rows, _, err := e.exchange.Pull(ctx, ""); err == nil {
		e.t.Errorf("pull with an ended context: %v, want an error", rows)
	}
}
