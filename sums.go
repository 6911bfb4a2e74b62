package ratelimit

import "math"

const (
	fanBits = 5
	fan     = 1 << fanBits
)

// sums is a queue of counts that knows the sum of any stretch of itself in
// O(log n): a tree in which every node holds the sum of fan nodes below it.
// Counts are never negative and every sum saturates at the largest int.
//
// A wide tree is used in place of a binary one because a push then touches few
// levels, and because the fan neighbours of a node lie in a few cache lines.
type sums struct {
	levels [][]int // levels[0] are the counts; the last level has at most fan nodes
	head   int     // levels[0][head:] are live; nodes above may still hold dropped counts
	total  int     // the sum of the live counts
}

func addSaturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// fill takes counts over as the only ones.
func (s *sums) fill(counts []int) {
	if len(counts) > 0 {
		s.rebuild(counts)
		s.total = s.sum(0, len(counts))
	}
}

func (s *sums) push(count int) {
	if len(s.levels) == 0 {
		s.levels = append(s.levels, make([]int, 0, minRoom))
	}
	if len(s.levels[0]) == cap(s.levels[0]) {
		s.makeRoom()
	}
	i := len(s.levels[0])
	s.levels[0] = append(s.levels[0], count)
	for k := 1; k < len(s.levels); k++ {
		i >>= fanBits
		if level := s.levels[k]; i < len(level) {
			level[i] = addSaturated(level[i], count)
		} else {
			s.levels[k] = append(level, count)
		}
	}
	if len(s.levels[len(s.levels)-1]) > fan {
		s.raise()
	}
	s.total = addSaturated(s.total, count)
}

// raise adds levels until the topmost has at most fan nodes.
func (s *sums) raise() {
	for {
		below := s.levels[len(s.levels)-1]
		if len(below) <= fan {
			return
		}
		level := make([]int, 0, 2*(len(below)/fan+1))
		for i, v := range below {
			if i%fan == 0 {
				level = append(level, 0)
			}
			level[len(level)-1] = addSaturated(level[len(level)-1], v)
		}
		s.levels = append(s.levels, level)
	}
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

func (s *sums) rebuild(counts []int) {
	s.levels = append(s.levels[:0], counts)
	s.head = 0
	s.raise()
}

// drop removes the n oldest counts.
func (s *sums) drop(n int) {
	if n == 0 {
		return
	}
	gone := s.sum(s.head, s.head+n)
	s.head += n
	counts := s.levels[0]
	live := len(counts) - s.head
	switch {
	case live == 0:
		*s = sums{}
	case s.total == math.MaxInt: // a saturated total says nothing of the rest
		s.total = s.sum(s.head, len(counts))
	default:
		s.total -= gone
	}
	if live > 0 && cap(counts) > 1024 && live < cap(counts)/8 {
		s.resize(2 * live)
	}
}

// sum adds up the counts at positions i to j, j excluded.
func (s *sums) sum(i, j int) int {
	total := 0
	for k := 0; ; k++ {
		level := s.levels[k]
		if k == len(s.levels)-1 {
			for ; i < j; i++ {
				total = addSaturated(total, level[i])
			}
			return total
		}
		for ; i < j && i%fan != 0; i++ {
			total = addSaturated(total, level[i])
		}
		for ; i < j && j%fan != 0; j-- {
			total = addSaturated(total, level[j-1])
		}
		if i >= j {
			return total
		}
		i >>= fanBits
		j >>= fanBits
	}
}

// lastOver returns which live count, 0 being the oldest, is the last that must
// leave before those behind it sum to at most budget; -1 when the live counts
// do already. budget must not be negative.
func (s *sums) lastOver(budget int) int {
	if s.total <= budget {
		return -1
	}
	// Down from the top, at every level from the newest node towards the oldest:
	// nodes that fit are taken whole, and the first that does not holds the count
	// that is looked for. Dropped counts lie left of every live one, so they are
	// never what makes a node too large while the live counts exceed the budget.
	i := 0
	for k := len(s.levels) - 1; k >= 0; k-- {
		level := s.levels[k]
		i = min((i+1)<<fanBits, len(level)) - 1
		for level[i] <= budget {
			budget -= level[i]
			i--
		}
	}
	return i - s.head
}
