package lines

import "dappco.re/go/core/go-ratelimit/internal/account"

// WaitingByClass returns how many wait for an account, of each class of which some do; nil where
// nobody waits, or there are no classes.
func (l *Lines) WaitingByClass(a *account.Account) map[string]int {
	g := l.of[a]
	if g == nil || g.queue.Len() == 0 || len(l.classes) == 0 {
		return nil
	}
	return g.queue.ByClass()
}

// First returns those who wait for an account, and no more than so many: the one that is served
// next, where one is, and then the others in the order of their arrival.
func (l *Lines) First(a *account.Account, most int) (first []*Candidate) {
	g := l.of[a]
	if g == nil {
		return nil
	}
	next := g.next()
	if next != nil {
		first = append(first, next)
	}
	for e := range g.queue.All() {
		if len(first) >= most {
			break
		}
		if e.Value != next {
			first = append(first, e.Value)
		}
	}
	return first
}

// next returns the candidate that is served next; nil where none is awake.
func (g *line) next() *Candidate {
	for _, e := range g.queue.Heads() {
		if !e.Value.yields {
			return e.Value
		}
	}
	return g.head()
}
