package ring

import "dappco.re/go/core/go-ratelimit/internal/tokens"

const (
	fanBits = 4
	fan     = 1 << fanBits
)

// Sums is a queue of token counts that knows the sum of any stretch of itself in O(log n): a tree
// in which every node holds the sum of fan nodes below it. Positions count from the oldest live
// count, which has position 0. Counts must not be negative; sums saturate at the largest int.
//
// A wide tree is used in place of a binary one because a push then touches few levels, and because
// the fan neighbours of a node lie in a few cache lines.
//
// The zero Sums is empty. It is not safe for concurrent use.
type Sums struct {
	levels [][]tokens.Count // levels[0] are the counts; the last level has at most fan nodes
	head   int              // levels[0][head:] are live; nodes above may still hold dropped counts
	total  tokens.Count     // the sum of the live counts
	large  bool             // some sum may have saturated; else none did
}

// Total returns the sum of the live counts.
func (s *Sums) Total() tokens.Count { return s.total }

// Fill makes copies of counts those of an empty queue, with room for as many again.
func (s *Sums) Fill(counts []tokens.Count) {
	if n := len(counts); n > 0 {
		s.rebuild(moved(counts, max(2*n, minRoom)))
		s.total = s.sum(0, n)
	}
}

// Values returns the live counts, oldest first. They are valid until the next call that changes
// them, and must not be written to.
func (s *Sums) Values() []tokens.Count {
	if len(s.levels) == 0 {
		return nil
	}
	return s.levels[0][s.head:]
}

// Push adds a count.
func (s *Sums) Push(c tokens.Count) {
	if len(s.levels) == 0 {
		s.levels = append(s.levels, make([]tokens.Count, 0, minRoom))
	}
	if len(s.levels[0]) == cap(s.levels[0]) {
		s.makeRoom()
	}
	i := len(s.levels[0])
	s.levels[0] = append(s.levels[0], c)
	s.large = s.large || !c.Small() || i >= tokens.SmallSum
	for k := 1; k < len(s.levels); k++ {
		i >>= fanBits
		level := s.levels[k]
		switch {
		case i == len(level):
			s.levels[k] = append(level, c)
		case s.large:
			level[i] = level[i].Plus(c)
		default:
			level[i].Input += c.Input
			level[i].Output += c.Output
		}
	}
	if len(s.levels[len(s.levels)-1]) > fan {
		s.raise()
	}
	s.total = s.total.Plus(c)
}

// raise adds levels until the topmost has at most fan nodes.
func (s *Sums) raise() {
	for {
		below := s.levels[len(s.levels)-1]
		if len(below) <= fan {
			return
		}
		s.levels = append(s.levels, make([]tokens.Count, 0, 2*(len(below)/fan+1)))
		s.recount(len(s.levels)-1, 0)
	}
}

// recount makes the nodes of a level anew from those below, the i-th and all
// after it.
func (s *Sums) recount(level, i int) {
	nodes, below := s.levels[level][:i], s.levels[level-1]
	for i <<= fanBits; i < len(below); i += fan {
		nodes = append(nodes, tokens.Sum(below[i:min(i+fan, len(below))]))
	}
	s.levels[level] = nodes
}

// makeRoom follows Queue.makeRoom, and builds the tree anew.
func (s *Sums) makeRoom() {
	live := s.levels[0][s.head:]
	if s.head > len(live) {
		s.rebuild(s.levels[0][:copy(s.levels[0], live)])
		return
	}
	s.resize(max(2*len(live), minRoom))
}

func (s *Sums) resize(room int) {
	s.rebuild(moved(s.levels[0][s.head:], room))
}

func (s *Sums) rebuild(counts []tokens.Count) {
	s.levels = append(s.levels[:0], counts)
	s.head = 0
	s.large = len(counts) > tokens.SmallSum
	for _, c := range counts {
		s.large = s.large || !c.Small()
	}
	s.raise()
}

