package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// names are few, so that a random life meets each of them in many ways. Some are patterns that
// cover each other.
var names = []string{"a", "ab", "abc", "b", "a*", "ab*", "*b", "a*c", "*", "a**", "maker/x", "x"}

var poolNames = []string{"p", "a*", "*", "maker/x", "maker/y"}

// random makes the sayings of a random life.
type random struct{ *rand.Rand }

func (r random) name() string { return names[r.IntN(len(names))] }

func (r random) quota() q {
	is := q{MaxRPM: r.IntN(4), MaxTPM: r.IntN(3)}
	if r.IntN(8) == 0 {
		is = q{MaxRPM: -1, DayZone: "UTC", Burst: -5, AdaptiveFloorRPM: 1, MaxSpendPerDay: 9}
	}
	return is
}

func (r random) quotas() quotas {
	all := make(quotas)
	for range r.IntN(5) {
		all[r.name()] = r.quota()
	}
	return all
}

func (r random) models() []string {
	return slices.Collect(func(yield func(string) bool) {
		for range r.IntN(4) {
			if !yield(r.name()) {
				return
			}
		}
	})
}

func (r random) rows() (rows []catalog.Row) {
	for _, name := range names {
		if r.IntN(3) == 0 {
			rows = append(rows, catalog.Row{Name: name, Group: []string{"", "x", "y"}[r.IntN(3)], Quota: rpm(1 + r.IntN(2))})
		}
	}
	return rows
}

// file is what a catalog of a short life of its own has stored.
func (r random) file() catalog.File {
	c := new(catalog.Catalog)
	for range r.IntN(6) {
		r.step(false)(c)
	}
	f, _ := c.Stored()
	for name := range f.Quotas { // as if a person had edited it
		if r.IntN(8) == 0 {
			f.Quotas[name] = r.quota()
		}
	}
	return f
}

// step is one saying; of a file only where that is wanted.
func (r random) step(files bool) step {
	name, is := r.name(), r.quota()
	p := poolNames[r.IntN(len(poolNames))]
	if r.IntN(4) == 0 {
		name = pool(p)
	}
	switch n := r.IntN(14); {
	case n < 2:
		return program(name, is)
	case n == 2:
		return remove(name)
	case n == 3:
		return account(r.quotas())
	case n == 4:
		return profile(r.rows()...)
	case n == 5:
		return profileBelow(r.rows()...)
	case n < 9:
		return report(name, state.ReportedLimits{state.RPM: {Limit: r.IntN(5)}, state.TPM: {Limit: r.IntN(3)}})
	case n == 9:
		return forget([]string{"", name}[r.IntN(2)])
	case n == 10:
		models := r.models()
		return func(c *catalog.Catalog) []catalog.Change { return c.SetPool(pool(p), models, is) }
	case n == 11:
		return removePool(p)
	case n == 12 && r.IntN(2) == 0:
		return removedByHand(name)
	case n == 12:
		return byHand(name, is)
	case files:
		f, learns := r.file(), r.IntN(2) == 0
		return func(c *catalog.Catalog) []catalog.Change { return c.Loaded(&f, learns) }
	}
	return program(name, is)
}

// cover finds the quota of a name by looking at all.
func cover(all quotas, name string) string {
	if _, own := all[name]; own || state.IsPool(name) {
		return name
	}
	best := "*"
	for pattern := range all {
		longer := best == "*" || len(pattern) > len(best) || len(pattern) == len(best) && pattern < best
		if pattern != "*" && strings.Contains(pattern, "*") && !state.IsPool(pattern) && longer && matches(pattern, name) {
			best = pattern
		}
	}
	return best
}

func matches(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		return matches(pattern[1:], name) || name != "" && matches(pattern, name[1:])
	}
	return name != "" && name[0] == pattern[0] && matches(pattern[1:], name[1:])
}

// A witness follows the quotas by what the sayings tell, and nothing else.
type witness quotas

func (w witness) see(changes []catalog.Change) error {
	for _, change := range changes {
		if is, has := w[change.Name]; is != change.Was || has != change.Had {
			return fmt.Errorf("%q had %+v, %t, and is told to have had %+v, %t", change.Name, is, has, change.Was, change.Had)
		}
		if delete(w, change.Name); change.Has {
			w[change.Name] = change.Is
		}
	}
	return nil
}

// check compares all answers of a catalog with those that are found by looking at everything.
func (w witness) check(t *testing.T, c *catalog.Catalog) {
	t.Helper()
	asked := slices.Concat(names, []string{"abcb", "", "zz"})
	for _, name := range poolNames {
		asked = append(asked, pool(name))
	}
	for _, name := range asked {
		want := cover(quotas(w), name)
		is, has := w[want]
		if quota, q, ok := c.Cover(name); quota != want || q != is || ok != has {
			t.Fatalf("%q is covered by %q, %+v, %t, want %q, %+v, %t", name, quota, q, ok, want, is, has)
		}
	}
	for i, counted := range asked {
		also := asked[(i*5+3)%len(asked)]
		var want []string
		named := false
		for _, name := range c.PoolNames() {
			p, _ := c.Pool(name)
			in := false
			for _, model := range p.Members {
				in = in || matches(model, counted) || matches(model, also)
				named = named || !p.Provided && model != "*" && (matches(model, counted) || matches(model, also))
			}
			// Which quota a profile has said is for the tables: TestProvidedPools.
			if p.Provided {
				in = slices.Contains(c.Pools(counted, counted), name)
			}
			if in {
				want = append(want, name)
			}
		}
		if got := c.Pools(counted, also); !slices.Equal(got, want) {
			t.Fatalf("%q, asked for as %q, is in %q, want %q", counted, also, got, want)
		}
		if got := c.NamesModel(counted, also); got != named {
			t.Fatalf("%q, asked for as %q, is named: %t", counted, also, got)
		}
	}
}

// Random lives. A catalog that is asked all the time answers as somebody who looks at everything.
// One that is never asked, and one that is read from an image now and then, have the same bytes.
func TestRandomLives(t *testing.T) {
	lives := 150
	if testing.Short() {
		lives = 50
	}
	for seed := range uint64(lives) {
		r := random{rand.New(rand.NewPCG(seed, 0))}
		asked, quiet, w := new(catalog.Catalog), new(catalog.Catalog), make(witness)
		again := new(catalog.Catalog)
		for range 60 {
			do := r.step(true)
			changes := do(asked)
			if err := w.see(changes); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if got := do(quiet); !slices.Equal(got, changes) {
				t.Fatalf("seed %d: the quiet one says %+v, the other %+v", seed, got, changes)
			}
			if got := do(again); !slices.Equal(got, changes) {
				t.Fatalf("seed %d: the one from an image says %+v, the other %+v", seed, got, changes)
			}
			w.check(t, asked)
			if want := image(asked); image(quiet) != want || image(again) != want {
				t.Fatalf("seed %d: the images differ", seed)
			}
			if r.IntN(4) == 0 {
				again = reread(t, again)
				w.check(t, again)
			}
		}
	}
}

// Readers may ask beside each other.
func TestReadersBesideEachOther(t *testing.T) {
	c := after(program("a*", rpm(1)), profile(group...), setPool("p", "a*"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, name := range names {
				c.Cover(name)
				c.Pools(name, name)
				c.Pools(name, "abc")
				c.NamesModel(name, name)
				c.AppendImage(nil)
				c.Stored()
				c.Lesson(name, &state.ReportedLimits{state.RPM: {Limit: 3}}, 9)
				c.Reports(name, name, state.ReportedLimits{state.RPM: {Limit: 3}})
			}
		})
	}
	all.Wait()
}
