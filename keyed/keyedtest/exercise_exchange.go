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

// wantAfter wants a pull of all that comes after cursor to collect rows, and returns the next
// cursor.
func (e *exchangeExercise) wantAfter(cursor string, want map[place]int64) (next string) {
	e.t.Helper()
	got := map[place]int64{}
	next = e.pull(cursor, got)
	e.want(got, want)
	return next
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

var exchangeTests = []test[exchangeExercise]{
	{"nothing was pushed", func(e *exchangeExercise) {
		e.wantAfter(e.wantAfter("", nil), nil)
	}},
	{"what was pushed is pulled once", func(e *exchangeExercise) {
		a, b := e.row("a", "eu", 3), e.row("b", "us", 5)
		e.push(b, a)
		cursor := e.wantAfter("", rowsOf(a, b))
		cursor = e.wantAfter(cursor, nil)
		a.Count = 4
		e.push(a)
		e.wantAfter(cursor, rowsOf(a))
		e.wantAfter("", rowsOf(a, b))
	}},
	{"the largest count is kept", func(e *exchangeExercise) {
		a := e.row("a", "eu", 9)
		e.push(a)
		cursor := e.pull("", map[place]int64{})
		e.push(e.row("a", "eu", 8), e.row("a", "us", 1))
		e.push(a)
		got := map[place]int64{}
		e.pull(cursor, got)
		delete(got, place{a.Cell, a.Region}) // a row may come twice
		e.want(got, rowsOf(e.row("a", "us", 1)))
		e.wantAfter("", rowsOf(a, e.row("a", "us", 1)))
	}},
	{"a cursor that is not known is the beginning", func(e *exchangeExercise) {
		a := e.row("a", "eu", 2)
		e.push(a)
		for _, cursor := range []string{"no cursor", "-", "1", "999999-999999", "\xff"} {
			e.wantAfter(cursor, rowsOf(a))
		}
	}},
	{"no two names are one row", func(e *exchangeExercise) {
		parts := []string{"a", "a-b", "b", "c", "a:b", ":", "a\x00b", "\x00", "{a}", "\n", "é", "\xff", "1", "A"}
		var rows []keyed.Row
		for _, cell := range e.cells(parts...) {
			for _, region := range []string{"eu", "a", ":", "\xff"} {
				rows = append(rows, keyed.Row{Cell: cell, Region: region, Count: int64(len(rows) + 1)})
			}
		}
		e.push(rows...)
		e.wantAfter("", rowsOf(rows...))
	}},
	{"counts are exact", func(e *exchangeExercise) {
		const odd = 1<<53 + 1 // no float64
		a, b := e.row("a", "eu", odd), e.row("b", "eu", math.MaxInt64)
		e.push(e.row("a", "eu", odd-1), e.row("b", "eu", math.MaxInt64-1))
		e.push(a, b)
		e.wantAfter("", rowsOf(a, b))
	}},
	{"many rows come in parts", func(e *exchangeExercise) {
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
		e.wantAfter("", rowsOf(all...))
	}},
	// Rows are pushed in a random order, old ones after new ones and many of them twice, while a
	// reader pulls now and then: at the end it has seen the largest counts, as one has that pulls
	// all at once.
	{"in any order and repeated the same", func(e *exchangeExercise) {
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
		e.wantAfter("", want)
	}},
	{"a reader beside writers misses nothing", func(e *exchangeExercise) {
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
	}},
	{"no rows", func(e *exchangeExercise) {
		e.push()
		e.wantAfter("", nil)
	}},
	{"an ended context is an error", func(e *exchangeExercise) {
		ctx, cancel := context.WithCancel(e.t.Context())
		cancel()
		if err := e.exchange.Push(ctx, []keyed.Row{e.row("a", "eu", 1)}); err == nil {
			e.t.Error("push with an ended context: no error")
		}
		if rows, _, err := e.exchange.Pull(ctx, ""); err == nil {
			e.t.Errorf("pull with an ended context: %v, want an error", rows)
		}
	}},
}
