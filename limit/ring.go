package limit

// record is one charge in a log.
type record struct {
	at   int64
	upto uint64 // units of all charges up to this one, in the order of the log; it may wrap
}

// ring is charges in the order of their instants. It notes sums instead of units, so
// that what it is asked is found by binary search. Entries have numbers from 0, the
// oldest, to n-1.
type ring struct {
	entries []record
	head    int    // the place of the oldest
	n       int    // how many there are
	gone    uint64 // units of all that were forgotten
}

func (r *ring) get(i int) *record {
	if i += r.head; i >= len(r.entries) {
		i -= len(r.entries)
	}
	return &r.entries[i]
}

// before is the units of all charges before the entry i, forgotten ones included.
func (r *ring) before(i int) uint64 {
	if i == 0 {
		return r.gone
	}
	return r.get(i - 1).upto
}

// since is the units of the entry i and all later ones.
func (r *ring) since(i int) int { return int(r.before(r.n) - r.before(i)) }

// after returns the first entry after an instant, n where there is none.
func (r *ring) after(at int64) int {
	low, high := 0, r.n
	for low < high {
		if middle := int(uint(low+high) >> 1); r.get(middle).at > at {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// reaching returns the first entry at which the units from entry i on are at least some,
// which are no more than there are.
func (r *ring) reaching(i, units int) int {
	base := r.before(i)
	low, high := i, r.n-1
	for low < high {
		if middle := int(uint(low+high) >> 1); r.get(middle).upto-base >= uint64(units) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// forget drops the entries before i.
func (r *ring) forget(i int) {
	r.gone = r.before(i)
	r.n -= i
	if r.head += i; r.head >= len(r.entries) {
		r.head -= len(r.entries)
	}
}

// insert puts a charge at its place. There are never more than most.
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

// grow doubles the room for entries, to most at most.
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
