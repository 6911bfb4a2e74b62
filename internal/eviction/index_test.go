package eviction

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	span  = int64(time.Minute)
	ahead = int64(1000 * time.Hour) // of the wall clock
)

// fixture is an index, and what it is to know.
type fixture struct {
	Index
	now    int64
	models map[string]*Model
	uses   map[string]Use
	looked int
}

func newFixture() *fixture {
	return &fixture{models: make(map[string]*Model), uses: make(map[string]Use)}
}

func (f *fixture) look(beside ...string) *Look {
	return &Look{
		Instant: f.now, UnixNano: f.now + ahead, Span: span,
		Reorder: f.reorder,
		Beside:  func(name string) bool { return slices.Contains(beside, name) },
	}
}

func (f *fixture) reorder(m *Model, instant int64) {
	f.looked++
	if use, ok := f.uses[m.Name]; ok {
		f.Order(m, use, instant, instant+ahead)
	} else {
		m.Leave()
	}
}

// idleAt returns the instant from which on a model is idle by its use.
func (f *fixture) idleAt(name string) int64 {
	use := f.uses[name]
	if use.DayEnd != 0 && use.IdleAt != Never {
		return max(use.IdleAt, use.DayEnd-ahead)
	}
	return use.IdleAt
}

func (f *fixture) check(t *testing.T) {
	t.Helper()
	for _, q := range []*Queue[*Model]{&f.busy, &f.daily, &f.idle} {
		check(t, q)
	}
	if f.Len() != len(f.models) {
		t.Fatalf("%d models, want %d", f.Len(), len(f.models))
	}
	for name, m := range f.models {
		if !m.queue.Contains(m) {
			t.Fatalf("%s is not in its queue", name)
		}
		if due := f.DueAt(m, f.look()); due > max(f.idleAt(name), f.now) {
			t.Fatalf("%s is idle at %d, and looked at at %d (now %d)", name, f.idleAt(name), due, f.now)
		}
	}
}

// idleModels returns the idle models that may go, the least recently used one first.
func (f *fixture) idleModels(beside ...string) (names []string) {
	for name := range f.models {
		if f.idleAt(name) <= f.now && !slices.Contains(beside, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(f.uses[a].LastAt, f.uses[b].LastAt) })
	return names
}

func TestIndexAgreesWithALookAtAll(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, rand.New(rand.NewPCG(seed, 5))) })
	}
}

func play(t *testing.T, random *rand.Rand) {
	f := newFixture()
	for range 300 {
		name := string(rune('a' + random.IntN(8)))
		m, known := f.models[name]
		switch random.IntN(7) {
		case 0:
			f.now += random.Int64N(int64(30 * time.Second))
		case 1: // a use
			use := Use{LastAt: f.now, IdleAt: f.now + span + 1, DayEnd: f.uses[name].DayEnd}
			if random.IntN(4) == 0 && use.DayEnd == 0 {
				use.DayEnd = f.now + ahead + random.Int64N(int64(5*time.Minute))
			}
			was := f.idleAt(name)
			f.uses[name] = use
			if known {
				f.Used(m, use.IdleAt)
				if f.idleAt(name) < was {
					f.Ease(m, use) // a call ended
				}
				break
			}
			f.models[name] = &Model{Name: name}
			f.AddIdle(f.models[name], f.now)
		case 2: // nothing counts any more
			if known {
				f.uses[name] = Use{LastAt: f.uses[name].LastAt, IdleAt: math.MinInt64}
				f.Ease(m, f.uses[name])
			}
		case 3: // a call begins, which only an event ends
			if known {
				f.uses[name] = Use{LastAt: f.now, IdleAt: Never}
				f.Used(m, f.now+span+1)
			}
		case 4:
			if known {
				m.Leave()
				delete(f.models, name)
				delete(f.uses, name)
			}
		case 5:
			if got, want := f.Idlest(f.look()), f.idleModels(); (got == nil) != (len(want) == 0) || got != nil && (!slices.Contains(want, got.Name) || f.uses[got.Name].LastAt != f.uses[want[0]].LastAt) {
				t.Fatalf("the idlest is %+v, want one used as long ago as the first of %v", got, want)
			}
		case 6:
			n := 1 + random.IntN(3)
			places, want := f.Places(n, f.look(name)), f.idleModels(name)
			if places != min(n, len(want)) {
				t.Fatalf("%d places, want %d of %v", places, n, want)
			}
			if f.Idlest(f.look()) != nil {
				break
			}
			var ends []int64
			for other := range f.models {
				if at := f.idleAt(other); other != name && at != Never {
					ends = append(ends, at)
				}
			}
			slices.Sort(ends)
			at := Never
			if len(ends) >= n {
				at = ends[n-1]
			}
			if got := f.PlaceAt(n, f.look(name)); got != at {
				t.Fatalf("place %d is at %d, want %d", n, got, at)
			}
		}
		f.check(t)
	}
}

func TestIndexLooksAtFewModels(t *testing.T) {
	f := newFixture()
	for i := range 10_000 {
		name := fmt.Sprint(i)
		f.models[name], f.uses[name] = &Model{Name: name}, Use{IdleAt: span + 1}
		f.Order(f.models[name], f.uses[name], 0, ahead)
	}
	for range 3 {
		f.looked = 0
		if n, at := f.Places(2, f.look()), f.PlaceAt(2, f.look()); n != 0 || at != span+1 || f.looked > 4 {
			t.Errorf("%d places, the next two at %d, after a look at %d models", n, at, f.looked)
		}
	}
	if f.now = time.Hour.Nanoseconds(); f.Idlest(f.look()) == nil {
		t.Error("none is idle after an hour")
	}
	for range 3 {
		f.looked = 0
		if n := f.Places(2, f.look()); n != 2 || f.looked > 4 {
			t.Errorf("%d places after a look at %d models", n, f.looked)
		}
	}
}

func TestModelThatIsForgottenLeaves(t *testing.T) {
	f := newFixture()
	f.AddIdle(&Model{Name: "gone"}, 1)
	f.AddBusy(&Model{Name: "gone, too"}, 2)
	f.now = 5
	if m := f.Idlest(f.look()); m != nil || f.Len() != 0 {
		t.Errorf("%+v is idle, of %d", m, f.Len())
	}
	m := &Model{Name: "m"}
	if m.Leave(); f.DueAt(m, f.look()) != Never {
		t.Error("a model in no index has a bound")
	}
}

func BenchmarkPlaces(b *testing.B) {
	f := newFixture()
	for i := range 1000 {
		name := fmt.Sprint(i)
		f.models[name], f.uses[name] = &Model{Name: name}, Use{IdleAt: math.MinInt64, LastAt: int64(i)}
		f.AddIdle(f.models[name], int64(i))
	}
	look := f.look()
	b.ReportAllocs()
	for b.Loop() {
		f.Places(1, look)
	}
}
