package ratelimit

import (
	"math"
	"math/bits"
)

const (
	fanBits = 4
	fan     = 1 << fanBits

	// The sum of as many small amounts as a small queue holds does not overflow.
	smallBits  = bits.UintSize - 24 // of each share of a small amount
	smallQueue = 1 << 22
)

// amount is tokens, prompt and output apart. Neither is negative. All sums of
// them saturate at the largest int.
type amount struct{ input, output int }

func addSaturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

func (a amount) plus(b amount) amount {
	return amount{addSaturated(a.input, b.input), addSaturated(a.output, b.output)}
}

// held is a with a total that does not saturate.
func (a amount) held() amount { return amount{a.input, min(a.output, math.MaxInt-a.input)} }

// over is how far a exceeds b, each share apart.
func (a amount) over(b amount) amount {
	return amount{max(a.input-b.input, 0), max(a.output-b.output, 0)}
}

func (a amount) total() int { return addSaturated(a.input, a.output) }

// small reports whether sums of amounts like a need no care.
func (a amount) small() bool { return (a.input|a.output)>>smallBits == 0 }

// saturated reports whether a may stand for more than it says.
func (a amount) saturated() bool { return a.input == math.MaxInt || a.output == math.MaxInt }

// replace returns the sum a after one of its parts changed.
func (a amount) replace(was, is amount) amount {
	return amount{addSaturated(a.input-was.input, is.input), addSaturated(a.output-was.output, is.output)}
}

// share is which tokens of an amount a limit counts.
type share int

const (
	allTokens share = iota
	inputTokens
	outputTokens
)

func (a amount) of(s share) int {
	switch s {
	case inputTokens:
		return a.input
	case outputTokens:
		return a.output
	}
	return a.total()
}

// sums is a queue of amounts that knows the sum of any stretch of itself in
// O(log n): a tree in which every node holds the sum of fan nodes below it.
//
// A wide tree is used in place of a binary one because a push then touches few
// levels, and because the fan neighbours of a node lie in a few cache lines.
type sums struct {
	levels [][]amount // levels[0] are the amounts; the last level has at most fan nodes
	head   int        // levels[0][head:] are live; nodes above may still hold dropped amounts
	total  amount     // the sum of the live amounts
	large  bool       // some sum may have saturated; else none did
}

// fill takes amounts over as the only ones.
func (s *sums) fill(amounts []amount) {
	if len(amounts) > 0 {
		s.rebuild(amounts)
		s.total = s.sum(0, len(amounts))
	}
}

// live returns the amounts that were not dropped.
func (s *sums) live() []amount {
	if len(s.levels) == 0 {
		return nil
	}
	return s.levels[0][s.head:]
}

func (s *sums) push(a amount) {
	if len(s.levels) == 0 {
		s.levels = append(s.levels, make([]amount, 0, minRoom))
	}
	if len(s.levels[0]) == cap(s.levels[0]) {
		s.makeRoom()
	}
	i := len(s.levels[0])
	s.levels[0] = append(s.levels[0], a)
	s.large = s.large || !a.small() || i >= smallQueue
	for k := 1; k < len(s.levels); k++ {
		i >>= fanBits
		level := s.levels[k]
		switch {
		case i == len(level):
			s.levels[k] = append(level, a)
		case s.large:
			level[i] = level[i].plus(a)
		default:
			level[i].input += a.input
			level[i].output += a.output
		}
	}
	if len(s.levels[len(s.levels)-1]) > fan {
		s.raise()
	}
	s.total = s.total.plus(a)
}

// raise adds levels until the topmost has at most fan nodes.
func (s *sums) raise() {
	for {
		below := s.levels[len(s.levels)-1]
		if len(below) <= fan {
			return
		}
		s.levels = append(s.levels, make([]amount, 0, 2*(len(below)/fan+1)))
		s.recount(len(s.levels)-1, 0)
	}
}

// recount makes the nodes of a level anew from those below, the i-th and all
// after it.
func (s *sums) recount(level, i int) {
	nodes, below := s.levels[level][:i], s.levels[level-1]
	for i <<= fanBits; i < len(below); i += fan {
		nodes = append(nodes, sumOf(below[i:min(i+fan, len(below))]))
	}
	s.levels[level] = nodes
}

func sumOf(amounts []amount) (sum amount) {
	for _, a := range amounts {
		sum = sum.plus(a)
	}
	return sum
}

