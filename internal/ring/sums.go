package ring

import (
	"math"
	"math/bits"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

const (
	fanBits = 4
	fan     = 1 << fanBits

	// The place of the oldest count is known modulo period: as many counts never live at a time,
	// and it is a multiple of the counts below a node of any level.
	period = 1 << (bits.UintSize - fanBits)
)

// Sums is a queue of token counts that knows the sum of any stretch of itself in O(log n): a tree
// in which every node holds the sum of the fan nodes below it. Positions count from the oldest live
// count, which has position 0. Counts must not be negative; sums saturate at the largest int.
//
// A wide tree is used in place of a binary one because a push then touches few levels, and because
// the fan neighbours of a node lie in a few cache lines. There is a node only where all fan nodes
// below it were pushed, so that most pushes, and changes of new counts, touch no node at all. Nodes
// keep their place in the tree as counts come and leave, so none is ever worked out again but by
// Set, Insert and Remove.
//
// The zero Sums is empty. It is not safe for concurrent use.
type Sums struct {
	// levels[0] are the live counts, levels[k] the nodes above any of them. The topmost has fewer
	// than 2*fan nodes. The first node of a level may be above counts that were dropped.
	levels []row[state.Count]
	head   int         // the place of the oldest live count among all ever pushed
	total  state.Count // the sum of the live counts
}

// Len returns the number of live counts.
func (s *Sums) Len() int {
	if len(s.levels) == 0 {
		return 0
	}
	return s.levels[0].len()
}

// Total returns the sum of the live counts.
func (s *Sums) Total() state.Count { return s.total }

// Values returns the live counts, oldest first. They are valid until the next call that changes
// them, and must not be written to.
func (s *Sums) Values() []state.Count {
	if len(s.levels) == 0 {
		return nil
	}
	return s.levels[0].live()
}

// first returns the place of the first node of level k among all nodes of that level.
func (s *Sums) first(k int) int { return s.head >> (fanBits * k) }

// Fill makes copies of counts those of an empty queue, with room for as many again.
func (s *Sums) Fill(counts []state.Count) {
	if len(counts) == 0 {
		return
	}
	s.levels = make([]row[state.Count], 1)
	s.levels[0].fill(append(Room[state.Count](roomFor(len(counts))), counts...))
	s.raise()
	s.total = s.sum(0, len(counts))
}

// Push adds a count.
func (s *Sums) Push(c state.Count) {
	if len(s.levels) == 0 {
		s.levels = make([]row[state.Count], 1)
	}
	counts := &s.levels[0]
	counts.push(c)
	s.total = s.total.Plus(c)
	if (s.head+counts.len())%fan == 0 {
		s.grow()
	}
}

// grow adds the nodes that the newest count completes.
func (s *Sums) grow() {
	for k := 1; k < len(s.levels); k++ {
		level := &s.levels[k]
		i := level.len()
		if (s.first(k)+i+1)<<fanBits > s.first(k-1)+s.levels[k-1].len() {
			return
		}
		level.push(s.node(k, i))
	}
	s.raise()
}

// raise adds levels until the topmost has few nodes.
func (s *Sums) raise() {
	for k := len(s.levels); s.levels[k-1].len() > fan; k++ {
		s.levels = append(s.levels, row[state.Count]{})
		s.recount(k, 0)
	}
}

// lower removes levels that are hardly needed any more. They are needed again when there are twice
// as many nodes, which does not happen soon.
func (s *Sums) lower() {
	for k := len(s.levels) - 1; k > 0 && s.levels[k-1].len() <= fan/2; k-- {
		s.levels[k] = row[state.Count]{}
		s.levels = s.levels[:k]
	}
}

// node works out the i-th node of level k from the nodes below it.
func (s *Sums) node(k, i int) state.Count {
	from := (s.first(k)+i)<<fanBits - s.first(k-1)
	return state.SumCounts(s.levels[k-1].live()[max(from, 0) : from+fan])
}

// recount works out the nodes of level k anew, from the i-th on.
func (s *Sums) recount(k, i int) {
	level := &s.levels[k]
	end := (s.first(k-1)+s.levels[k-1].len())>>fanBits - s.first(k)
	for level.len() > end {
		level.remove(level.len() - 1)
	}
	for ; i < end; i++ {
		if c := s.node(k, i); i < level.len() {
			level.set(i, c)
		} else {
			level.push(c)
		}
	}
}

// recountFrom works out all nodes anew that are above the i-th oldest count or a later one.
func (s *Sums) recountFrom(i int) {
	for k, at := 1, s.head+i; k < len(s.levels); k++ {
		at >>= fanBits
		s.recount(k, at-s.first(k))
	}
}

// Drop removes the n oldest counts.
func (s *Sums) Drop(n int) {
	live := s.Len() - n
	switch {
	case n == 0:
		return
	case live == 0:
		*s = Sums{}
		return
	}
	gone := s.levels[0].live()[0]
	if n > 1 {
		gone = s.sum(0, n)
	}
	was, is := s.head, s.head+n
	s.head = is & (period - 1)
	for k := 0; k < len(s.levels) && was < is; k++ {
		if level := &s.levels[k]; is-was < level.len() {
			level.drop(is - was)
		} else {
			level.clear()
		}
		was, is = was>>fanBits, is>>fanBits
	}
	s.lower()
	s.retotal(gone, state.Count{})
}

// Set replaces the i-th oldest count in O(log n).
func (s *Sums) Set(i int, c state.Count) {
	counts := &s.levels[0]
	was := *counts.at(i)
	counts.set(i, c)
	for k, at := 1, s.head+i; k < len(s.levels); k++ {
		at >>= fanBits
		i := at - s.first(k)
		if i >= s.levels[k].len() {
			break
		}
		if node := s.levels[k].live()[i]; node.Saturated() {
			s.levels[k].set(i, s.node(k, i))
		} else {
			s.levels[k].set(i, node.Replace(was, c))
		}
	}
	s.retotal(was, c)
}

// retotal follows a change of a part of the total. A saturated total says nothing of the rest.
func (s *Sums) retotal(was, is state.Count) {
	if s.total.Saturated() {
		s.total = s.sum(0, s.Len())
	} else {
		s.total = s.total.Replace(was, is)
	}
}

// Remove takes the i-th oldest count out, at the cost of those behind it.
func (s *Sums) Remove(i int) {
	was := s.levels[0].live()[i]
	s.levels[0].remove(i)
	s.recountFrom(i)
	s.retotal(was, state.Count{})
}

// Insert puts a count before the i-th oldest, at the cost of those behind it.
func (s *Sums) Insert(i int, c state.Count) {
	s.Push(c)
	s.levels[0].bringForward(i)
	s.recountFrom(i)
}

// Sum adds up the counts at positions i to j, j excluded.
func (s *Sums) Sum(i, j int) state.Count {
	if i >= j {
		return state.Count{}
	}
	return s.sum(i, j)
}

func (s *Sums) sum(i, j int) (total state.Count) {
	first := s.head
	i, j = first+i, first+j
	for k := 0; ; k++ {
		level := s.levels[k].live()
		if k == len(s.levels)-1 {
			return total.Plus(state.SumCounts(level[i-first : max(i, j)-first]))
		}
		for ; i < j && i%fan != 0; i++ {
			total = total.Plus(level[i-first])
		}
		for ; i < j && j%fan != 0; j-- {
			total = total.Plus(level[j-1-first])
		}
		if i >= j {
			return total
		}
		i, j, first = i>>fanBits, j>>fanBits, first>>fanBits
	}
}

// LastOver returns the position of the last count that must leave before those behind it sum to at
// most budget tokens of the given kind; -1 when the live counts do already. budget must not be
// negative.
func (s *Sums) LastOver(of state.TokenKind, budget int) int {
	total := s.total.Of(of)
	switch {
	case total <= budget:
		return -1
	case total-budget <= budget && total < math.MaxInt: // a saturated total does not say how much must leave
		return s.leave(newSeek(of, total-budget))
	}
	return s.stay(newSeek(of, budget))
}

// stay looks for LastOver from the newest count towards the oldest, and up where all nodes below
// the next one fit, until a node does not. The count lies below that. Dropped counts lie left of
// every live one, so they never make a node too large while the live ones exceed the budget.
func (s *Sums) stay(seek seek) int {
	k, end, first := 0, s.Len(), s.head
	for ; k < len(s.levels)-1; k++ {
		from := max((first+end)&^(fan-1)-first, 0)
		if end = seek.back(s.levels[k].live(), from, end); end > from {
			break
		}
		end, first = (first+end)>>fanBits-first>>fanBits, first>>fanBits
	}
	if k == len(s.levels)-1 {
		end = seek.back(s.levels[k].live(), 0, end)
	}
	for ; k > 0; k-- {
		end = (s.first(k)+end)<<fanBits - s.first(k-1)
		end = seek.back(s.levels[k-1].live(), max(end-fan, 0), end)
	}
	return end - 1
}

// leave looks for LastOver from the oldest count towards the newest, where what must leave is known
// and no more than what stays: a request that is denied mostly waits for the next few counts. It
// goes up to a node above live counts alone, and down where that is enough, or there is none.
func (s *Sums) leave(seek seek) int {
	k, at := 0, s.head
	for ; k < len(s.levels)-1; k++ {
		first := s.first(k)
		end := (at + fan - 1) &^ (fan - 1)
		if end-first > s.levels[k].len() {
			break
		}
		if at = first + seek.on(s.levels[k].live(), at-first, end-first); at < end {
			break
		}
		at >>= fanBits
	}
	for ; ; k-- {
		first := s.first(k)
		if at = seek.on(s.levels[k].live(), at-first, s.levels[k].len()); k == 0 {
			return at
		}
		at = (first + at) << fanBits
	}
}

// seek goes over nodes as long as they fit a budget.
type seek struct {
	left          uint64 // of the budget; it holds the sum of any two ints
	input, output uint64 // masks of the tokens that are counted
}

func newSeek(of state.TokenKind, budget int) seek {
	switch of {
	case state.InputTokens:
		return seek{uint64(budget), math.MaxUint64, 0}
	case state.OutputTokens:
		return seek{uint64(budget), 0, math.MaxUint64}
	default:
		return seek{uint64(budget), math.MaxUint64, math.MaxUint64}
	}
}

// back takes nodes from end back to those before from. It returns the place where it stopped,
// behind a node that does not fit or at from.
func (s *seek) back(nodes []state.Count, from, end int) int {
	nodes = nodes[from:end]
	left, input, output := s.left, s.input, s.output
	i := len(nodes) - 1
	for ; i >= 0; i-- {
		n := uint64(nodes[i].Input)&input + uint64(nodes[i].Output)&output
		if n > left {
			break
		}
		left -= n
	}
	s.left = left
	return from + i + 1
}

// on takes nodes from one on to those before end, as long as something is left. It returns the
// place where it stopped, at the node that takes the rest or at end.
func (s *seek) on(nodes []state.Count, from, end int) int {
	nodes = nodes[from:end]
	left, input, output := s.left, s.input, s.output
	i := 0
	for ; i < len(nodes); i++ {
		n := uint64(nodes[i].Input)&input + uint64(nodes[i].Output)&output
		if n >= left {
			break
		}
		left -= n
	}
	s.left = left
	return from + i
}
