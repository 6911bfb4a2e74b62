package limit

import "sort"

// record is one charge in a log.
type record struct {
	at   int64
	upto uint64 // units of all charges up to this one, in the order of the log; may wrap
}

// ring is charges in the order of their instants. It keeps running sums instead of units,
// so that every question is a binary search. Entries have indexes from 0, the oldest, to
// n-1.
type ring struct {
	entries []record
	head    int    // where the oldest is in entries
	n       int    // number of charges
	gone    uint64 // units of all forgotten charges
}

func (r *ring) get(i int) *record {
	if i += r.head; i >= len(r.entries) {
		i -= len(r.entries)
	}
	return &r.entries[i]
}

// before returns the units of all charges before entry i, forgotten ones included.
func (r *ring) before(i int) uint64 {
	if i == 0 {
		return r.gone
	}
	return r.get(i - 1).upto
}

// since returns the units of entry i and all later ones.
func (r *ring) since(i int) int { return int(r.before(r.n) - r.before(i)) }

// after returns the first entry after an instant, n if there is none.
func (r *ring) after(at int64) int {
	return sort.Search(r.n, func(i int) bool { return r.get(i).at > at })
}

// reaching returns the first entry by which the units from entry i on sum to at least
// units; they must sum to that in all.
func (r *ring) reaching(i, units int) int {
	base := r.before(i)
	return i + sort.Search(r.n-1-i, func(j int) bool { return r.get(i+j).upto-base >= uint64(units) })
}

// forget drops the entries before i.
func (r *ring) forget(i int) {
	r.gone = r.before(i)
	r.n -= i
	if r.head += i; r.head >= len(r.entries) {
		r.head -= len(r.entries)
	}
}

// insert puts a charge into its place. There are never more than most charges.
func (r *ring) insert(at int64, units, most int) {
	if r.n == len(r.entries) {
		r.grow(most)
	}
	i := r.n
	r.n++
	for ; i > 0 && r.get(i-1).at > at; i-- {
		e := *r.get(i - 1)
		e.upto += uint64(units)
		*r.get(i) = e
	}
	*r.get(i) = record{at, r.before(i) + uint64(units)}
}

// grow doubles the room for entries, up to most.
func (r *ring) grow(most int) {
	size := most
	if len(r.entries) < most/2 {
		size = 2 * len(r.entries)
	}
	entries := make([]record, size)
	m := copy(entries, r.entries[r.head:])
	copy(entries[m:], r.entries[:r.head])
	r.entries, r.head = entries, 0
}