// makeRoom follows timedQueue.makeRoom, and builds the tree anew.
func (s *sums) makeRoom() {
	live := s.levels[0][s.head:]
	if s.head > len(live) {
		s.rebuild(s.levels[0][:copy(s.levels[0], live)])
		return
	}
	s.resize(max(2*len(live), minRoom))
}

func (s *sums) resize(room int) {
	s.rebuild(moved(s.levels[0][s.head:], room))
}

func (s *sums) rebuild(amounts []amount) {
	s.levels = append(s.levels[:0], amounts)
	s.head = 0
	s.large = len(amounts) > smallQueue
	for _, a := range amounts {
		s.large = s.large || !a.small()
	}
	s.raise()
}

// drop removes the n oldest amounts.
func (s *sums) drop(n int) {
	if n == 0 {
		return
	}
	gone := s.sum(s.head, s.head+n)
	s.head += n
	live := len(s.levels[0]) - s.head
	switch {
	case live == 0:
		*s = sums{}
		return
	case s.total.saturated(): // says nothing of the rest
		s.total = s.sum(s.head, len(s.levels[0]))
	default:
		s.total = s.total.replace(gone, amount{})
	}
	if c := cap(s.levels[0]); c > 1024 && live < c/8 {
		s.resize(2 * live)
	}
}

// set replaces the i-th oldest amount in O(log n).
func (s *sums) set(i int, a amount) {
	at := s.head + i
	was := s.levels[0][at]
	s.levels[0][at] = a
	s.large = s.large || !a.small()
	for k := 1; k < len(s.levels); k++ {
		at >>= fanBits
		node := &s.levels[k][at]
		switch {
		case !s.large:
			node.input += a.input - was.input
			node.output += a.output - was.output
		case node.saturated():
			below := s.levels[k-1]
			*node = sumOf(below[at<<fanBits : min((at+1)<<fanBits, len(below))])
		default:
			*node = node.replace(was, a)
		}
	}
	s.retotal(was, a)
}

func (s *sums) retotal(was, is amount) {
	if s.total.saturated() {
		s.total = s.sum(s.head, len(s.levels[0]))
	} else {
		s.total = s.total.replace(was, is)
	}
}

// remove takes the i-th oldest amount out, at the cost of those behind it.
func (s *sums) remove(i int) {
	at := s.head + i
	amounts := s.levels[0]
	was := amounts[at]
	s.levels[0] = append(amounts[:at], amounts[at+1:]...)
	s.recountFrom(at)
	s.retotal(was, amount{})
}

// insert puts an amount before the i-th oldest, at the cost of those behind it.
func (s *sums) insert(i int, a amount) {
	s.push(a)
	at := s.head + i
	amounts := s.levels[0]
	copy(amounts[at+1:], amounts[at:])
	amounts[at] = a
	s.recountFrom(at)
}

func (s *sums) recountFrom(at int) {
	for k := 1; k < len(s.levels); k++ {
		at >>= fanBits
		s.recount(k, at)
	}
}

// sum adds up the amounts at positions i to j, j excluded.
func (s *sums) sum(i, j int) (total amount) {
	for k := 0; ; k++ {
		level := s.levels[k]
		if k == len(s.levels)-1 {
			return total.plus(sumOf(level[i:max(i, j)]))
		}
		for ; i < j && i%fan != 0; i++ {
			total = total.plus(level[i])
		}
		for ; i < j && j%fan != 0; j-- {
			total = total.plus(level[j-1])
		}
		if i >= j {
			return total
		}
		i >>= fanBits
		j >>= fanBits
	}
}

// lastOver returns which live amount, 0 being the oldest, is the last that must
// leave before those behind it sum to at most budget in the given share; -1 when
// the live amounts do already. budget must not be negative.
func (s *sums) lastOver(of share, budget int) int {
	if s.total.of(of) <= budget {
		return -1
	}
	// Down from the top, at every level from the newest node towards the oldest:
	// nodes that fit are taken whole, and the first that does not holds the amount
	// that is looked for. Dropped amounts lie left of every live one, so they are
	// never what makes a node too large while the live ones exceed the budget.
	i := 0
	for k := len(s.levels) - 1; k >= 0; k-- {
		level := s.levels[k]
		i = min((i+1)<<fanBits, len(level)) - 1
		switch of { // outside of the loops, which are what a denial takes
		case inputTokens:
			for ; level[i].input <= budget; i-- {
				budget -= level[i].input
			}
		case outputTokens:
			for ; level[i].output <= budget; i-- {
				budget -= level[i].output
			}
		default:
			for left := uint64(budget); ; i-- { // which holds the sum of any two ints
				n := uint64(level[i].input) + uint64(level[i].output)
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
