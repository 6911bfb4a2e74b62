package instruments_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

func newTable(limit int) *instruments.Table[string, *string] {
	return instruments.NewTable(limit, "_other", func(k string) *string { return &k })
}

// Each key has one value for good; those for which there is no room have that of the rest.
func TestTable(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 7, 100} {
		table := newTable(limit)
		first := make(map[string]*string)
		for round := range 5 {
			for i := range limit + 3 {
				key, want := fmt.Sprint("m", i), fmt.Sprint("m", i)
				if i >= limit {
					want = "_other"
				}
				v := table.Of(key)
				if *v != want || table.Holds(key) != want {
					t.Fatalf("limit %d, round %d: %s has the value of %s and is held as %s, want %s", limit, round, key, *v, table.Holds(key), want)
				}
				if round > 0 && v != first[key] {
					t.Fatalf("limit %d, round %d: %s has another value than before", limit, round, key)
				}
				first[key] = v
			}
		}
		all := maps.Collect(table.All())
		if len(all) != limit+1 || *all["_other"] != "_other" {
			t.Errorf("limit %d: all are %d", limit, len(all))
		}
		for range table.All() {
			break
		}
		if rest := table.Of("_other"); *rest != "_other" || table.Of("more") != rest {
			t.Errorf("limit %d: the rest is %q", limit, *rest)
		}
	}
}

// A goroutine never gets another value of a key than the others do, and no more keys than the
// limit have one.
func TestTableConcurrently(t *testing.T) {
	const limit, keys = 50, 80
	table := newTable(limit)
	got := make([][keys]*string, 8)
	var wg sync.WaitGroup
	for g := range got {
		wg.Go(func() {
			for i := range keys * 20 {
				k := (i + g*13) % keys
				v := table.Of(fmt.Sprint(k))
				if got[g][k] != nil && got[g][k] != v {
					t.Errorf("%d has two values", k)
				}
				got[g][k] = v
			}
		})
	}
	wg.Wait()
	own := make(map[*string]bool)
	for k := range keys {
		for g := range got {
			if got[g][k] != got[0][k] {
				t.Errorf("%d has several values", k)
			}
			own[got[g][k]] = true
		}
	}
	if len(own) != limit+1 {
		t.Errorf("%d values, want %d and the rest", len(own), limit)
	}
}

func TestTableAllocatesNothing(t *testing.T) {
	table := instruments.NewTable(3, instruments.Other, func(k instruments.Key) *int { return new(int) })
	key := instruments.Key{Model: "gemini-2.5-flash", Provider: "gemini"}
	for range 10 {
		table.Of(key)
	}
	if n := testing.AllocsPerRun(100, func() { table.Of(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTable(b *testing.B) {
	table := instruments.NewTable(10_000, instruments.Other, func(k instruments.Key) *int { return new(int) })
	key := instruments.Key{Model: "gemini-2.5-flash", Provider: "gemini"}
	b.ReportAllocs()
	for b.Loop() {
		table.Of(key)
	}
}
