package lines

import (
	"cmp"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Host decides on candidates and charges them. It is the engine.
type Host interface {
	// Decide decides on a candidate as if nobody waited, and has its items say what came of that.
	Decide(c *Candidate, now account.Now) verdict.Verdict
	// Join gives each model of a candidate that is about to stand in line an account of its own.
	Join(c *Candidate, now account.Now)
	// Admit charges a candidate that passes, and returns its calls.
	Admit(c *Candidate, now account.Now) []*account.Call
	// IsHopeless reports whether a candidate that was decided upon cannot pass by its deadline.
	IsHopeless(c *Candidate, now account.Now) bool
}

// Class is what lines know of a class.
type Class struct {
	Share
	MaxQueue int  // how many of it may wait for one model; 0 for no bound
	Reserves bool // others leave it a share of each limit
}

// Lines are the lines of all accounts. They are not safe for concurrent use.
type Lines struct {
	host    Host
	classes map[string]Class // nil for none
	span    int64            // no wait within the minute is longer

	of      map[*account.Account]*line
	waiting int   // places in all lines
	seq     int64 // how many ever stood in line

	models, pools fifo    // that are to be served
	fresh         []*line // of models: whose next have to be woken in the lines of their pools first
	needy         []*line // whose heads wait for a place for a model
	torn          []*Candidate
	resting       queue[*line]
	patient       queue[*Waiter]
	progress      int  // rises with each service, departure and nap
	requeues      bool // those that leave a line come again

	done []*Waiter

	asleep map[int64]bool // processes whose waiters are passed over
}

// New returns lines without anybody.
func New(host Host) *Lines {
	return &Lines{host: host, of: make(map[*account.Account]*line)}
}

// Waiting returns how many places are taken in all lines.
func (l *Lines) Waiting() int { return l.waiting }

// SetSpan says how long a charge of the minute counts at most.
func (l *Lines) SetSpan(span int64) { l.span = span }

// TakeDone returns the waiters that have ended since it was called last, in that order.
func (l *Lines) TakeDone() []*Waiter {
	done := l.done
	l.done = nil
	return done
}

// HasDone reports whether TakeDone has any.
func (l *Lines) HasDone() bool { return len(l.done) > 0 }

// classOf returns a class by its name. A name of none is the class "".
func (l *Lines) classOf(name string) Class {
	c, ok := l.classes[name]
	if !ok {
		c = l.classes[""]
	}
	return c
}

// Queues reports whether a call of a class that comes now has to wait in line for an account,
// because others come first.
func (l *Lines) Queues(a *account.Account, class string) bool {
	g := l.of[a]
	if g == nil || g.queue.Len() == 0 {
		return false
	}
	c := l.classOf(class)
	return !g.queue.Leads(c.Share) && (len(l.classes) == 0 || !g.yieldsTo(c.Name))
}

// queued returns the first item of a candidate in whose line others come first; -1 for none.
func (l *Lines) queued(c *Candidate) int {
	if l.waiting == 0 {
		return -1
	}
	return slices.IndexFunc(c.Items, func(i verdict.Item) bool {
		return i.Account.Waiting > 0 && l.Queues(i.Account, c.Class)
	})
}

// Passed charges a class, in the lines of others, for items that passed without standing in line.
func (l *Lines) Passed(items []verdict.Item, class string) {
	if len(l.classes) == 0 {
		return
	}
	for i := range items {
		if g := l.of[items[i].Account]; g != nil && g.queue.Len() > 0 {
			g.queue.Pass(l.classOf(class).Share, partOf(&items[i], g.scarce))
			l.mark(g)
		}
	}
}

// Mark schedules the line of an account to be served, because something may let its head pass. A
// charge to a pool needs this, too: the pool may now deny a candidate that sleeps in its line,
// and that candidate then stands ahead of others.
func (l *Lines) Mark(a *account.Account) {
	if a.Waiting > 0 { // this much is inlined
		l.markLine(l.of[a])
	}
}

func (l *Lines) markLine(g *line) {
	if l.mark(g); g.isPool && len(l.torn) > 0 {
		l.markTorn(g)
	}
}

// MarkAll is Mark for all accounts.
func (l *Lines) MarkAll() {
	for _, g := range l.sorted() {
		l.mark(g)
	}
}

// MarkNeedy is Mark for the accounts whose heads wait for a place for a model.
func (l *Lines) MarkNeedy() {
	for _, g := range l.needy {
		g.needy = false
		l.mark(g)
	}
	l.needy = l.needy[:0]
}

// sorted returns the lines by the names of their accounts.
func (l *Lines) sorted() []*line {
	all := make([]*line, 0, len(l.of))
	for _, g := range l.of {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *line) int { return cmp.Compare(a.account.Name, b.account.Name) })
	return all
}

// Waiters returns all waiters in line, in the order of their arrival.
func (l *Lines) Waiters() (all []*Waiter) {
	for _, g := range l.of {
		for e := range g.queue.All() {
			if c := e.Value; c.places[0].entry == e && c.Waiter.firstInLine() == c {
				all = append(all, c.Waiter)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Waiter) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// firstInLine returns the first candidate of a waiter that stands in line; nil for none.
func (w *Waiter) firstInLine() *Candidate {
	if i := slices.IndexFunc(w.Candidates, (*Candidate).stands); i >= 0 {
		return w.Candidates[i]
	}
	return nil
}

func (l *Lines) mark(g *line) {
	if g.marked {
		return
	}
	g.marked = true
	if g.isPool {
		l.pools.put(g)
		return
	}
	l.models.put(g)
	l.fresh = append(l.fresh, g)
}

// lineOf returns the line of an account, made where there is none.
func (l *Lines) lineOf(a *account.Account) *line {
	g := l.of[a]
	if g == nil {
		g = &line{account: a, isPool: a.IsPool()}
		l.of[a] = g
	}
	return g
}
