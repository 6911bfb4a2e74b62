package catalog

import (
	"cmp"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// mostRecent bounds the names that a recent remembers.
const mostRecent = 10_000

// recent remembers values by name: those of the 10,000 names that were put last. The zero value
// remembers none. It is not safe for concurrent use.
type recent[V any] struct {
	entries map[string]entry[V]
	last    int // the number of the newest entry
}

// entry is a value, and its place in the order of what was put.
type entry[V any] struct {
	number int
	value  V
}

// Get returns the value of a name.
func (p *recent[V]) Get(name string) (value V, ok bool) {
	e, ok := p.entries[name]
	return e.value, ok
}

// Put makes a value the newest. It forgets the oldest one for which there is no room.
func (p *recent[V]) Put(name string, value V) {
	if p.entries == nil {
		p.entries = make(map[string]entry[V])
	}
	p.last++
	p.entries[name] = entry[V]{p.last, value}
	if len(p.entries) <= mostRecent {
		return
	}
	oldest, least := "", p.last
	for name, e := range p.entries {
		if e.number < least {
			oldest, least = name, e.number
		}
	}
	delete(p.entries, oldest)
}

// Drop forgets the value of a name.
func (p *recent[V]) Drop(name string) { delete(p.entries, name) }

// AppendImage appends the names as bytes, the oldest first, each with its value.
func (p *recent[V]) AppendImage(to []byte, value func(to []byte, v V) []byte) []byte {
	names := make([]string, 0, len(p.entries))
	for name := range p.entries {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(p.entries[a].number, p.entries[b].number) })
	to = wire.AppendUint(to, uint64(len(names)))
	for _, name := range names {
		to = value(wire.AppendString(to, name), p.entries[name].value)
	}
	return to
}

// readRecent reads an image.
func readRecent[V any](r *wire.Reader, value func(r *wire.Reader) V) (p recent[V]) {
	for range r.Count(mostRecent, 1) {
		name := r.String(math.MaxInt)
		if _, twice := p.entries[name]; twice {
			r.Fail("name that was there before")
		}
		v := value(r)
		if r.Err() != nil {
			return recent[V]{}
		}
		p.Put(name, v)
	}
	return p
}