// Drop removes the n oldest counts.
func (s *Sums) Drop(n int) {
	if n == 0 {
		return
	}
	gone := s.sum(s.head, s.head+n)
	s.head += n
	live := len(s.levels[0]) - s.head
	switch {
	case live == 0:
		*s = Sums{}
		return
	case s.total.Saturated(): // says nothing of the rest
		s.total = s.sum(s.head, len(s.levels[0]))
	default:
		s.total = s.total.Replace(gone, tokens.Count{})
	}
	if c := cap(s.levels[0]); c > 1024 && live < c/8 {
		s.resize(2 * live)
	}
}

// Set replaces the i-th oldest count in O(log n).
func (s *Sums) Set(i int, c tokens.Count) {
	at := s.head + i
	was := s.levels[0][at]
	s.levels[0][at] = c
	s.large = s.large || !c.Small()
	for k := 1; k < len(s.levels); k++ {
		at >>= fanBits
		node := &s.levels[k][at]
		switch {
		case !s.large:
			node.Input += c.Input - was.Input
			node.Output += c.Output - was.Output
		case node.Saturated():
			below := s.levels[k-1]
			*node = tokens.Sum(below[at<<fanBits : min((at+1)<<fanBits, len(below))])
		default:
			*node = node.Replace(was, c)
		}
	}
	s.retotal(was, c)
}

func (s *Sums) retotal(was, is tokens.Count) {
	if s.total.Saturated() {
		s.total = s.sum(s.head, len(s.levels[0]))
	} else {
		s.total = s.total.Replace(was, is)
	}
}

// Remove takes the i-th oldest count out, at the cost of those behind it.
func (s *Sums) Remove(i int) {
	at := s.head + i
	counts := s.levels[0]
	was := counts[at]
	s.levels[0] = append(counts[:at], counts[at+1:]...)
	s.recountFrom(at)
	s.retotal(was, tokens.Count{})
}

// Insert puts a count before the i-th oldest, at the cost of those behind it.
func (s *Sums) Insert(i int, c tokens.Count) {
	s.Push(c)
	at := s.head + i
	counts := s.levels[0]
	copy(counts[at+1:], counts[at:])
	counts[at] = c
	s.recountFrom(at)
}

func (s *Sums) recountFrom(at int) {
	for k := 1; k < len(s.levels); k++ {
		at >>= fanBits
		s.recount(k, at)
	}
}

// Sum adds up the counts at positions i to j, j excluded.
func (s *Sums) Sum(i, j int) tokens.Count {
	if i >= j {
		return tokens.Count{}
	}
	return s.sum(s.head+i, s.head+j)
}

// sum adds up the counts at i to j in levels[0], j excluded.
func (s *Sums) sum(i, j int) (total tokens.Count) {
	for k := 0; ; k++ {
		level := s.levels[k]
		if k == len(s.levels)-1 {
			return total.Plus(tokens.Sum(level[i:max(i, j)]))
		}
		for ; i < j && i%fan != 0; i++ {
			total = total.Plus(level[i])
		}
		for ; i < j && j%fan != 0; j-- {
			total = total.Plus(level[j-1])
		}
		if i >= j {
			return total
		}
		i >>= fanBits
		j >>= fanBits
	}
}

// LastOver returns the position of the last count that must leave before those behind it sum to at
// most budget tokens of the given kind; -1 when the live counts do already. budget must not be
// negative.
func (s *Sums) LastOver(of tokens.Kind, budget int) int {
	if s.total.Of(of) <= budget {
		return -1
	}
	// Down from the top, at every level from the newest node towards the oldest: nodes that fit are
	// taken whole, and the first that does not holds the count that is looked for. Dropped counts
	// lie left of every live one, so they are never the reason that a node is too large while the
	// live ones exceed the budget.
	i := 0
	for k := len(s.levels) - 1; k >= 0; k-- {
		level := s.levels[k]
		i = min((i+1)<<fanBits, len(level)) - 1
		switch of { // outside of the loops, which are what a denial takes
		case tokens.Input:
			for ; level[i].Input <= budget; i-- {
				budget -= level[i].Input
			}
		case tokens.Output:
			for ; level[i].Output <= budget; i-- {
				budget -= level[i].Output
			}
		default:
			for left := uint64(budget); ; i-- { // which holds the sum of any two ints
				n := uint64(level[i].Input) + uint64(level[i].Output)
				if n > left {
					budget = int(left)
					break
				}
				left -= n
			}
		}
	}
	return i - s.head
}
